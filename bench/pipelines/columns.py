"""JSON lines to Parquet, against dlt's path for Arrow's tables and against Spark alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.peers.dlt import Dlt
from bench.pipelines import documents, outcome
from bench.pipelines.moving import moved
from bench.pipelines.rawspark import RawSpark, warm
from bench.sizes import Sizes
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def columns(folder: Path, sizes: Sizes, session: SparkSession, dlt: Dlt | str) -> Iterator[Case | Skipped]:
    count = sizes.documents
    source, whole = documents.lines(folder / "in.jsonl", count), documents.table(count)
    check = partial(outcome.of_parquet, expected=whole)

    def built(pipeline: Pipeline, out: Path) -> None:
        pipeline.source("in", file(str(source))).save("out", file(f"{out}/", format="parquet"))

    ours = Side("pipeline", moved(folder, count, built, check))
    if isinstance(dlt, str):
        yield Skipped("jsonl → parquet beside dlt", dlt)
    else:
        other = Side(f"dlt {dlt.version}, Arrow's tables", lambda: _by_dlt(dlt, source, whole))
        yield Case("jsonl → parquet beside dlt", "document", ours, other, mark.ratio(1), rounds=sizes.few)
    raw = RawSpark(session, folder / "raw")
    peer = Side("Spark json → parquet", lambda: raw.parquet(source, count, check))
    warm(peer, sizes)
    yield Case("jsonl → parquet", "document", ours, peer, rounds=sizes.few)
    source.unlink()


def _by_dlt(dlt: Dlt, source: Path, expected: pa.Table) -> Sample:
    seconds, out = dlt.move("jsonl → parquet", str(source))
    outcome.of_parquet(out.iterdir(), expected)
    return Sample(expected.num_rows, seconds)
