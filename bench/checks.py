"""Checking every batch of a partition, as `headwater log check` does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import mark
from bench.case import Case, Side, Skipped, timed
from bench.floor import bare_read
from bench.place import TOPIC, Place, segments
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.log.embedded.check import Checked
from headwater.log.embedded.check import check as check_partition
from headwater.log.embedded.log import EmbeddedLog


def check(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """In bytes where batches hold 1000 or 100 records; in batches where they hold one."""
    for per_batch in (1000, 100):
        with place.filled(sizes.records, per_batch=per_batch) as folder:
            yield Case(
                f"check, batches of {per_batch}",
                "byte",
                Side("log check", timed(partial(_bytes, folder, sizes.records))),
                Side("read() + crc32c", timed(partial(bare_read, segments(folder), summed=True))),
                mark.rate(0.5e9, "≥ 0.5 GB/s"),
            )
    with place.filled(sizes.records, per_batch=1) as folder:
        yield Case(
            "check, batches of 1",
            "batch",
            Side("log check", timed(lambda: _check(folder, sizes.records).records)),
            Side("read() + crc32c", timed(lambda: bare_read(segments(folder), summed=True) and sizes.records)),
            mark.rate(1e6, "≥ 1 M batches/s"),
        )


def _bytes(folder: Path, expected: int) -> int:
    return _check(folder, expected).bytes


def _check(folder: Path, expected: int) -> Checked:
    with EmbeddedLog(folder, read_only=True) as log:
        report = check_partition(log.reader(TOPIC, 0))
    if report.damage or report.records != expected:
        raise Differs(f"{report.records} records of {expected} are right.", hint=f"Look at {report.damage}.")
    return report
