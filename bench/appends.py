"""Appending in batches, each acknowledged once it is synced, against a bare loop of write and sync."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.floor import BareWrites
from bench.place import TOPIC, Clocked, Place, Unsynced, columns, encoded, records
from bench.sizes import Sizes

_MARKS = {1: mark.ratio_on_slow_disks(0.95, 0.0002), 10: mark.ratio(1.0), 100: mark.ratio(1.2), 1000: mark.ratio(0.65)}


def append(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """1, 10, 100 and 1000 records per sync, and what one append costs beside the disk."""
    for per_sync in sizes.appends:
        batch = records(per_sync)
        # The floor's file lies in the log's folder: the same disk, the same file system.
        with place.log("append") as log, BareWrites(log.data / "bare", encoded(per_sync)) as bare:
            yield _case(sizes, f"append {per_sync}", per_sync, partial(log.append, TOPIC, 0, batch), bare)
    yield from _own_time(place, sizes)


def _own_time(place: Place, sizes: Sizes) -> Iterator[Case]:
    """What an append of one record costs beside the sync, as callers meet it: every sync leaves the processor's caches to others."""
    batch, expected = records(1), mark.own_time(20e-6)
    files, count = Clocked(), sizes.appends[1]
    with place.log("own", files=files) as log, BareWrites(log.data / "bare", encoded(1)) as bare:

        def beside() -> Sample:
            before = files.syncing
            whole = appends(partial(log.append, TOPIC, 0, batch), count)
            return Sample(count, whole.seconds - (files.syncing - before))

        yield Case(
            "append 1, beside the sync",
            "append",
            Side("log.append", beside),
            Side("os.write", partial(bare.writing, count)),
            expected,
            shown="time",
            rounds=sizes.turns,
        )
    # Without a sync nothing waits: this thread's time on the processor is the same however busy the machine is.
    count *= 20
    with place.log("own", files=Unsynced()) as log, BareWrites(log.data / "bare", encoded(1), synced=False) as bare:
        yield Case(
            "append 1, CPU time in a loop without syncs",
            "append",
            Side("log.append", partial(appends, partial(log.append, TOPIC, 0, batch), count, clock=time.thread_time)),
            Side("os.write", partial(bare.round, count, clock=time.thread_time)),
            expected,
            shown="time",
        )


def append_arrow(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """1000 records per sync, given as columns."""
    rows = columns(0, 1000)
    with place.log("append-arrow") as log, BareWrites(log.data / "bare", encoded(1000)) as bare:
        yield _case(sizes, "append_arrow 1000", 1000, partial(log.append_arrow, TOPIC, 0, rows), bare)


def _case(sizes: Sizes, name: str, per_sync: int, call: Callable[[], object], bare: BareWrites) -> Case:
    count = sizes.appends[per_sync]
    return Case(
        name,
        "record",
        Side("log.append", partial(appends, call, count, per_sync)),
        Side("os.write + fdatasync", partial(bare.round, count, per_sync)),
        _MARKS.get(per_sync),
        rounds=sizes.turns,
    )


def appends(call: Callable[[], object], count: int, pieces: int = 1, clock: Callable[[], float] = time.perf_counter) -> Sample:
    """Call `count` times; one call counts as so many pieces."""
    begun = clock()
    for _ in range(count):
        call()
    return Sample(count * pieces, clock() - begun)
