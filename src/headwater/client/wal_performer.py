"""Performs the operations on regions in this process: looks at the log, or owns the region and changes it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from headwater.client.local import LocalLog
from headwater.client.wal_events import RegionFollower
from headwater.cluster import OwnedPartition, Ownership
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, Damaged, HeadwaterError, UnknownTable
from headwater.core.metrics import Metrics
from headwater.core.settings import Settings
from headwater.log import Log, Topic
from headwater.wal import answers, operations, requests
from headwater.wal.entries import EntryReader, region_places, table_places
from headwater.wal.manager import OnPin, RegionManager
from headwater.wal.metrics import RegionReading, WalMetrics
from headwater.wal.namespaces import check_change
from headwater.wal.recovery import Recovered
from headwater.wal.region import Region
from headwater.wal.region_deletion import check_deletable
from headwater.wal.region_list import found_regions, known_region
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics, region_of, region_owner
from headwater.wal.requests import RegionRequest
from headwater.wal.settings import WAL_SECTION
from headwater.wal.table_meta import TableMeta
from headwater.wal.verification import verify
from headwater.wal.view import (
    RegionView,
    StateCounts,
    recovery_state,
    region_summaries,
    region_summary,
    show_entry,
    snapshot_states,
    statistics,
    table_states,
)
from headwater.wal.why import pins_of, why
from headwater.wire.operation import Operation, Reply

T = TypeVar("T")
_audit = logging.getLogger("headwater.audit")
_logger = logging.getLogger("headwater.wal")
_PAGE = 100
_BATCH = 500  # payloads that are read at once
_AT_ONCE = 4  # regions that a starting server opens at the same time
_PASSING = 30.0  # seconds that a region may take to end its calls when the group gives it to another process


def measure(metrics: Metrics, performer: WalPerformer, log: object) -> None:
    """Let the metrics read what the regions hold."""
    metrics.add(performer.metrics)


async def opens(performer: WalPerformer, log: object) -> None:
    """Begin to serve: open the regions of the directory in the background, and clean them."""
    performer.serve()


async def closes(performer: WalPerformer, log: object) -> None:
    """Store the state of every open region, and let others own it."""
    await performer.aclose(graceful=True)


class WalPerformer:
    """One method for each operation of the same name. Looking needs no ownership; the first change of a region owns it.

    Belongs to one event loop. `on_pin`: as of `RegionManager`.
    """

    def __init__(
        self,
        *,
        log: LocalLog,
        clock: Clock | None = None,
        settings: Settings | None = None,
        address: str = "",
        random: Random | None = None,
        on_pin: OnPin | None = None,
    ) -> None:
        self._log, self._clock, self._settings, self._address = log, clock or SystemClock(), settings or Settings(), address
        self._random, self._on_pin = random or Random(), on_pin
        self._managers: dict[str, RegionManager] = {}
        self._owners: Ownership | None = None
        self._making = threading.Lock()  # of the ownership
        self._serving: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.metrics = WalMetrics()
        self.metrics.read = self._readings

    # -- how it runs ------------------------------------------------------------------------------------------

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str = "") -> Any:
        if operation.changes:
            check_change(request.topics, operation.name)
        answer = await getattr(self, operation.name)(request)
        if operation.changes and operation is not operations.WRITE and not getattr(request, "dry_run", False):
            _audit.info("%s: %s %s", who or "this process", operation.id, msgspec.structs.asdict(request))
        return answer

    async def stream(self, operation: Operation[Any, Any], request: Any) -> AsyncIterator[Any]:
        if operation is operations.EVENTS:
            async for _, event in self.follower(request).follow(request.last):
                if event is not None:
                    yield event
            return
        reader = await self.reader(request)
        async for entry in reader:
            yield entry

    def serve(self) -> None:
        """Open every region of the directory, and clean the open ones from now on."""
        self._serving = asyncio.create_task(self._serve())

    async def aclose(self, *, graceful: bool = False) -> None:
        """Close every region. Closing twice is no error."""
        self._closed = True
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        managers, self._managers = list(self._managers.values()), {}
        ended = await asyncio.gather(*(manager.aclose(graceful=graceful) for manager in managers), return_exceptions=True)
        owners, self._owners = self._owners, None
        if owners is not None:
            await asyncio.to_thread(owners.close)
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _serve(self) -> None:
        log, found = await self._log.open(), list[tuple[RegionTopics, Topic | Damaged]]()
        # On Kafka a region is owned by whom its calls come to first: opening all of them would take them from other servers' reach.
        if log.engine == "embedded":
            try:
                found = await asyncio.to_thread(found_regions, log)
            except HeadwaterError as error:
                _logger.warning("The regions were not listed, and are opened with their first call: %s", error)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def opened(topics: RegionTopics) -> None:
            async with turns:
                try:
                    await (await self.manager(topics.namespace)).open(topics.region)
                except HeadwaterError as error:
                    _logger.warning("Region %s was not opened: %s", topics, error)

        await asyncio.gather(*(opened(topics) for topics, _ in found))
        for manager in self._managers.values():
            manager.start_cleaning()

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

    # -- states -----------------------------------------------------------------------------------------------

    def opened(self, namespace: str, region: int) -> Region | None:
        """A region that this process owns."""
        manager = self._managers.get(namespace)
        return None if manager is None else manager.opened(region)

    def writes(self, namespace: str, region: int) -> Callable[[int, int, Sequence[bytes]], Coroutine[Any, Any, int]] | None:
        """Writes payloads into a table of a region; None where this process does not own it, or another part does."""
        manager = self._managers.get(namespace)
        return None if manager is None or manager.opened(region) is None or region_owner(namespace) else manager.write

    def follower(self, request: requests.FollowRegion) -> RegionFollower:
        """What happens to a region."""
        never, namespace = asyncio.Event(), request.namespace
        return RegionFollower(
            self._log, request.topics, lambda: manager.cleaned if (manager := self._managers.get(namespace)) is not None else never
        )

    async def check(self, request: RegionRequest) -> None:
        """Errors: `RegionNotFound`."""
        await self._log.work(lambda log: known_region(log, request.topics))

    async def _view(self, request: RegionRequest) -> RegionView:
        return RegionView(await self._log.open(), request.topics)

    async def _recovered(self, request: RegionRequest, *, accept_loss: bool = False) -> Recovered:
        view = await self._view(request)
        return await asyncio.to_thread(lambda: view.recovered(accept_loss=accept_loss))

    async def _look(self, request: RegionRequest, see: Callable[[RegionMeta], T]) -> T:
        """What `see` finds in the state: that of this process where it owns the region, else that of the log."""
        region = self.opened(request.namespace, request.region)
        return see((await self._recovered(request)).meta) if region is None else region.look(see)

    async def reader(self, request: requests.ReadEntries | requests.ScanRegion, batch: int = _BATCH) -> EntryReader:
        """The payloads that a request asks for, as they are now. Errors: `BadBounds`, `RegionNotFound`."""
        request.check()
        log = await self._log.open()
        if isinstance(request, requests.ReadEntries):
            table, wanted = request.table, request.range
            places = await self._look(request, lambda meta: table_places(meta, table, wanted))
        else:
            tables = request.wanted
            places = await self._look(request, lambda meta: region_places(meta, None if tables is None else tables.__contains__))
        return EntryReader(log, request.topics, places, batch=batch)

    async def _table(self, request: requests.TableRequest) -> tuple[int, int, int]:
        """The last sequence of a table, the last one that is flushed, and how many are live. Errors: `UnknownTable`."""

        def see(meta: RegionMeta) -> tuple[int, int, int] | None:
            known: TableMeta | None = meta.tables.get(request.table)
            return None if known is None else (known.next - 1, known.marked - 1, known.live)

        found = await self._look(request, see)
        if found is None:
            raise UnknownTable(
                f"Region {request.topics} has no table {request.table}.", hint=f"List them with `headwater wal tables {request.topics}`."
            )
        return found

    # -- looking ----------------------------------------------------------------------------------------------

    async def regions(self, request: requests.ListRegions) -> list[answers.RegionSummary]:
        return await self._log.work(lambda log: region_summaries(log, None))

    async def regions_of(self, request: requests.NamespaceRequest) -> list[answers.RegionSummary]:
        return await self._log.work(lambda log: region_summaries(log, request.namespace))

    async def statistics(self, request: RegionRequest) -> answers.RegionStatistics:
        region, view = self.opened(request.namespace, request.region), await self._view(request)
        recovered = region.recovered if region is not None else await self._recovered(request)
        counts = region.look(StateCounts) if region is not None else StateCounts(recovered.meta)
        stored = snapshot_states(recovered.snapshots if region is None else region.snapshots)
        owner = "this process" if region is not None else await asyncio.to_thread(self._owner, view)
        return await asyncio.to_thread(
            lambda: statistics(view, counts, recovered=recovered, snapshots=stored, owner=owner, open=region is not None)
        )

    def _owner(self, view: RegionView) -> str:
        """Who owns a region of the directory; "" where nobody does, or where only the brokers know."""
        if self._owners is None and view.log.engine != "embedded":
            return ""
        try:
            owner = self._ownership(view.log).owner(view.topics.data, 0)
        except (HeadwaterError, OSError):  # such as in a directory of another user, where a look cannot lock
            return ""
        return "" if owner is None else str(owner)

    async def tables(self, request: RegionRequest) -> list[answers.TableState]:
        return await self._look(request, table_states)

    async def sequence_num(self, request: requests.TableRequest) -> answers.LastSequence:
        def last(meta: RegionMeta) -> int:
            known = meta.tables.get(request.table)
            return 0 if known is None else known.next - 1

        return answers.LastSequence(await self._look(request, last))

    async def read_page(self, request: requests.ReadEntries) -> answers.EntriesPage:
        limit = request.limit or _PAGE
        reader = await self.reader(request, batch=limit)
        entries = await reader.next_batch()
        following = str(entries[-1].sequence + 1) if reader.left else None
        shown = await asyncio.to_thread(lambda: [show_entry(entry, request.decode) for entry in entries])
        return answers.EntriesPage(shown, following)

    async def why(self, request: RegionRequest) -> answers.PinnedLog:
        pins = await self._look(request, pins_of)
        view = await self._view(request)
        return await asyncio.to_thread(lambda: view.steady(lambda: why(view.log, view.topics, pins)))

    async def verify(self, request: RegionRequest) -> answers.RegionVerified:
        view = await self._view(request)
        return await asyncio.to_thread(verify, view)

    # -- changing ---------------------------------------------------------------------------------------------

    async def create(self, request: requests.NewRegion) -> Reply[answers.RegionSummary]:
        new = await (await self.manager(request.namespace)).create(request.region, request.settings)
        made = await self._log.work(lambda log: region_summary(log, request.topics))
        return Reply(made, 201 if new else 200)

    async def open(self, request: RegionRequest) -> answers.RegionRecovered:
        manager = await self.manager(request.namespace)
        region = await manager.open(request.region)
        manager.start_cleaning()
        return recovery_state(region.recovered, region.look(StateCounts))

    async def take_over(self, request: RegionRequest) -> answers.RegionRecovered:
        manager = await self.manager(request.namespace)
        region = await manager.open(request.region, take_over=True)
        manager.start_cleaning()
        return recovery_state(region.recovered, region.look(StateCounts))

    async def close(self, request: requests.CloseRegion) -> answers.RegionClosed:
        await self.check(request)
        return answers.RegionClosed(await (await self.manager(request.namespace)).close(request.region, graceful=request.graceful))

    async def delete(self, request: requests.ChangeRegion) -> answers.RegionDeleted:
        if request.dry_run:
            count = await self._log.work(lambda log: check_deletable(log, request.topics))
        else:
            count = await (await self.manager(request.namespace)).delete(request.region)
        return answers.RegionDeleted(namespace=request.namespace, region=request.region, offsets=count, dry_run=request.dry_run)

    async def write(self, request: requests.WriteEntries) -> answers.Written:
        manager = await self.manager(request.namespace)
        return answers.Written(await manager.write(request.region, request.table, request.payloads, timeout=request.seconds))

    async def mark_delete_up_to(self, request: requests.MarkTable) -> answers.TableMarked:
        table, sequence = request.table, request.sequence
        if request.dry_run:
            last, flushed, _ = await self._table(request)
            return answers.TableMarked(table=table, sequence=max(flushed, min(sequence, last)), clamped=sequence > last, dry_run=True)
        manager = await self.manager(request.namespace)
        marked = await manager.using(request.region, lambda region: region.mark_delete_up_to(table, sequence))
        return answers.TableMarked(table=table, sequence=marked.sequence, clamped=marked.clamped)

    async def drop_table(self, request: requests.ChangeTable) -> answers.TableDropped:
        last, _, live = await self._table(request)
        if not request.dry_run:
            manager = await self.manager(request.namespace)
            await manager.using(request.region, lambda region: region.drop_table(request.table))
        return answers.TableDropped(table=request.table, last=last, live=live, dry_run=request.dry_run)

    async def move(self, request: requests.ChangeTable) -> answers.TableMoved:
        if request.dry_run:
            return answers.TableMoved(table=request.table, entries=(await self._table(request))[2], dry_run=True)
        manager = await self.manager(request.namespace)
        return answers.TableMoved(
            table=request.table, entries=await manager.using(request.region, lambda region: region.move(request.table))
        )

    async def clean(self, request: requests.ChangeRegion) -> answers.RegionCleaned:
        if request.dry_run:
            safe = await self._look(request, lambda meta: meta.safe_offset)
            start = (await self._log.bounds(request.topics.data, 0)).start
            return answers.RegionCleaned(start=max(start, safe), removed=max(0, safe - start), dry_run=True)
        return await (await self.manager(request.namespace)).clean(request.region)

    async def recover(self, request: requests.RecoverRegion) -> answers.RegionRecovered:
        region = self.opened(request.namespace, request.region)
        if request.dry_run or region is not None:  # one that is open was recovered
            found = await self._recovered(request, accept_loss=request.accept_loss)
            return recovery_state(found, StateCounts(found.meta), dry_run=request.dry_run)
        region = await (await self.manager(request.namespace)).open(request.region, accept_loss=request.accept_loss)
        for _ in range(2):  # so that the next opening needs nothing of what is lost, should one of them be damaged
            await region.snapshot()
        return recovery_state(region.recovered, region.look(StateCounts))
