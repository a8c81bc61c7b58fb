"""Encoding records that carry one header, against the same records without it, in the thread's own processor time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.place import Place, records
from bench.sizes import Sizes
from headwater.log.encoding import encode
from headwater.log.record import Record

_COUNTS = (1, 10, 100, 1000)
_HEADER = (("trace-id", b"12345678"),)


def encoding(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Batches of 1, 10, 100 and 1000: each size has a way of its own through the encoder."""
    for count in _COUNTS:
        plain = records(count)
        marked = [msgspec.structs.replace(record, headers=_HEADER) for record in plain]
        times = max(1, sizes.encoded // count)
        yield Case(
            f"encode {count} with a header",
            "record",
            Side("one header each", partial(_round, marked, times)),
            Side("the same without", partial(_round, plain, times)),
            mark.ratio(0.5),
        )


def _round(batch: Sequence[Record], times: int, clock: Callable[[], float] = time.thread_time) -> Sample:
    begun = clock()
    for _ in range(times):
        encode(batch, now=0)
    seconds = clock() - begun
    return Sample(times * len(batch), seconds, seconds)
