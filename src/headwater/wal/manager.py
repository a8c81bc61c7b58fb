"""A namespace and its open regions: opens each once, looks after it, and closes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

from headwater.cluster import Ownership
from headwater.core.clock import Clock
from headwater.core.errors import Closed, Fenced, HeadwaterError, Unavailable, UnknownTable
from headwater.core.timers import Timers
from headwater.log import Log
from headwater.log.record import TopicSettings
from headwater.wal.answers import PinnedLog, RegionCleaned
from headwater.wal.cleaner import Cleaner
from headwater.wal.metrics import RegionReading, WalMetrics
from headwater.wal.period_timer import PeriodTimer
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_deletion import delete_region
from headwater.wal.region_list import known_region
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics, region_topics
from headwater.wal.settings import RegionSettings, WalSettings
from headwater.wal.sizes import MeanSizes, mean_sizes
from headwater.wal.snapshot_policy import SnapshotPolicy
from headwater.wal.unpinning import tables_to_move
from headwater.wal.view import StateCounts
from headwater.wal.why import pins_of, why

_logger = logging.getLogger("headwater.wal")
T = TypeVar("T")
OnPin = Callable[[PinnedLog], None]
Owners = Callable[[], Ownership]
_UNSTORED = 1000  # records behind the newest snapshot, from which on also a plain close stores one


class _Open:
    """An open region, and what looks after it."""

    def __init__(self, region: Region, policy: SnapshotPolicy, timer: PeriodTimer | None, mean: MeanSizes) -> None:
        self.region, self.policy, self.timer = region, policy, timer
        self.mean = mean  # for the estimates of the metrics


class RegionManager:
    """The regions of a namespace that this process has open. Belongs to one event loop.

    Guarantees: a region is open once, whoever asks for it; opening a slow one blocks no other. A region that another process has taken over
    is closed with the first `Fenced`, and opened anew by the next call, which is then `NotOwner`. After `aclose` every call is `Closed`.
    """

    def __init__(
        self,
        log: Log,
        owners: Owners,
        namespace: str,
        *,
        settings: WalSettings,
        clock: Clock,
        random: Random,
        metrics: WalMetrics,
        usual: TopicSettings | None = None,
        on_pin: OnPin | None = None,
    ) -> None:
        """`owners`: gives the ownership, and is called in a thread. `usual`: the settings of a new region where nothing else is said.

        `on_pin`: is told of each table that is moved because of `pin_limit`, before it is moved.
        """
        self.namespace = region_topics(namespace, 0).namespace
        self._log, self._owners, self._settings, self._usual = log, owners, settings, usual or TopicSettings()
        self._clock, self._random, self._metrics, self._on_pin = clock, random, metrics, on_pin
        self._timers = Timers(clock)
        self._open: dict[int, _Open] = {}
        self._gates: dict[int, asyncio.Lock] = {}  # by region: it is opened or closed by one task at a time
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cleaner: Cleaner | None = None
        self._closed = False
        self.cleaned = asyncio.Event()
        """Set, and replaced by a new one, whenever a region was cleaned."""
        self.ending: list[Callable[[Region], Awaitable[None]]] = []
        """Called before a region is closed, whoever closes it: for owners of tables, whose calls must end first. They raise nothing, and
        open nothing."""

    # -- opening and closing --------------------------------------------------------------------------------------

    async def create(self, region: int, settings: RegionSettings, *, copies: int = 0) -> bool:
        """Create a region; return whether it is new. `copies`: as for `Log.create_topic`.

        Errors: `BadInput`; `AlreadyExists` where it is there with other settings.
        """
        self._check()
        return await asyncio.to_thread(self._create, region_topics(self.namespace, region), settings, copies)

    def _create(self, topics: RegionTopics, settings: RegionSettings, copies: int) -> bool:
        wanted = settings.topic_settings(self._usual)
        try:
            known_region(self._log, topics)
        except HeadwaterError:
            return create_region(self._log, topics, wanted, copies=copies)
        return create_region(self._log, topics, wanted if settings.given else None)

    async def open(
        self, region: int, *, create: RegionSettings | bool = False, take_over: bool = False, accept_loss: bool = False
    ) -> Region:
        """Own a region, and recover its state. One that is open is returned as it is.

        `create`: make it where it is not there. `take_over`: also where a living process owns it. `accept_loss`: as for `recover`.
        Errors: `RegionNotFound`; `NotOwner`, which names the owner; `MetaLost`, `Damaged`; `Unavailable` where brokers remove records.
        """
        self._check()
        topics = region_topics(self.namespace, region)
        if create is not False:
            await self.create(region, RegionSettings() if create is True else create)
        # In a task of its own: a caller that gives up must not leave a region behind that nobody knows to be owned.
        task = asyncio.create_task(self._opened(topics, take_over=take_over, accept_loss=accept_loss))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _opened(self, topics: RegionTopics, *, take_over: bool, accept_loss: bool) -> Region:
        async with self._gate(topics.region):
            known = self._open.get(topics.region)
            if known is not None and not await asyncio.to_thread(lambda: known.region.lost):
                return known.region
            if known is not None:
                await self._ended(topics.region, known)
            self._check()
            made = await self._made(topics, take_over=take_over, accept_loss=accept_loss)
            if self._closed:
                await made.region.close()
                self._check()
            self._open[topics.region] = made
            return made.region

    async def _made(self, topics: RegionTopics, *, take_over: bool, accept_loss: bool) -> _Open:
        began = self._clock.monotonic()
        owners = await asyncio.to_thread(self._ready, topics)
        region = await open_region(self._log, owners, topics, take_over=take_over, accept_loss=accept_loss)
        self._metrics.recovered(region.recovered.records, self._clock.monotonic() - began)
        for problem in region.recovered.problems:
            _logger.warning("A snapshot of region %s was not used: %s.", topics, problem)
        mean = await asyncio.to_thread(mean_sizes, self._log, topics.data)
        policy = SnapshotPolicy(region, self._settings, timers=self._timers, clock=self._clock, metrics=self._metrics)
        period = self._log.topic(topics.data).settings.period if self._log.engine == "embedded" else 0  # brokers roll on their own
        timer = PeriodTimer(region, period, ended=self._period_over, timers=self._timers, clock=self._clock) if period else None
        return _Open(region, policy, timer, mean)

    def _ready(self, topics: RegionTopics) -> Ownership:
        """Check that the region is there, and that its records stay. Blocking."""
        known_region(self._log, topics)
        for topic in (topics.data, topics.meta):
            if retention := self._log.retention(topic):
                raise Unavailable(
                    f"Region {topics} cannot be opened: its topic {topic} has {retention}, by which brokers remove what tables still need.",
                    hint=f"Set retention.ms and retention.bytes of {topic} to -1, and cleanup.policy to delete, with Kafka's own tools.",
                )
        return self._owners()

    async def close(self, region: int, *, graceful: bool = False) -> bool:
        """Finish the calls under way, and let another process own a region; return whether it was open.

        `graceful`: store its state first, so that the next opening reads nothing but that.
        """
        async with self._gate(region):
            known = self._open.get(region)
            if known is None:
                return False
            await self._ended(region, known, graceful=graceful)
            return True

    async def delete(self, region: int) -> int:
        """Delete a region with everything in it; return how many offsets its log had.

        Errors: `RegionNotFound`; `NotOwner` while another process owns it.
        """
        self._check()
        topics = region_topics(self.namespace, region)
        async with self._gate(region):
            known = self._open.get(region)
            if known is not None:
                await self._ended(region, known)
            return await asyncio.to_thread(lambda: delete_region(self._log, self._owners(), topics))

    async def aclose(self, *, graceful: bool = False) -> None:
        """Close every region, then refuse further calls. Closing twice is no error. Errors: the first one of closing a region."""
        self._closed = True
        if self._cleaner is not None:
            await self._cleaner.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ended = await asyncio.gather(*(self.close(region, graceful=graceful) for region in list(self._open)), return_exceptions=True)
        self._timers.close()
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _ended(self, region: int, known: _Open, *, graceful: bool = False) -> None:
        """Close what is open. The caller holds the gate."""
        self._open.pop(region, None)
        for call in self.ending:
            await call(known.region)
        await known.policy.stop()
        if known.timer is not None:
            await known.timer.stop()
        stored = known.region.snapshots
        behind = known.region.look(lambda meta: meta.watermark) - (stored[-1].watermark if stored else 0)
        if graceful or (behind >= _UNSTORED and not known.region.lost):
            await known.region.close_gracefully()
        else:
            await known.region.close()

    # -- using ----------------------------------------------------------------------------------------------------

    def opened(self, region: int) -> Region | None:
        """A region, where it is open."""
        known = self._open.get(region)
        return None if known is None else known.region

    def regions(self) -> list[int]:
        """Those that are open."""
        return sorted(self._open)

    async def using(self, region: int, call: Callable[[Region], Awaitable[T]]) -> T:
        """What `call` returns for a region, which is opened where it is not open. Errors: those of `open` and of the call."""
        known = self._open.get(region)
        opened = await self.open(region) if known is None else known.region
        try:
            return await call(opened)
        except Fenced:
            await self.fenced(opened)
            raise
        except Closed:  # somebody closed it between: nothing was done
            if self._closed or self.opened(region) is opened:
                raise
            return await call(await self.open(region))

    async def write(self, region: int, table: int, payloads: Sequence[bytes], *, timeout: float | None = None) -> int:
        """`Region.write`."""
        last = await self.using(region, lambda opened: opened.write(table, payloads, timeout=timeout))
        self._metrics.wrote(sum(map(len, payloads)))
        return last

    async def fenced(self, opened: Region) -> None:
        """Close a region that another process has taken over, as `using` does. The next call opens it anew, and is `NotOwner`."""
        region = opened.topics.region
        async with self._gate(region):
            known = self._open.get(region)
            if known is not None and known.region is opened:
                self._metrics.fenced()
                await self._ended(region, known)

    # -- cleaning -------------------------------------------------------------------------------------------------

    def start_cleaning(self) -> None:
        """Clean the open regions now, and every `clean_period` from now on. Starting twice is no error."""
        if self._cleaner is None:
            self._check()
            self._cleaner = Cleaner(
                self.regions,
                self.clean,
                period=self._settings.clean_period,
                timers=self._timers,
                clock=self._clock,
                random=self._random,
            )

    async def clean(self, region: int) -> RegionCleaned:
        """Clean a region at once; above `pin_limit`, move the tables that pin it, and clean it again."""
        return await self._counted(self.using(region, self._clean))

    async def _period_over(self, region: Region) -> None:
        """Clean a region where that removes something. It is not opened for that: who closes it waits for this."""
        start = (await asyncio.to_thread(self._log.bounds, region.topics.data, 0)).start
        if region.look(lambda meta: meta.safe_offset) > start:
            await self._counted(self._clean(region))

    async def _counted(self, cleaning: Awaitable[RegionCleaned]) -> RegionCleaned:
        try:
            done = await cleaning
        except BaseException:
            self._metrics.cleaned(failed=True)
            raise
        self._metrics.cleaned()
        self.cleaned.set()
        self.cleaned = asyncio.Event()
        return done

    async def _clean(self, region: Region) -> RegionCleaned:
        done, moved = await region.clean(), list[int]()
        removed = done.removed
        for table in await self._above_limit(region):
            if self._on_pin is not None:
                self._on_pin(await asyncio.to_thread(why, self._log, region.topics, region.look(pins_of)))
            try:
                await region.move(table)
            except UnknownTable:  # dropped meanwhile: it pins nothing any more
                continue
            self._metrics.moved()
            moved.append(table)
        if moved:
            done = await region.clean()
            removed += done.removed
        known = self._open.get(region.topics.region)
        if known is not None:
            known.mean = await asyncio.to_thread(mean_sizes, self._log, region.topics.data)
        return RegionCleaned(start=done.start, removed=removed, moved=moved)

    async def _above_limit(self, region: Region) -> list[int]:
        """The tables that pin more than `pin_limit` of the log together, and are worth moving."""
        limit = self._settings.pin_limit
        if limit is None:
            return []
        return await asyncio.to_thread(tables_to_move, self._log, region.topics, region.look(RegionMeta.copied), limit)

    # -- metrics --------------------------------------------------------------------------------------------------

    def readings(self) -> Iterator[RegionReading]:
        """What the open regions hold, for the metrics. Called in a thread."""
        for number, known in list(self._open.items()):
            counts = known.region.look(StateCounts)
            if not known.mean.payload and counts.live:  # it was empty when it was opened
                known.mean = mean_sizes(self._log, known.region.topics.data)
            begin, end = counts.pins.pinned
            yield RegionReading(
                self.namespace,
                number,
                counts.live,
                round(counts.live * known.mean.payload),
                end - begin,
                round((end - begin) * known.mean.record),
            )

    def _gate(self, region: int) -> asyncio.Lock:
        return self._gates.setdefault(region, asyncio.Lock())

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"The namespace {self.namespace} is closed.", hint="Open it again.")
