"""The log of a directory (or of Kafka), in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from headwater.client.log import AsyncLog, check_place, check_read
from headwater.client.watch import Watch
from headwater.core.clock import Clock
from headwater.core.errors import Closed, UnknownTopic
from headwater.core.metrics import LogMetrics
from headwater.core.settings import Settings
from headwater.log import Engine, Log
from headwater.log.group_commit import Appender
from headwater.log.opening import LogAddress, open_log
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings

T = TypeVar("T")
Place = tuple[str, int]

_SMALL = 100  # records: reading so few takes less time than handing the work to a thread
_SMALL_BYTES = 1 << 20
_PAGE_BYTES = 8 << 20
_PAUSE = {"embedded": 0.002, "kafka": 0.05}  # seconds between two looks at the end: at a word in memory, or at a broker


class LocalLog(AsyncLog):
    """A `Log` for asyncio: appends share syncs, small reads happen at once, what may take long happens in a thread.

    `settings` are those of topics that are created without any.
    """

    def __init__(self, log: Log, *, settings: TopicSettings | None = None) -> None:
        self._log, self._settings = log, settings
        self._warm: set[Place] = set()
        self._appenders: dict[Place, Appender] = {}
        self._watches: dict[Place, Watch] = {}
        self._closed = False

    @property
    def engine(self) -> Engine:
        return self._log.engine

    # -- topics -----------------------------------------------------------------------------------------------

    async def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None) -> Topic:
        return (await self.make_topic(name, partitions=partitions, settings=settings))[0]

    async def make_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None) -> tuple[Topic, bool]:
        """`create_topic`, and whether it was not there before."""
        try:
            await self.topic(name)
            new = False
        except UnknownTopic:
            new = True
        usual = self._settings if new else None
        return await self._thread(lambda: self._log.create_topic(name, partitions=partitions, settings=settings or usual)), new

    async def topics(self) -> list[Topic]:
        return await self._thread(self._log.topics)

    async def topic(self, name: str) -> Topic:
        return await self._thread(lambda: self._log.topic(name))

    async def delete_topic(self, name: str) -> None:
        await self._thread(lambda: self._log.delete_topic(name))
        self._warm = {place for place in self._warm if place[0] != name}

    # -- writing ----------------------------------------------------------------------------------------------

    async def append(self, topic: str, partition: int, records: Sequence[Record]) -> Sequence[int]:
        self._open()
        place = (topic, partition)
        appender = self._appenders.get(place)
        if appender is None:
            # Looked up first: a thread for every name that somebody mistypes would stay until the end.
            await self.bounds(topic, partition)
            self._open()
            appender = self._appenders.get(place)
            if appender is None:
                appender = Appender(lambda batch: self._log.append(topic, partition, batch), name=f"{topic}-{partition}")
                self._appenders[place] = appender
        return await appender.append(records)

    # -- reading ----------------------------------------------------------------------------------------------

    async def bounds(self, topic: str, partition: int) -> Bounds:
        return await self._quick(topic, partition, lambda: self._log.bounds(topic, partition))

    async def all_bounds(self, topic: Topic) -> list[Bounds]:
        """The bounds of every partition of a topic."""
        return await self._thread(lambda: [self._log.bounds(topic.name, number) for number in range(topic.partitions)])

    async def read(self, topic: str, partition: int, start: int, *, limit: int = 1000) -> list[Record]:
        check_place(topic, partition)
        check_read(start, limit)
        if limit <= _SMALL:
            return await self._quick(topic, partition, lambda: self._log.read(topic, partition, start, limit=limit, max_bytes=_SMALL_BYTES))
        return await self._thread(lambda: self._log.read(topic, partition, start, limit=limit, max_bytes=_PAGE_BYTES))

    async def tail(self, topic: str, partition: int, start: int | None = None) -> AsyncGenerator[Record]:
        if start is None:
            start = (await self.bounds(topic, partition)).end
        async for records in self.follow(topic, partition, start):
            for record in records:
                yield record

    async def follow(self, topic: str, partition: int, start: int) -> AsyncGenerator[list[Record]]:
        """`tail`, in batches as they come. Many followers of a partition cost little more than one."""
        while True:
            end = (await self.bounds(topic, partition)).end
            records = await self.read(topic, partition, start)
            if records:
                yield records
                start = (records[-1].offset or 0) + 1
            else:
                start = max(start, end)  # what lies between holds no records: brokers' own, or compacted away
                await self._watch(topic, partition).beyond(start)

    async def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        return await self._thread(lambda: self._log.offset_at(topic, partition, timestamp))

    # -- housekeeping -----------------------------------------------------------------------------------------

    async def delete_before(self, topic: str, partition: int, offset: int) -> int:
        return await self._thread(lambda: self._log.delete_before(topic, partition, offset))

    async def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        return await self._thread(lambda: self._log.compact(topic, partition, before))

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        for watch in self._watches.values():
            watch.stop(_closed())
        await asyncio.gather(*(appender.aclose() for appender in self._appenders.values()))
        await asyncio.to_thread(self._log.close)

    # -- where it runs ----------------------------------------------------------------------------------------

    async def _thread(self, call: Callable[[], T]) -> T:
        self._open()
        return await asyncio.to_thread(call)

    async def _quick(self, topic: str, partition: int, call: Callable[[], T]) -> T:
        """At once where that is a look into memory. The first look at a partition opens it, which may take long; Kafka always may."""
        self._open()
        check_place(topic, partition)
        if (topic, partition) in self._warm:
            return call()
        result = await asyncio.to_thread(call)
        if self._log.engine == "embedded":
            self._warm.add((topic, partition))
        return result

    def _watch(self, topic: str, partition: int) -> Watch:
        place = (topic, partition)
        if place not in self._watches:

            async def end() -> int:
                return (await self.bounds(topic, partition)).end

            self._watches[place] = Watch(end, pause=_PAUSE[self._log.engine])
        return self._watches[place]

    def _open(self) -> None:
        if self._closed:
            raise _closed()


def _closed() -> Closed:
    return Closed("This log is closed.", hint="Open it again.")


def address_of(settings: Settings, data: Path) -> LogAddress:
    """Where the log is that the settings describe."""
    return LogAddress(
        engine=settings.log.engine,
        path=str(data),
        servers=",".join(settings.kafka.bootstrap),
        replication=settings.kafka.replication or 0,
        client=dict(settings.kafka.client),
    )


async def open_local(settings: Settings, data: Path, clock: Clock, metrics: LogMetrics | None = None) -> LocalLog:
    """The log that the settings describe, with its files below `data`. Errors: those of `open_log`."""
    log = await asyncio.to_thread(lambda: open_log(address_of(settings, data), clock=clock, metrics=metrics))
    return LocalLog(log, settings=TopicSettings(segment=int(settings.log.segment), max_record=int(settings.log.max_record)))
