"""Starts a Spark session with the settings on stdin, runs one small job, and prints one JSON line. `headwater doctor --spark` runs it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.core.settings import SparkSettings


def probe(settings: SparkSettings) -> dict[str, Any]:
    """The result: the version, or the error and its hint."""
    from headwater.spark import session

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    try:
        spark = session(settings, name="headwater doctor", archive="use")
        try:
            rows = spark.range(0, 100, 1, 2).mapInArrow(same, "id long").count()
            version = spark.version
        finally:
            spark.stop()
    except HeadwaterError as error:
        return {"problem": error.message, "hint": error.hint}
    if rows != 100:
        return {"problem": f"Spark counted {rows} rows instead of 100.", "hint": "Report this: it must not happen."}
    return {"version": version}


if __name__ == "__main__":
    answer = probe(pickle.loads(sys.stdin.buffer.read()))
    sys.stdout.write("\n" + msgspec.json.encode(answer).decode() + "\n")
