"""Performs the operations on regions in this process: looks at the log, or owns the region and changes it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, TypeVar

import msgspec

from headwater.client.local import LocalLog
from headwater.client.wal_events import RegionFollower
from headwater.client.wal_managers import WalManagers
from headwater.core.clock import Clock
from headwater.core.errors import Cancelled, UnknownTable
from headwater.core.metrics import Metrics
from headwater.core.settings import Settings
from headwater.wal import answers, operations, requests
from headwater.wal.entries import EntryReader, late_region_places, late_table_places
from headwater.wal.manager import RegionManager
from headwater.wal.namespaces import check_change
from headwater.wal.pin_callbacks import OnPin
from headwater.wal.recovery import Beat, Recovered
from headwater.wal.region import Region
from headwater.wal.region_deletion import check_deletable
from headwater.wal.region_list import known_region
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import region_owner
from headwater.wal.requests import RegionRequest
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
_PAGE = 100
_APART = 2  # threads for `verify` and `why`
_BATCH = 500  # payloads that are read at once


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
        self._log = log
        self._managers = WalManagers(log, clock=clock, settings=settings, address=address, random=random, on_pin=on_pin)
        self._apart_threads = ThreadPoolExecutor(_APART, thread_name_prefix="wal-verify")  # makes none before it has work
        self.metrics = self._managers.metrics

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
        self._managers.serve()

    def open_again_by(self, namespace: str, call: Callable[[int], Awaitable[object]]) -> None:
        """Have a part open the regions of its namespace that this server, on Kafka, owned before it was started."""
        self._managers.openers[namespace] = call

    async def aclose(self, *, graceful: bool = False) -> None:
        """Close every region. Closing twice is no error."""
        self._apart_threads.shutdown(wait=False, cancel_futures=True)
        await self._managers.aclose(graceful=graceful)

    async def manager(self, namespace: str) -> RegionManager:
        """The manager of a namespace. Errors: `Closed`."""
        return await self._managers.manager(namespace)

    # -- states -----------------------------------------------------------------------------------------------

    def opened(self, namespace: str, region: int) -> Region | None:
        """A region that this process owns."""
        return self._managers.opened(namespace, region)

    def writes(self, namespace: str, region: int) -> Callable[[int, int, Sequence[bytes]], Coroutine[Any, Any, int]] | None:
        """Writes payloads into a table of a region; None where this process does not own it, or another part does."""
        manager = self._managers.known(namespace)
        return None if manager is None or manager.opened(region) is None or region_owner(namespace) else manager.write

    def follower(self, request: requests.FollowRegion) -> RegionFollower:
        """What happens to a region."""
        never, namespace = asyncio.Event(), request.namespace
        return RegionFollower(
            self._log,
            request.topics,
            lambda: manager.cleaned if (manager := self._managers.known(namespace)) is not None else never,
            lambda: manager.pins.latest(request.region) if (manager := self._managers.known(namespace)) is not None else None,
        )

    async def check(self, request: RegionRequest) -> None:
        """Errors: `RegionNotFound`."""
        await self._log.work(lambda log: known_region(log, request.topics))

    async def _manager(self, request: RegionRequest) -> RegionManager:
        """The manager of a region that is there: others must not grow this process. Errors: `RegionNotFound`, `Closed`."""
        if self.opened(request.namespace, request.region) is None:
            await self._log.work(lambda log: check_deletable(log, request.topics))  # also the rest of one whose deletion was interrupted
        return await self.manager(request.namespace)

    async def _changing(self, request: RegionRequest) -> RegionManager:
        """`_manager` for a call that opens the region where it is not open. Who owns a region cleans it; a program that only writes here
        and there, such as a command, does not begin with that."""
        manager = await self._manager(request)
        if not self._managers.serving:
            manager.start_cleaning(at_once=False)
        return manager

    async def _view(self, request: RegionRequest) -> RegionView:
        return RegionView(await self._log.open(), request.topics)

    async def _recovered(self, request: RegionRequest, *, accept_loss: bool = False) -> Recovered:
        view = await self._view(request)
        return await asyncio.to_thread(lambda: view.recovered(accept_loss=accept_loss))

    async def _look(self, request: RegionRequest, see: Callable[[RegionMeta], T]) -> T:
        """What `see` finds in the state: that of this process where it owns the region, else that of the log."""
        region = await self._managers.owned(request.namespace, request.region)
        return see((await self._recovered(request)).meta) if region is None else region.look(see)

    async def reader(self, request: requests.ReadEntries | requests.ScanRegion, batch: int = _BATCH) -> EntryReader:
        """The payloads that a request asks for, as they are now. Errors: `BadBounds`, `RegionNotFound`."""
        request.check()
        log = await self._log.open()
        if isinstance(request, requests.ReadEntries):
            table, wanted = request.table, request.range
            places = await self._look(request, lambda meta: late_table_places(meta, table, wanted))
        else:
            tables = request.wanted
            places = await self._look(request, lambda meta: late_region_places(meta, None if tables is None else tables.__contains__))
        return EntryReader(log, request.topics, places, batch=batch)

    async def _table(self, request: requests.TableRequest) -> tuple[int, int, int]:
        """The last sequence of a table, the last one that is flushed, and how many are live. Errors: `UnknownTable`."""

        def see(meta: RegionMeta) -> tuple[int, int, int] | None:
            known: TableMeta | None = meta.tables.get(request.table)
            return None if known is None else (known.next - 1, known.marked - 1, known.live)

        numbers = await self._look(request, see)
        if numbers is None:
            raise UnknownTable(
                f"Region {request.topics} has no table {request.table}.", hint=f"List them with `headwater wal tables {request.topics}`."
            )
        return numbers

    # -- looking ----------------------------------------------------------------------------------------------

    async def regions(self, request: requests.ListRegions) -> list[answers.RegionSummary]:
        return await self._log.work(lambda log: region_summaries(log, None))

    async def regions_of(self, request: requests.NamespaceRequest) -> list[answers.RegionSummary]:
        return await self._log.work(lambda log: region_summaries(log, request.namespace))

    async def statistics(self, request: RegionRequest) -> answers.RegionStatistics:
        region, view = await self._managers.owned(request.namespace, request.region), await self._view(request)
        recovered = region.recovered if region is not None else await self._recovered(request)
        meta = recovered.meta if region is None else region.look(RegionMeta.copied)
        stored = snapshot_states(recovered.snapshots if region is None else region.snapshots)
        owner = "this process" if region is not None else await asyncio.to_thread(self._managers.owner, view)
        return await asyncio.to_thread(
            lambda: statistics(view, StateCounts(meta), recovered=recovered, snapshots=stored, owner=owner, open=region is not None)
        )

    async def tables(self, request: RegionRequest) -> list[answers.TableState]:
        return await asyncio.to_thread(table_states, await self._look(request, RegionMeta.copied))

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
        meta, view = await self._look(request, RegionMeta.copied), await self._view(request)
        return await self._apart(lambda beat: view.steady(lambda: why(view.log, view.topics, pins_of(meta), beat)))

    async def verify(self, request: RegionRequest) -> answers.RegionVerified:
        view = await self._view(request)
        return await self._apart(lambda beat: verify(view, beat))

    async def _apart(self, work: Callable[[Beat], T]) -> T:
        """Do what may take minutes in a few threads of its own: reads and opens of regions have theirs. It ends between two batches once
        nobody waits for it."""
        given_up = threading.Event()

        def beat() -> None:
            if given_up.is_set():
                raise Cancelled("Nobody waits for it any more.", hint="Start it again.")

        try:
            return await asyncio.get_running_loop().run_in_executor(self._apart_threads, work, beat)
        finally:
            given_up.set()

    # -- changing ---------------------------------------------------------------------------------------------

    async def create(self, request: requests.NewRegion) -> Reply[answers.RegionSummary]:
        new = await (await self.manager(request.namespace)).create(request.region, request.settings)
        made = await self._log.work(lambda log: region_summary(log, request.topics))
        return Reply(made, 201 if new else 200)

    async def open(self, request: RegionRequest) -> answers.RegionRecovered:
        manager = await self._manager(request)
        region = await manager.open(request.region)
        manager.start_cleaning()
        return recovery_state(region.recovered, region.look(StateCounts))

    async def take_over(self, request: RegionRequest) -> answers.RegionRecovered:
        manager = await self._manager(request)
        region = await manager.open(request.region, take_over=True)
        manager.start_cleaning()
        return recovery_state(region.recovered, region.look(StateCounts))

    async def close(self, request: requests.CloseRegion) -> answers.RegionClosed:
        await self.check(request)
        return answers.RegionClosed(await (await self._manager(request)).close(request.region, graceful=request.graceful))

    async def delete(self, request: requests.ChangeRegion) -> answers.RegionDeleted:
        if request.dry_run:
            count = await self._log.work(lambda log: check_deletable(log, request.topics))
        else:
            count = await (await self._manager(request)).delete(request.region)
        return answers.RegionDeleted(namespace=request.namespace, region=request.region, offsets=count, dry_run=request.dry_run)

    async def write(self, request: requests.WriteEntries) -> answers.Written:
        manager = await self._changing(request)
        return answers.Written(await manager.write(request.region, request.table, request.payloads, timeout=request.seconds))

    async def mark_delete_up_to(self, request: requests.MarkTable) -> answers.TableMarked:
        table, sequence = request.table, request.sequence
        if request.dry_run:
            last, flushed, _ = await self._table(request)
            return answers.TableMarked(table=table, sequence=max(flushed, min(sequence, last)), clamped=sequence > last, dry_run=True)
        manager = await self._changing(request)
        marked = await manager.using(request.region, lambda region: region.mark_delete_up_to(table, sequence))
        return answers.TableMarked(table=table, sequence=marked.sequence, clamped=marked.clamped)

    async def drop_table(self, request: requests.ChangeTable) -> answers.TableDropped:
        last, _, live = await self._table(request)
        if not request.dry_run:
            manager = await self._changing(request)
            await manager.using(request.region, lambda region: region.drop_table(request.table))
        return answers.TableDropped(table=request.table, last=last, live=live, dry_run=request.dry_run)

    async def move(self, request: requests.ChangeTable) -> answers.TableMoved:
        if request.dry_run:
            return answers.TableMoved(table=request.table, entries=(await self._table(request))[2], dry_run=True)
        manager = await self._changing(request)
        return answers.TableMoved(
            table=request.table, entries=await manager.using(request.region, lambda region: region.move(request.table))
        )

    async def clean(self, request: requests.ChangeRegion) -> answers.RegionCleaned:
        if request.dry_run:
            safe = await self._look(request, lambda meta: meta.safe_offset)
            start = (await self._log.bounds(request.topics.data, 0)).start
            return answers.RegionCleaned(start=max(start, safe), removed=max(0, safe - start), dry_run=True)
        return await (await self._manager(request)).clean(request.region)

    async def recover(self, request: requests.RecoverRegion) -> answers.RegionRecovered:
        region = await self._managers.owned(request.namespace, request.region)
        if request.dry_run or region is not None:  # one that is open was recovered
            recovered = await self._recovered(request, accept_loss=request.accept_loss)
            if request.dry_run or not recovered.accepted:
                return recovery_state(recovered, StateCounts(recovered.meta), dry_run=request.dry_run)
        manager = await self._manager(request)
        if region is not None:  # something of its log was lost since: what is accepted is what the log has left
            await manager.close(request.region)
        region = await manager.open(request.region, accept_loss=request.accept_loss)
        try:
            for _ in range(2):  # so that the next opening needs nothing of what is lost, should one of them be damaged
                await region.snapshot()
        except BaseException:  # nobody may write what the next opening could not tell from what is lost
            await manager.close(request.region)
            raise
        return recovery_state(region.recovered, region.look(StateCounts))
