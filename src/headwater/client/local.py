"""The log of a directory (or of Kafka), in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headwater.client.log import AsyncLog
from headwater.client.watch import Watch
from headwater.core.clock import Clock
from headwater.core.errors import Closed, Damaged, HeadwaterError, OutcomeUnknown, UnknownTopic
from headwater.core.metrics import LogMetrics
from headwater.core.settings import Settings
from headwater.log import Engine, Log
from headwater.log.answers import PartitionContent, Placed
from headwater.log.json_form import checked_key, given_settings, read_settings, show_settings
from headwater.log.opening import address_of, open_log
from headwater.log.operations import check_place, check_read
from headwater.log.owners import check_owner
from headwater.log.partitioner import places
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings

if TYPE_CHECKING:
    from headwater.log.group_commit import Appender

T = TypeVar("T")
Place = tuple[str, int]

_SMALL = 100  # records: reading so few takes less time than a thread's wake-up
SMALL_BYTES = 1 << 20
_PAGE_BYTES = 8 << 20
_FOLLOWED = 1000  # records in one batch of a follower


class LocalLog(AsyncLog):
    """A `Log` for asyncio: appends share syncs, small reads run on the event loop, long calls in a thread.

    `opening` opens the log; it may take long, and fail. `settings` are the defaults of new topics.
    """

    def __init__(self, opening: Callable[[], Log], *, settings: TopicSettings | None = None) -> None:
        self._opening, self.usual = opening, settings or TopicSettings()
        """`usual`: the settings of a new topic that is given none."""
        self._log: Log | None = None
        self._being_opened: asyncio.Task[Log] | None = None
        self._warm: set[Place] = set()
        self._appenders: dict[Place, Appender] = {}
        self._watches: dict[Place, Watch] = {}
        self._closed = False

    async def open(self) -> Log:
        """Open the log in a thread, once; every other call waits for that. Errors: those of `open_log`."""
        if self._log is None:
            if self._being_opened is None:
                self._being_opened = asyncio.create_task(asyncio.to_thread(self._opening))
                self._being_opened.add_done_callback(lambda late: late.cancelled() or late.exception())  # its callers may have given up
            self._log = await asyncio.shield(self._being_opened)
        return self._log

    @property
    def opened(self) -> Log | None:
        """The log, where it is open already."""
        return self._log

    async def engine(self) -> Engine:
        return (await self.open()).engine

    # -- topics -----------------------------------------------------------------------------------------------

    async def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | Mapping[str, str] | None = None) -> Topic:
        return (await self.make_topic(name, partitions=partitions, settings=settings))[0]

    async def make_topic(
        self, name: str, *, partitions: int = 1, settings: TopicSettings | Mapping[str, str] | None = None
    ) -> tuple[Topic, bool]:
        """As `create_topic`; also returns whether the topic is new."""
        if settings is not None and not isinstance(settings, TopicSettings):
            new_settings = read_settings({**show_settings(self.usual), **given_settings(settings)}) if settings else None
            return await self.make_topic(name, partitions=partitions, settings=new_settings)
        try:
            await self.topic(name)
            new = False
        except (UnknownTopic, Damaged):  # a description that is missing is made anew; one that is rotten is refused again
            new = True
        usual = self.usual if new else None
        return await self._thread(lambda log: log.create_topic(name, partitions=partitions, settings=settings or usual)), new

    async def topics(self) -> list[Topic]:
        return await self._thread(lambda log: log.topics())

    async def topic(self, name: str) -> Topic:
        return await self._thread(lambda log: log.topic(name))

    async def delete_topic(self, name: str) -> None:
        await self._thread(lambda log: log.delete_topic(name))
        self._warm = {place for place in self._warm if place[0] != name}
        ended = [self._appenders.pop(place) for place in list(self._appenders) if place[0] == name]
        await asyncio.gather(*(appender.aclose() for appender in ended))

    # -- writing ----------------------------------------------------------------------------------------------

    async def append(self, topic: str, partition: int, records: Sequence[Record]) -> Sequence[int]:
        log = await self._opened()
        appender = self._appenders.get((topic, partition)) if type(partition) is int else None  # a dict finds 0 for 0.0 and False, too
        if appender is None:
            # Look the topic up first: otherwise every mistyped name would leave a thread behind.
            await self.bounds(topic, partition)
            check_owner(topic, (await self.topic(topic)).settings.owner, "", "append")
            await self._opened()
            appender = self._appender(log, topic, partition)
        return await appender.append(records)

    def appender(self, topic: str, partition: int) -> Appender | None:
        """The appender of a partition that has had an append; None for others, and once the log is closed."""
        return None if self._closed else self._appenders.get((topic, partition))

    def _appender(self, log: Log, topic: str, partition: int) -> Appender:
        place = (topic, partition)
        if place not in self._appenders:
            from headwater.log.group_commit import Appender

            self._appenders[place] = Appender(
                lambda batch: log.append(topic, partition, batch),
                inline=lambda batch: log.append_inline(topic, partition, batch),
                name=f"{topic}-{partition}",
            )
        return self._appenders[place]

    async def append_by_key(self, topic: str, records: Sequence[Record]) -> list[Placed]:
        described = await self.topic(topic)
        by_partition = places(topic, records, described.partitions)
        batches = {partition: [records[index] for index in indexes] for partition, indexes in by_partition.items()}
        if len(batches) > 1:  # otherwise the other partitions would have taken theirs when one refuses
            await self._thread(lambda log: _check(log, topic, list(batches.values())))
        appends = [self.append(topic, partition, batch) for partition, batch in batches.items()]
        outcomes = dict(zip(by_partition, await asyncio.gather(*appends, return_exceptions=True), strict=True))
        taken = {partition: offsets for partition, offsets in outcomes.items() if not isinstance(offsets, BaseException)}
        failed = {partition: error for partition, error in outcomes.items() if isinstance(error, BaseException)}
        if failed:
            raise partly_appended(topic, taken, failed)
        placed = {
            index: Placed(partition, offset)
            for partition, offsets in taken.items()
            for index, offset in zip(by_partition[partition], offsets, strict=True)
        }
        return [placed[index] for index in range(len(placed))]

    # -- reading ----------------------------------------------------------------------------------------------

    async def stats(self, topic: str) -> list[PartitionContent]:
        from headwater.log.content import content_of

        return await self._thread(lambda log: content_of(log, topic))

    async def bounds(self, topic: str, partition: int) -> Bounds:
        return await self._quick(topic, partition, lambda log: log.bounds(topic, partition))

    async def all_bounds(self, topic: Topic) -> list[Bounds]:
        """The bounds of every partition of a topic."""
        return await self._thread(lambda log: [log.bounds(topic.name, number) for number in range(topic.partitions)])

    async def read(
        self, topic: str, partition: int, start: int, *, limit: int = 1000, stop: int | None = None, key: bytes | None = None
    ) -> list[Record]:
        check_place(topic, partition)
        check_read(start, limit, stop)
        if key is not None:
            return (await self.search(topic, partition, start, stop, checked_key(key), limit=limit))[0]
        if stop is not None:
            records = await self.read(topic, partition, start, limit=max(1, min(limit, stop - start)))
            return [record for record in records if record.offset is not None and record.offset < stop]
        if limit <= _SMALL:
            return await self._quick(topic, partition, lambda log: log.read(topic, partition, start, limit=limit, max_bytes=SMALL_BYTES))
        return await self._thread(lambda log: log.read(topic, partition, start, limit=limit, max_bytes=_PAGE_BYTES))

    async def search(
        self, topic: str, partition: int, start: int, stop: int | None, key: bytes, *, limit: int, most: int | None = None
    ) -> tuple[list[Record], int]:
        """`records_with_key` up to `stop`, or up to the durable end."""
        from headwater.log.search import records_with_key

        def search(log: Log) -> tuple[list[Record], int]:
            end = log.bounds(topic, partition).end
            end = max(start, end if stop is None else min(stop, end))
            return records_with_key(log, topic, partition, start, end, key, limit=limit, most=most)

        return await self._thread(search)

    async def tail(self, topic: str, partition: int, start: int | None = None) -> AsyncGenerator[Record]:
        check_read(start)
        if start is None:
            start = (await self.bounds(topic, partition)).end
        async for records in self.follow(topic, partition, start):
            for record in records:
                yield record

    async def follow(self, topic: str, partition: int, start: int) -> AsyncGenerator[list[Record]]:
        """As `tail`, in batches. Many followers of a partition cost little more than one, and nothing while no record comes."""
        async with self.watched(topic, partition) as watch:
            end = watch.end()
            while True:
                # Read few records here: waking a thread would take longer than reading them.
                records = await self.read(topic, partition, start, limit=min(max(end - start, 1), _FOLLOWED))
                if records:
                    yield records
                    start = (records[-1].offset or 0) + 1
                else:
                    start = max(start, end)  # no records lie between: brokers' own, or compacted away
                end = await watch.beyond(start)

    async def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        return await self._thread(lambda log: log.offset_at(topic, partition, timestamp))

    # -- housekeeping -----------------------------------------------------------------------------------------

    async def delete_before(self, topic: str, partition: int, offset: int) -> int:
        return await self._thread(lambda log: log.delete_before(topic, partition, offset))

    async def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        return await self._thread(lambda log: log.compact(topic, partition, before))

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        for watch in self._watches.values():
            watch.stop(_closed())
        await asyncio.gather(*(appender.aclose() for appender in self._appenders.values()))
        if self._being_opened is not None:
            (log,) = await asyncio.gather(self._being_opened, return_exceptions=True)
            if not isinstance(log, BaseException):
                await asyncio.to_thread(log.close)

    # -- where it runs ----------------------------------------------------------------------------------------

    @property
    def now(self) -> Log | None:
        """The open log; None before it is open and after it is closed."""
        return None if self._closed else self._log

    def ready(self, topic: str, partition: int) -> Log | None:
        """The open log, if small reads of this partition only read memory; None otherwise, and once the log is closed."""
        return self._log if (topic, partition) in self._warm and not self._closed else None

    async def work(self, call: Callable[[Log], T]) -> T:
        """Call a function with the log in a thread."""
        return await self._thread(call)

    async def _thread(self, call: Callable[[Log], T]) -> T:
        return await asyncio.to_thread(call, await self._opened())

    async def _quick(self, topic: str, partition: int, call: Callable[[Log], T]) -> T:
        """Call it here if it only reads memory. The first call for a partition opens it, which may take long, and so may any call to
        Kafka."""
        log = await self._opened()
        check_place(topic, partition)
        if (topic, partition) in self._warm:
            return call(log)
        result = await asyncio.to_thread(call, log)
        if log.engine == "embedded":
            self._warm.add((topic, partition))
        return result

    @asynccontextmanager
    async def watched(self, topic: str, partition: int) -> AsyncGenerator[Watch]:
        """The watch that all followers of a partition share."""
        check_place(topic, partition)
        place = (topic, partition)
        watch = self._watches.get(place)
        if watch is None or watch.over:
            watch = self._watches[place] = Watch(lambda changed: self._thread(lambda log: log.watch(topic, partition, changed)))
        try:
            async with watch:
                yield watch
        finally:
            if watch.over and self._watches.get(place) is watch:
                del self._watches[place]

    async def _opened(self) -> Log:
        if self._closed:
            raise _closed()
        return self._log or await self.open()


def _check(log: Log, topic: str, batches: Sequence[Sequence[Record]]) -> None:
    for batch in batches:
        log.check_records(topic, batch)


def partly_appended(topic: str, taken: Mapping[int, Sequence[int]], failed: Mapping[int, BaseException]) -> BaseException:
    """The error of an append by key that failed in some partitions.

    Their own error, where certainly nothing was appended; otherwise `OutcomeUnknown`, with the outcome of each partition.
    """
    errors = {partition: error for partition, error in failed.items() if isinstance(error, HeadwaterError)}
    certain = not taken and not any(isinstance(error, OutcomeUnknown) for error in errors.values())
    if certain or len(errors) < len(failed) or len(taken) + len(failed) == 1:
        return next((error for error in failed.values() if not isinstance(error, HeadwaterError)), next(iter(failed.values())))
    appended_ranges = "; ".join(
        f"partition {number} at {', '.join(map(str, offsets[:5]))}{', ...' * (len(offsets) > 5)}" for number, offsets in taken.items()
    )
    known = (
        f"Only a part was appended to {topic}: {appended_ranges}." if taken else f"Whether records were appended to {topic} is not known."
    )
    return OutcomeUnknown(
        " ".join((known, *(f"Partition {partition}: {error.message}" for partition, error in errors.items()))),
        hint=f"{'Append only the others again. ' * bool(taken)}{next(iter(errors.values())).hint}".rstrip(),
    )


def _closed() -> Closed:
    return Closed("This log is closed.", hint="Open it again.")


def local_log(settings: Settings, data: Path, clock: Clock, metrics: LogMetrics | None = None, *, read_only: bool = False) -> LocalLog:
    """The log of these settings, with its files below `data`; `open` or the first call opens it."""
    address = address_of(settings, data)
    return LocalLog(
        lambda: open_log(address, read_only=read_only, clock=clock, metrics=metrics),
        settings=TopicSettings(
            segment=int(settings.log.segment),
            period=settings.log.period.value,
            max_record=int(settings.log.max_record),
            disposal=settings.log.disposal,
        ),
    )
