"""Many asyncio callers, each waiting for its one record to be synced, through group commit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import uvloop

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.floor import BareWrites
from bench.place import TOPIC, Place, encoded, records
from bench.sizes import Sizes
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.group_commit import Appender

_COUNTS = (1, 16, 64, 256, 1024)
_MARKS = {1: mark.ratio(0.5), 64: mark.ratio(0.45), 1024: mark.rate(160_000, "≥ 160 k records/s")}
_UVLOOP = mark.rate(220_000, "≥ 220 k records/s")

Loop = Callable[[], asyncio.AbstractEventLoop]


def callers(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """n callers against a bare loop that writes n ready records per sync: the best that grouping could do."""
    for count in _COUNTS:
        yield from _cases(place, sizes, count, "", asyncio.new_event_loop, _MARKS.get(count))
    yield from _cases(place, sizes, _COUNTS[-1], ", uvloop", uvloop.new_event_loop, _UVLOOP)  # the loop that the server runs on


def _cases(place: Place, sizes: Sizes, count: int, suffix: str, loop: Loop, expected: mark.Mark | None) -> Iterator[Case]:
    each = max(1, min(sizes.callers, 400 * count) // count)  # one caller waits for each sync: fewer rounds of it
    with place.log("callers") as log, BareWrites(log.data / "bare", encoded(count)) as bare:
        yield Case(
            f"callers {count}{suffix}",
            "record",
            Side("group commit", lambda: _round(log, count, each, loop)),
            Side(f"os.write + fdatasync, {count} ready", lambda: bare.round(each, count)),
            expected,
        )


def _round(log: EmbeddedLog, count: int, each: int, loop: Loop) -> Sample:
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(_together(log, count, each))


async def _together(log: EmbeddedLog, count: int, each: int) -> Sample:
    appender = Appender(lambda batch: log.append(TOPIC, 0, batch))
    one_record = records(1)

    async def caller() -> None:
        for _ in range(each):
            await appender.append(one_record)

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(count)))
    seconds = time.perf_counter() - begun
    await appender.aclose()
    return Sample(count * each, seconds)
