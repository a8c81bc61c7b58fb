"""The managers of all namespaces of a process: made with the first call, served from the start of a server, closed together."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from headwater.client.local import LocalLog
from headwater.client.region_reopening import RegionReopening
from headwater.cluster import OwnedPartition, Ownership
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, Damaged, HeadwaterError, RegionNotFound
from headwater.core.settings import Settings
from headwater.core.timers import Timers
from headwater.log import Log, Topic
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import RegionReading, WalMetrics
from headwater.wal.owned_regions import OwnedRegions
from headwater.wal.pin_callbacks import OnPin
from headwater.wal.region import Region
from headwater.wal.region_list import found_regions
from headwater.wal.region_topics import RegionTopics, region_of
from headwater.wal.settings import WAL_SECTION
from headwater.wal.view import RegionView

_logger = logging.getLogger("headwater.wal")
_AT_ONCE = 4  # regions that a starting server opens at the same time
_PASSING = 30.0  # seconds that a region may take to end its calls when the group gives it to another process


class WalManagers:
    """The namespaces of which this process has used regions, and the ownership that they share. Belongs to one event loop."""

    def __init__(
        self,
        log: LocalLog,
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
        address: str = "",
        random: Random | None = None,
        on_pin: OnPin | None = None,
    ) -> None:
        """`on_pin`: as of `RegionManager`."""
        self._log, self._clock, self._settings, self._address = log, clock or SystemClock(), settings or Settings(), address
        self._random, self._on_pin = random or Random(), on_pin
        self._managers: dict[str, RegionManager] = {}
        self._timers = Timers(self._clock)  # of all namespaces: each would take an alarm of the kernel
        self._owners: Ownership | None = None
        self._making = threading.Lock()  # of the ownership
        self._serving: asyncio.Task[None] | None = None
        self._reopening: asyncio.Task[None] | None = None
        self.openers: dict[str, Callable[[int], Awaitable[object]]] = {}
        """By namespace: how a part opens a region of it that this server owned before it was started; others are opened as they are."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.metrics = WalMetrics()
        self.metrics.read = self._readings

    def known(self, namespace: str) -> RegionManager | None:
        """The manager of a namespace, where a call has made it."""
        return self._managers.get(namespace)

    def opened(self, namespace: str, region: int) -> Region | None:
        """A region that this process owns."""
        manager = self._managers.get(namespace)
        return None if manager is None else manager.opened(region)

    async def owned(self, namespace: str, region: int) -> Region | None:
        """A region that this process owns still, as far as it can know: `RegionManager.owned`."""
        manager = self._managers.get(namespace)
        return None if manager is None else await manager.owned(region)

    def owner(self, view: RegionView) -> str:
        """Who owns a region of the directory; "" where nobody does, or where only the brokers know. Blocking."""
        if self._owners is None and view.log.engine != "embedded":
            return ""
        try:
            owner = self._ownership(view.log).owner(view.topics.data, 0)
        except (HeadwaterError, OSError):  # such as in a directory of another user, where a look cannot lock
            return ""
        return "" if owner is None else str(owner)

    @property
    def serving(self) -> bool:
        """Whether this is a server, which cleans from its start on."""
        return self._serving is not None

    def serve(self) -> None:
        """Open every region of the directory, and clean the open ones from now on."""
        self._serving = asyncio.create_task(self._serve())

    async def aclose(self, *, graceful: bool = False) -> None:
        """Close every region. Closing twice is no error."""
        self._closed = True
        for task in (self._serving, self._reopening):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        managers, self._managers = list(self._managers.values()), {}
        ended = await asyncio.gather(*(manager.aclose(graceful=graceful) for manager in managers), return_exceptions=True)
        self._timers.close()
        owners, self._owners = self._owners, None
        if owners is not None:
            await asyncio.to_thread(owners.close)
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _serve(self) -> None:
        log, regions = await self._log.open(), list[tuple[RegionTopics, Topic | Damaged]]()
        # On Kafka a region is owned by whom its calls come to first: opening all of them would take them from other servers' reach. There
        # `_reopen` opens some of those that this one had.
        if log.engine == "embedded":
            try:
                regions = await asyncio.to_thread(found_regions, log)
            except HeadwaterError as error:
                _logger.warning("The regions were not listed, and are opened with their first call: %s", error)
            except Exception:
                _logger.exception("The regions were not listed, and are opened with their first call.")
        turns = asyncio.Semaphore(_AT_ONCE)

        async def opened(topics: RegionTopics) -> None:
            async with turns:
                try:
                    await (await self.manager(topics.namespace)).open(topics.region)
                except HeadwaterError as error:
                    _logger.warning("Region %s was not opened: %s", topics, error)
                except Exception:  # such as for too many open files: the others are opened, and all are cleaned
                    _logger.exception("Region %s was not opened.", topics)

        await asyncio.gather(*(opened(topics) for topics, _ in regions))
        for manager in self._managers.values():
            manager.start_cleaning()
        if log.engine == "kafka":
            self._reopening = asyncio.create_task(self._reopen(log))

    async def _reopen(self, log: Log) -> None:
        noted = self._notes()

        def unowned(regions: Sequence[RegionTopics]) -> list[RegionTopics]:
            free = set(self._ownership(log).unowned([(topics.data, 0) for topics in regions]))
            return [topics for topics in regions if (topics.data, 0) in free]

        async def open(topics: RegionTopics) -> None:
            try:
                opener = self.openers.get(topics.namespace, (await self.manager(topics.namespace)).open)
                await opener(topics.region)
            except RegionNotFound:
                await asyncio.to_thread(noted.remove, topics)

        reopening = RegionReopening(
            await asyncio.to_thread(noted.all),
            unowned=unowned,
            opened=lambda topics: self.opened(topics.namespace, topics.region) is not None,
            open=open,
            clock=self._clock,
        )
        await reopening.run()

    def _notes(self) -> OwnedRegions:
        return OwnedRegions(self._settings.data / "owned-regions")

    async def manager(self, namespace: str) -> RegionManager:
        """The manager of a namespace. Errors: `Closed`."""
        if self._closed:
            raise Closed("This headwater is closed.", hint="Open it again.")
        log = await self._log.open()
        if namespace not in self._managers:
            self._loop = asyncio.get_running_loop()
            self._managers[namespace] = RegionManager(
                log,
                lambda: self._ownership(log),
                namespace,
                settings=WAL_SECTION.of(self._settings, namespace),
                clock=self._clock,
                random=self._random,
                metrics=self.metrics,
                usual=self._log.usual,
                on_pin=self._on_pin,
                timers=self._timers,
                noted=self._notes() if self.serving and log.engine == "kafka" else None,
            )
            if self._serving is not None and self._serving.done():
                self._managers[namespace].start_cleaning()
        return self._managers[namespace]

    def _ownership(self, log: Log) -> Ownership:
        with self._making:
            if self._owners is None:
                if log.engine == "embedded":
                    from headwater.cluster.local import LocalOwnership

                    self._owners = LocalOwnership(log, Path(log.address.path) / "owners", address=self._address, clock=self._clock)
                else:
                    from headwater.cluster.kafka import KafkaOwnership

                    self._owners = KafkaOwnership(log, address=self._address, passing=self._passing, clock=self._clock)
            return self._owners

    def _passing(self, owned: OwnedPartition) -> None:
        """The group gives a region to another process: end its calls. Called in a thread of the ownership."""
        topics = region_of(owned.topic)
        manager = None if topics is None else self._managers.get(topics.namespace)
        if manager is None or topics is None or self._loop is None:
            return
        asyncio.run_coroutine_threadsafe(manager.close(topics.region), self._loop).result(_PASSING)

    def _readings(self) -> Iterator[RegionReading]:
        for manager in list(self._managers.values()):
            yield from manager.readings()
