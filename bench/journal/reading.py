"""Reads of journals that are copied, through the door, against bare SQL in the same files; and with records on top that are not copied."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

import headwater
from bench import mark
from bench.case import Case, Sample, Side
from bench.journal.filled import copy, fill, store_file
from bench.journal.opened import JOURNALS, PARTITIONS, PAYLOAD, id_of
from bench.place import Place
from bench.queue.opened import Clock
from bench.sizes import Sizes
from headwater.client.journals import TopicJournals
from headwater.core.errors import Differs
from headwater.log.partitioner import partition_for

if TYPE_CHECKING:
    import apsw

SHORT, LONG = 10, 1000  # events of a journal
_READS = {SHORT: 200, LONG: 4}  # journals that a round reads
_ON_TOP = 2  # records that the store lacks
_SQL = Path(__file__).with_name("rows.sql").read_text()
_CLOCKS = (("", time.perf_counter), (", processor time", time.process_time))


def reading(place: Place, sizes: Sizes) -> Iterator[Case]:
    """Every event decoded, on both sides."""
    with place.sub("reading") as folder:
        for events, count in ((SHORT, sizes.journals), (LONG, max(2, sizes.journals // 250))):
            data = folder / f"of-{events}"
            fill(data, journals=count, events=events, per_append=1)
            copy(data)
            with Reads.opened(data, count, events) as reads, BareReads.opened(data, count, events) as bare:
                for name, clock in _CLOCKS:
                    yield Case(
                        f"journal read of {events}{name}",
                        "event",
                        Side("read", partial(reads.round, _READS[events], clock)),
                        Side("bare SQL, payloads decoded", partial(bare.round, _READS[events], clock)),
                        mark.ratio(0.6) if events == SHORT else mark.slowdown(2),
                        rounds=sizes.turns if events == SHORT else None,
                    )
                if events == SHORT:
                    yield from _on_top(folder, sizes, reads)


def _on_top(folder: Path, sizes: Sizes, copied: Reads) -> Iterator[Case]:
    """Each journal with two records that the store lacks; both sides have as many events."""
    data, count = folder / "on-top", sizes.journals
    fill(data, journals=count, events=SHORT - _ON_TOP, per_append=1)
    copy(data)
    with Reads.opened(data, count, SHORT) as reads:
        reads.append(_ON_TOP)
        for name, clock in _CLOCKS:
            yield Case(
                f"journal read of {SHORT}, {_ON_TOP} of them not copied{name}",
                "event",
                Side("store and log", partial(reads.round, _READS[SHORT], clock)),
                Side("all copied", partial(copied.round, _READS[SHORT], clock)),
                mark.slowdown(1.5),
                rounds=max(1, sizes.turns // 2),
            )


class Reads:
    """Journals with so many events each, read through the door in random turns."""

    def __init__(self, runner: asyncio.Runner, topic: TopicJournals, ids: list[str], events: int) -> None:
        self._runner, self._topic, self._events = runner, topic, events
        self._all, self._next = ids, cycle(ids)

    @classmethod
    @contextmanager
    def opened(cls, data: Path, count: int, events: int) -> Iterator[Reads]:
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()

            async def opened() -> TopicJournals:
                hw = await stack.enter_async_context(headwater.open(data))
                return await hw.journals(JOURNALS)

            try:
                yield cls(runner, runner.run(opened()), shuffled(count), events)
            finally:
                runner.run(stack.aclose())

    def append(self, count: int) -> None:
        """One record more for each journal, so many times."""

        async def append() -> None:
            for _ in range(count):
                for at in range(0, len(self._all), 256):
                    await self._topic.append_many([(id, [PAYLOAD]) for id in self._all[at : at + 256]])

        self._runner.run(append())

    def round(self, reads: int, clock: Clock = time.perf_counter) -> Sample:
        return self._runner.run(self._read(list(islice(self._next, reads)), clock))

    async def _read(self, ids: list[str], clock: Clock) -> Sample:
        topic, count = self._topic, 0
        cpu, begun = time.process_time(), clock()
        for id in ids:
            async for event in topic[id].read():
                count += event.payload is not None
        sample = Sample(count, clock() - begun, time.process_time() - cpu)
        return _checked(sample, len(ids) * self._events)


class BareReads:
    """The same journals, read from the store's files by one prepared statement each, without the log and without a transaction."""

    def __init__(self, files: dict[str, apsw.Connection], events: int) -> None:
        self._files, self._events, self._next = files, events, cycle(files)

    @classmethod
    @contextmanager
    def opened(cls, data: Path, count: int, events: int) -> Iterator[BareReads]:
        import apsw

        with ExitStack() as stack:
            files = [apsw.Connection(str(store_file(data, number))) for number in range(PARTITIONS)]
            for file in files:
                stack.callback(file.close)
            yield cls({id: files[partition_for(id.encode(), PARTITIONS)] for id in shuffled(count)}, events)

    def round(self, reads: int, clock: Clock = time.perf_counter) -> Sample:
        ids, decode, count = list(islice(self._next, reads)), msgspec.json.decode, 0
        cpu, begun = time.process_time(), clock()
        for id in ids:
            rows = self._files[id].execute(_SQL, (id,)).fetchall()
            count += len([(row, decode(row[8])) for row in rows])
        sample = Sample(count, clock() - begun, time.process_time() - cpu)
        return _checked(sample, len(ids) * self._events)


def shuffled(count: int) -> list[str]:
    """The ids of so many journals, in an order that is the same on every side."""
    ids = [id_of(number) for number in range(count)]
    Random(1).shuffle(ids)
    return ids


def _checked(sample: Sample, expected: int) -> Sample:
    if sample.amount != expected:
        raise Differs(f"{sample.amount} events were read, not {expected}.", hint="Keep the folder.")
    return sample
