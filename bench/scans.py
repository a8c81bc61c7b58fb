"""Reading a whole partition, as Arrow batches and as records, against `read()` of the same bytes. Every batch's checksum is verified."""

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
from headwater.log.embedded.log import EmbeddedLog

_SCANS = {1000: mark.rate(6e6, "≥ 6 M records/s"), 1: mark.rate(2.5e6, "≥ 2.5 M records/s")}
_READS = mark.rate(0.9e6, "≥ 0.9 M records/s")


def scan(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Records that were appended in batches of 1000, and one by one."""
    for per_batch in (1000, 1):
        with place.filled(sizes.records, per_batch=per_batch) as folder:
            files, suffix = segments(folder), "" if per_batch > 1 else ", batches of 1"
            floor = Side("read()", timed(partial(_floor, files, sizes.records)))
            arrow = Side("log.scan", timed(partial(scan_arrow, folder, sizes.records)))
            yield Case(f"scan to Arrow{suffix}", "record", arrow, floor, _SCANS[per_batch])
            plain = Side("log.read, 1000 at a time", timed(partial(read_records, folder, sizes.records)))
            yield Case(f"read records{suffix}", "record", plain, floor, _READS if per_batch > 1 else None, rounds=sizes.few)


def scan_arrow(folder: Path, expected: int) -> int:
    """Through a log of its own: an open one remembers what it has checked, and would not check it again."""
    with EmbeddedLog(folder, read_only=True) as log:
        return _all(sum(rows.num_rows for rows in log.scan(TOPIC, 0, 0)), expected)


def read_records(folder: Path, expected: int) -> int:
    at = 0
    with EmbeddedLog(folder, read_only=True) as log:
        while records := log.read(TOPIC, 0, at, limit=1000):
            at += len(records)
    return _all(at, expected)


def _floor(files: list[Path], count: int) -> int:
    bare_read(files)
    return count


def _all(count: int, expected: int) -> int:
    if count != expected:
        raise Differs(f"{count} records were read of {expected}.", hint="Run `headwater log check` on the log.")
    return count
