"""A Spark session for each module that needs one, and a log to read from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from quick_spark import quick

from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME = 1_700_000_000_000  # 2023-11-14T22:13:20Z


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    started = session(quick(), archive="use")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLog]:
    """Topic `orders`: two partitions of 1000 records each, one a second; those of partition 1 have headers, and each tenth no value."""
    with EmbeddedLog(tmp_path_factory.mktemp("data")) as opened:
        opened.create_topic("orders", partitions=2)
        for first in range(0, 1000, 100):
            opened.append("orders", 0, [Record(b"k%d" % i, b"v%d" % i, timestamp=TIME + i * 1000) for i in range(first, first + 100)])
            opened.append("orders", 1, [odd(i) for i in range(first, first + 100)])
        yield opened


def odd(i: int) -> Record:
    return Record(
        b"k%d" % i,
        None if i % 10 == 0 else b"v%d" % i,
        headers=(("source", b"shop"), ("empty", None)),
        timestamp=TIME + i * 1000,
        mode=i % 3,
        op=i % 8,
    )


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """A file that does not exist yet: by it a task can tell that it ran before."""
    return tmp_path / "flag"
