"""A namespace and its open regions: opens each once, looks after it, and closes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Any, TypeVar

from headwater.cluster import Ownership
from headwater.core.clock import Clock
from headwater.core.errors import Closed, Fenced, HeadwaterError, Unavailable, UnknownTopic
from headwater.core.timers import Timers
from headwater.log import Log
from headwater.log.record import TopicSettings
from headwater.wal.answers import RegionCleaned
from headwater.wal.cleaner import Cleaner
from headwater.wal.kept_region import KeptRegion
from headwater.wal.metrics import RegionReading, WalMetrics
from headwater.wal.owned_regions import OwnedRegions
from headwater.wal.period_timer import PeriodTimer
from headwater.wal.pin_callbacks import OnPin, PinCallbacks
from headwater.wal.region import Region, open_region
from headwater.wal.region_cleaning import RegionCleaning
from headwater.wal.region_creation import create_region
from headwater.wal.region_deletion import delete_region
from headwater.wal.region_gates import RegionGates
from headwater.wal.region_list import data_topic, known_region
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics, region_topics
from headwater.wal.settings import RegionSettings, WalSettings
from headwater.wal.sizes import mean_sizes
from headwater.wal.snapshot_policy import SnapshotPolicy
from headwater.wal.taken_regions import TakenRegions
from headwater.wal.view import StateCounts

_logger = logging.getLogger("headwater.wal")
T = TypeVar("T")
Owners = Callable[[], Ownership]


class RegionManager:
    """The regions of a namespace that this process has open. Belongs to one event loop.

    Guarantees: a region is open once, whoever asks for it; opening a slow one blocks no other. One that another process has taken over is
    closed; the next change is `Fenced`, and the one after it opens the region anew, or is `NotOwner`. After `aclose` calls are `Closed`.
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
        timers: Timers | None = None,
        noted: OwnedRegions | None = None,
    ) -> None:
        """`owners`: gives the ownership, and is called in a thread. `usual`: the settings of a new region where nothing else is said.

        `on_pin`: is told of each table that is moved because of `pin_limit`, before it is moved, and of one that pins more than a segment
        of a log and is not moved. `timers`: those of several managers. `noted`: where a server notes what it owns.
        """
        self.namespace = region_topics(namespace, 0).namespace
        self._log, self._owners, self._settings, self._usual = log, owners, settings, usual or TopicSettings()
        self._clock, self._random, self._metrics = clock, random, metrics
        self._timers, self._own_timers = Timers(clock) if timers is None else timers, timers is None  # an empty one is false
        self._open: dict[int, KeptRegion] = {}
        self.pins = PinCallbacks(log, on_pin)
        self._cleaning = RegionCleaning(log, settings, metrics=metrics, pins=self.pins)
        self._noted = noted or OwnedRegions()
        self._gates, self._taken = RegionGates(), TakenRegions()  # a region is opened or closed by one task at a time
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cleaner: Cleaner | None = None
        self._closed = False
        self.ending: list[Callable[[Region], Awaitable[None]]] = []
        """Called before a region is closed, whoever closes it: for owners of tables, whose calls must end first. They raise nothing, and
        open nothing."""

    # -- opening and closing --------------------------------------------------------------------------------------

    async def create(self, region: int, settings: RegionSettings, *, copies: int = 0) -> bool:
        """Create a region; return whether it is new. `copies`: those of `settings`, by a part that creates its own.

        Errors: `BadInput`; `AlreadyExists` where it is there with other settings; `Unsupported` for copies of segment files.
        """
        self._check()
        return await asyncio.to_thread(self._create, region_topics(self.namespace, region), settings, copies or settings.copies)

    def _create(self, topics: RegionTopics, settings: RegionSettings, copies: int) -> bool:
        wanted = settings.topic_settings(self._usual)
        try:
            known = data_topic(self._log, topics)
        except HeadwaterError:  # a description that is lost is made anew; a rotten one is refused
            known = None
        if known is None:
            return create_region(self._log, topics, wanted, copies=copies)
        wanted = settings.topic_settings(self._usual, known.settings)
        return create_region(self._log, topics, wanted if settings.given else None, copies=copies)

    async def open(
        self, region: int, *, create: RegionSettings | bool = False, take_over: bool = False, accept_loss: bool = False
    ) -> Region:
        """Own a region, and recover its state. One that is open is returned as it is.

        `create`: make it where it is not there. `take_over`: also where a living process owns it. `accept_loss`: as for `recover`.
        Errors: `RegionNotFound`; `NotOwner`, which names the owner; `MetaLost`, `Damaged`; `Unavailable` where brokers remove records.
        """
        self._check()
        topics = region_topics(self.namespace, region)
        self._taken.forget(region)
        if create is not False:
            await self.create(region, RegionSettings() if create is True else create)
        return await self._whole(self._opened(topics, take_over=take_over, accept_loss=accept_loss))

    async def _whole(self, call: Coroutine[Any, Any, T]) -> T:
        """Finish a call although its caller gives up: half of it would leave a region behind that is owned, and that nobody knows of."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda late: late.cancelled() or late.exception())  # nobody else looks at it
            raise

    async def _opened(self, topics: RegionTopics, *, take_over: bool, accept_loss: bool) -> Region:
        async with self._gates.alone(topics.region):
            known = self._open.get(topics.region)
            if known is not None and not await asyncio.to_thread(lambda: known.region.lost):
                return known.region
            if known is not None:
                await self._ended(topics.region, known)
            self._check()
            made = await self._made(topics, take_over=take_over, accept_loss=accept_loss)
            if self._closed:
                await self._ended(topics.region, made)
                self._check()
            self._open[topics.region] = made
            await asyncio.to_thread(self._noted.add, topics)
            if self._cleaner is not None:
                self._cleaner.opened(topics.region)
            return made.region

    async def _made(self, topics: RegionTopics, *, take_over: bool, accept_loss: bool) -> KeptRegion:
        began = self._clock.monotonic()
        owners = await asyncio.to_thread(self._ready, topics)
        region = await open_region(self._log, owners, topics, take_over=take_over, accept_loss=accept_loss)
        self._metrics.recovered(region.recovered.records, self._clock.monotonic() - began)
        for problem in region.recovered.problems:
            _logger.warning("A snapshot of region %s was not used: %s.", topics, problem)
        try:
            mean = await asyncio.to_thread(mean_sizes, self._log, topics.data)
            period = self._log.topic(topics.data).settings.period if self._log.engine == "embedded" else 0  # brokers roll on their own
        except BaseException:  # nobody knows of it yet
            await region.close()
            raise
        policy = SnapshotPolicy(region, self._settings, timers=self._timers, clock=self._clock, metrics=self._metrics)
        policy.fenced = self._gone
        timer = PeriodTimer(region, period, ended=self._period_over, timers=self._timers, clock=self._clock) if period else None
        if timer is not None:
            timer.fenced = self._gone
        return KeptRegion(region, policy, timer, mean)

    def _ready(self, topics: RegionTopics) -> Ownership:
        """Check that the region is there, and that its records stay. Blocking."""
        known_region(self._log, topics)
        for topic in (topics.data, topics.meta):
            if retention := self._retention(topic):
                raise Unavailable(
                    f"Region {topics} cannot be opened: its topic {topic} has {retention}, by which brokers remove what tables still need.",
                    hint=f"Set retention.ms and retention.bytes of {topic} to -1, and cleanup.policy to delete, with Kafka's own tools.",
                )
        return self._owners()

    def _retention(self, topic: str) -> str:
        try:
            return self._log.retention(topic)
        except UnknownTopic:  # a meta topic that was lost: recovery says what that means, or does without it
            return ""

    async def close(self, region: int, *, graceful: bool = False) -> bool:
        """Finish the calls under way, and let another process own a region; return whether it was open.

        `graceful`: store its state first, so that the next opening reads nothing but that.
        """
        return await self._whole(self._close(region, graceful=graceful))

    async def _close(self, region: int, *, graceful: bool) -> bool:
        async with self._gates.alone(region):
            self.pins.forget(region)
            if not self._closed:  # its user has given it up, or the group gives it to another process
                await asyncio.to_thread(self._noted.remove, RegionTopics(self.namespace, region))
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
        return await self._whole(self._delete(region_topics(self.namespace, region)))

    async def _delete(self, topics: RegionTopics) -> int:
        async with self._gates.alone(topics.region):
            self.pins.forget(topics.region)
            self._taken.forget(topics.region)
            await asyncio.to_thread(self._noted.remove, topics)
            known = self._open.get(topics.region)
            held = known is not None and not known.region.fenced and not await asyncio.to_thread(lambda: known.region.lost)
            if known is not None:
                await self._ended(topics.region, known)
            return await asyncio.to_thread(lambda: delete_region(self._log, self._owners(), topics, held=held))

    async def aclose(self, *, graceful: bool = False) -> None:
        """Close every region, then refuse further calls. Closing twice is no error. Errors: the first one of closing a region."""
        self._closed = True
        await self._whole(self._aclose(graceful=graceful))

    async def _aclose(self, *, graceful: bool) -> None:
        if self._cleaner is not None:
            await self._cleaner.stop()
        await asyncio.gather(*(self._tasks - {asyncio.current_task()}), return_exceptions=True)
        ended = await asyncio.gather(*(self._close(region, graceful=graceful) for region in list(self._open)), return_exceptions=True)
        if self._own_timers:
            self._timers.close()
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _ended(self, region: int, known: KeptRegion, *, graceful: bool = False) -> None:
        """Close what is open, whatever fails: another process must be able to own it. The caller holds the gate."""
        self._open.pop(region, None)
        async with AsyncExitStack() as after:
            after.push_async_callback(known.region.close)
            after.push_async_callback(known.stop)
            for call in self.ending:
                await call(known.region)
            await known.stop()
            if graceful:
                await known.region.close_gracefully()
            elif await asyncio.to_thread(known.worth_storing):
                try:
                    await known.region.close_gracefully()
                except HeadwaterError as error:  # nobody has asked for it; the next opening only reads more
                    _logger.warning("The last state of region %s was not stored: %s", known.region.topics, error)

    # -- using ----------------------------------------------------------------------------------------------------

    def opened(self, region: int) -> Region | None:
        """A region, where it is open."""
        known = self._open.get(region)
        return None if known is None else known.region

    async def owned(self, region: int) -> Region | None:
        """A region, where it is open. One that another process is known to have taken over is closed: its state is no longer the log's."""
        known = self._open.get(region)
        if known is None:
            return None
        if known.region.fenced or await asyncio.to_thread(known.region.overtaken):
            await self._whole(self._fenced(known.region, reported=False))
            return None
        return known.region

    def regions(self) -> list[int]:
        """Those that are open."""
        return sorted(self._open)

    async def using(self, region: int, call: Callable[[Region], Awaitable[T]]) -> T:
        """What `call` returns for a region, which is opened where it is not open. Errors: those of `open` and of the call; `Fenced`."""
        known = self._open.get(region)
        if known is None:
            self._taken.tell(RegionTopics(self.namespace, region))
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
        await self._whole(self._fenced(opened, reported=True))

    def _gone(self, opened: Region) -> None:
        """`fenced`, for what the closing of the region waits for."""
        task = asyncio.create_task(self._fenced(opened, reported=False))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fenced(self, opened: Region, *, reported: bool) -> None:
        region = opened.topics.region
        async with self._gates.alone(region):
            known = self._open.get(region)
            if known is not None and known.region is opened:
                self._metrics.fenced()
                if not reported:
                    self._taken.add(region)
                await self._ended(region, known)
            elif reported:
                self._taken.forget(region)

    # -- cleaning -------------------------------------------------------------------------------------------------

    def start_cleaning(self, *, at_once: bool = True) -> None:
        """Clean the open regions every `clean_period` from now on. `at_once`: also now, and each later one soon after it is opened.

        Starting twice is no error.
        """
        if self._cleaner is None:
            self._check()
            self._cleaner = Cleaner(
                self.regions,
                self.clean_open,
                period=self._settings.clean_period,
                timers=self._timers,
                clock=self._clock,
                random=self._random,
            )
        if at_once:
            self._cleaner.clean_at_once()

    @property
    def cleaned(self) -> asyncio.Event:
        """Is set when a region is cleaned; another one counts from then on."""
        return self._cleaning.cleaned

    async def tell_pins(self, region: int, on_pin: OnPin) -> None:
        """Call `on_pin` for a region until it is closed; at once, if its log is pinned now."""
        self.pins.set(region, on_pin)
        if (known := self._open.get(region)) is not None:
            await self.pins.look(known.region)

    async def clean(self, region: int) -> RegionCleaned:
        """Clean a region at once; above `pin_limit`, move the tables that pin it, and clean it again."""
        return await self.using(region, lambda opened: self._cleaning.clean(opened, self._open.get(region)))

    async def clean_open(self, region: int) -> None:
        """`clean` of a region that is still open, where something has come to it since its last one. One that was closed meanwhile stays
        so: its user has given it up."""
        known = self._open.get(region)
        if known is None:
            return
        try:
            await self._cleaning.clean_changed(known)
        except Fenced:
            await self._whole(self._fenced(known.region, reported=False))
            raise
        except Closed:
            if self._open.get(region) is known:
                raise

    async def _period_over(self, region: Region) -> None:
        """Who closes the region waits for this: it is not opened for that."""
        await self._cleaning.clean_drained(region, self._open.get(region.topics.region))

    # -- metrics --------------------------------------------------------------------------------------------------

    def readings(self) -> Iterator[RegionReading]:
        """What the open regions hold, for the metrics. Called in a thread."""
        for number, known in list(self._open.items()):
            counts = StateCounts(known.region.look(RegionMeta.copied))  # of a copy: every write waits for the look
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

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"The namespace {self.namespace} is closed.", hint="Open it again.")
