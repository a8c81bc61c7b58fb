"""Reading records here and there, a hundred offsets at a time, against `os.pread` of the same bytes at places that are known."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.place import TOPIC, Place, encoded, segments
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.log.embedded.log import EmbeddedLog

_AT_ONCE = 100
_MARK = mark.time(10e-6, "≤ 10 µs of CPU time each")


def scattered(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Records that were appended in batches of 1, 10 and 1000. In the thread's CPU time: it is the same however busy the machine is."""
    random = Random(1)
    for per_batch in (1, 10, 1000):
        count = sizes.records if per_batch == 1000 else max(_AT_ONCE, sizes.records // 10)
        calls = [[random.randrange(count) for _ in range(_AT_ONCE)] for _ in range(max(1, sizes.scattered // _AT_ONCE))]
        with place.filled(count, per_batch=per_batch) as folder:
            fd = os.open(segments(folder)[0], os.O_RDONLY)
            try:
                bare = Side("os.pread", partial(_bare, fd, calls, per_batch))
                with EmbeddedLog(folder, read_only=True) as log:
                    again = Side("log.read_at", partial(_read_at, log, calls))
                    yield Case(f"read at 100 offsets, batches of {per_batch}", "record", again, bare, _MARK, shown="time")
                first = Side("log.read_at of a fresh log", partial(_first, folder, calls[:1], by_offset=True))
                single = Side("log.read of one each", partial(_first, folder, calls[:1], by_offset=False))
                yield Case(f"read at 100 offsets for the first time, batches of {per_batch}", "record", first, single, shown="time")
            finally:
                os.close(fd)


def _read_at(log: EmbeddedLog, calls: list[list[int]]) -> Sample:
    """The first round checks the batches; it is the one that warms up."""
    begun = time.thread_time()
    answers = [log.read_at(TOPIC, 0, offsets) for offsets in calls]
    seconds = time.thread_time() - begun
    for offsets, records in zip(calls, answers, strict=True):
        if offsets != [record.offset for record in records if record is not None]:
            raise Differs("Other records were read than asked for.", hint="Run `headwater log check` on the log.")
    return Sample(len(calls) * _AT_ONCE, seconds, seconds)


def _first(folder: Path, calls: list[list[int]], *, by_offset: bool) -> Sample:
    """Through a log that has checked nothing yet, and has only its end and its first record read."""
    with EmbeddedLog(folder, read_only=True) as log:
        log.read_at(TOPIC, 0, [0])
        if by_offset:
            return _read_at(log, calls)
        begun = time.thread_time()
        for offset in calls[0]:
            log.read(TOPIC, 0, offset, limit=1)
        seconds = time.thread_time() - begun
    return Sample(_AT_ONCE, seconds, seconds)


def _bare(fd: int, calls: list[list[int]], per_batch: int) -> Sample:
    record_size, batch = encoded(1) - encoded(0), encoded(per_batch)
    begun = time.thread_time()
    for offsets in calls:
        for offset in offsets:
            os.pread(fd, record_size, offset // per_batch * batch + offset % per_batch * record_size)
    seconds = time.thread_time() - begun
    return Sample(len(calls) * _AT_ONCE, seconds, seconds)
