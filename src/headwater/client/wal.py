"""The door's write-ahead log: namespaces, their regions and the tables in them, over a directory or over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, NoReturn

from headwater.client.backend import Backend
from headwater.core.errors import BadInput, Cancelled, Closed, Unsupported
from headwater.log.json_form import binary_of
from headwater.wal import operations as ask
from headwater.wal import requests
from headwater.wal.answers import (
    PinnedLog,
    RegionCleaned,
    RegionDeleted,
    RegionEvent,
    RegionRecovered,
    RegionStatistics,
    RegionSummary,
    RegionVerified,
    TableDropped,
    TableMarked,
    TableMoved,
    TableState,
)
from headwater.wal.bounds import End, SequenceRange, Start, sequence_range
from headwater.wal.entries import BATCH, LogEntry
from headwater.wal.layout import MAX_ID
from headwater.wal.region_topics import checked_id, region_topics
from headwater.wal.settings import RegionSettings

_ADDRESS = 8 << 10  # characters of the tables that a request names: servers take heads up to a size


class WriteAheadLog:
    """Every namespace: `wal = hw.wal("wal")`, then `region = await wal.open(7, create=True)`, then `await region.write(1, [b"…"])`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, namespace: str) -> WalNamespace:
        """A namespace by its name. Does no I/O. Errors: `BadInput` for what is no name."""
        return WalNamespace(self._backend, region_topics(namespace, 0).namespace)

    async def regions(self) -> Sequence[RegionSummary]:
        """Every region, sorted by namespace and number."""
        return await self._backend.ask(ask.REGIONS, requests.ListRegions())

    async def regions_of(self, namespace: str) -> Sequence[RegionSummary]:
        """The regions of a namespace, sorted by number."""
        return await self._backend.ask(ask.REGIONS_OF, requests.NamespaceRequest(namespace=namespace))


class WalNamespace:
    """A namespace and its regions."""

    def __init__(self, backend: Backend, namespace: str) -> None:
        self._backend, self.namespace = backend, namespace

    async def regions(self) -> Sequence[RegionSummary]:
        """Its regions, sorted by number."""
        return await self._backend.ask(ask.REGIONS_OF, requests.NamespaceRequest(namespace=self.namespace))

    def __getitem__(self, region: int) -> OneRegion:
        """A region by its number, to look at, or to write: the first change opens it. Does no I/O. Errors: `BadInput`."""
        return OneRegion(self._backend, self.namespace, checked_id(region, "region"))

    def __iter__(self) -> NoReturn:
        """Raise `TypeError`: Python would ask `__getitem__` for 0, 1, 2 and so on, and never end."""
        raise TypeError('`hw.wal("…")` is no list. Go through what its `regions()` returns; with asyncio, await it first.')

    async def create(self, region: int, settings: RegionSettings | None = None) -> RegionSummary:
        """Create a region; one that is there stays as it is. Errors: `BadInput`; `AlreadyExists` where it has other settings than given;
        `Unsupported` for a replication of segment files."""
        region_settings = settings or RegionSettings()
        if not isinstance(region_settings, RegionSettings):
            raise BadInput(
                f"{region_settings!r:.60} are no settings of a region.", hint='Write them such as RegionSettings(segment="64MiB").'
            )
        request = requests.NewRegion(
            namespace=self.namespace,
            region=checked_id(region, "region"),
            segment=region_settings.segment,
            period=region_settings.period,
            max_record=region_settings.max_record,
            disposal=region_settings.disposal,
            replication=region_settings.copies or None,
        )
        return await self._backend.ask(ask.CREATE, request)

    async def delete(self, region: int, *, dry_run: bool = False) -> RegionDeleted:
        """Delete a region with all of its tables, for good. Errors: `RegionNotFound`; `NotOwner` while another process owns it."""
        request = requests.ChangeRegion(namespace=self.namespace, region=checked_id(region, "region"), dry_run=dry_run)
        return await self._backend.ask(ask.DELETE, request)

    async def open(
        self,
        region: int,
        *,
        create: RegionSettings | bool = False,
        take_over: bool = False,
        on_pin: Callable[[PinnedLog], None] | None = None,
    ) -> OneRegion:
        """Own a region and recover its state; over HTTP the server does. `create`: make it where it is not there.

        `take_over`: also where a living process owns it, whose next write is then `Fenced`. `on_pin`: is called with what pins the log
        before a clean moves a table because of `pin_limit`, and where more than a segment is held that nothing moves: once for each table
        that pins it, and again whenever that has doubled. The thread of the event loop calls it, until the region is closed. Errors:
        `RegionNotFound`; `NotOwner`, which names the owner, where that one serves at no address; `MetaLost`, `Damaged`; `Unsupported` for
        `on_pin` over HTTP.
        """
        performer = None if on_pin is None else self._backend.performer_here(ask.WAL.name)
        if on_pin is not None and performer is None:
            raise Unsupported(
                "A server moves the tables of its regions, and cannot call a function of yours.",
                hint="Ask it for `why`, or read its metrics.",
            )
        if create is not False:
            await self.create(region, None if create is True else create)
        opened = self[region]
        request = requests.RegionRequest(namespace=self.namespace, region=region)
        await self._backend.ask(ask.TAKE_OVER if take_over else ask.OPEN, request)
        if on_pin is not None and performer is not None:
            await (await performer.manager(self.namespace)).tell_pins(region, on_pin)
        return opened

    async def take_over(self, region: int) -> OneRegion:
        """`open` with `take_over`: own a region although a living process owns it."""
        opened = self[region]
        await self._backend.ask(ask.TAKE_OVER, requests.RegionRequest(namespace=self.namespace, region=region))
        return opened


class OneRegion:
    """A region: tables that write ahead into one log, and forget on their own what they have flushed.

    Looking (`statistics`, `tables`, `read`, `scan`, `sequence_num`, `why`, `verify`, `events`) needs no ownership and creates nothing. The
    first change owns the region until `close`. Errors: `RegionNotFound`; `NotOwner`; `Fenced` once another process has taken it over;
    `UnknownTable` for a mark, a drop or a move; `Closed` after `close`. Over HTTP also `Unreachable`, `OutcomeUnknown`.
    """

    def __init__(self, backend: Backend, namespace: str, region: int) -> None:
        self._backend, self.namespace, self.region = backend, namespace, region
        self._closed = False

    # -- writing ----------------------------------------------------------------------------------------------

    async def write(self, table: int, payloads: Sequence[bytes], *, timeout: float | None = None) -> int:
        """Write payloads as one record; return the sequence of the last one once they are durable.

        Errors: `BadInput`, `TooLarge`; `Timeout` after so many seconds: they may become durable later; `OutcomeUnknown`.
        """
        waits = None if timeout is None else f"{max(1, round(_seconds(timeout) * 1000))}ms"
        request = requests.WriteEntries(**self._place(), table=table, payloads=payloads, timeout=waits)
        return (await self._backend.ask(ask.WRITE, request)).sequence

    async def mark_delete_up_to(self, table: int, sequence: int, *, dry_run: bool = False) -> TableMarked:
        """Forget the payloads up to `sequence`, with it: they are safe elsewhere. The answer says what is forgotten by now."""
        request = requests.MarkTable(**self._place(), table=table, sequence=sequence, dry_run=dry_run)
        return await self._backend.ask(ask.MARK_DELETE_UP_TO, request)

    async def drop_table(self, table: int, *, dry_run: bool = False) -> TableDropped:
        """Forget a table and all of its payloads. One that is written later under its number begins at 1."""
        return await self._backend.ask(ask.DROP_TABLE, requests.ChangeTable(**self._place(), table=table, dry_run=dry_run))

    async def move(self, table: int, *, dry_run: bool = False) -> TableMoved:
        """Copy the live payloads of a table to the end of the log, so that it no longer pins what lies before."""
        return await self._backend.ask(ask.MOVE, requests.ChangeTable(**self._place(), table=table, dry_run=dry_run))

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self, table: int, start: Start = "min", end: End = "max", *, batch: int = BATCH) -> EntryStream:
        """The live payloads of a table between two bounds, as they are when reading begins. Empty for an unknown table.

        Bounds are "min", "max", `Included(n)` and `Excluded(n)`. Errors: `BadBounds`, whatever the table holds.
        """
        wanted: SequenceRange = sequence_range(start, end)
        request = requests.ReadEntries(
            **self._place(),
            table=checked_id(table, "table"),
            start=None if wanted.first == 0 else wanted.first,
            stop=None if wanted.last == MAX_ID else wanted.last,
            decode="binary",
        )
        return EntryStream(lambda: self._backend.stream(ask.READ, request), batch)

    def scan(self, *, tables: Collection[int] | None = None, batch: int = BATCH) -> EntryStream:
        """The live payloads of all tables in the order of the log, as they are when reading begins. `tables`: only these."""
        given: object = tables
        if given is not None and (isinstance(given, str) or not isinstance(given, Collection)):
            raise BadInput(f"tables={given!r:.60} are no tables.", hint="Give their numbers, such as tables=[1, 5].")
        numbers = None if tables is None else ",".join(str(checked_id(table, "table")) for table in tables)
        long = numbers is not None and len(numbers) > _ADDRESS
        request = requests.ScanRegion(**self._place(), tables=None if long else numbers, decode="binary")
        if long:
            wanted = frozenset(tables or ())
            return EntryStream(lambda: _of_tables(self._backend.stream(ask.SCAN, request), wanted), batch)
        return EntryStream((lambda: self._backend.stream(ask.SCAN, request)) if numbers != "" else None, batch)

    async def sequence_num(self, table: int) -> int:
        """The last sequence of a table; 0 for an unknown one."""
        return (await self._backend.ask(ask.SEQUENCE_NUM, requests.TableRequest(**self._place(), table=table))).sequence

    async def tables(self) -> Sequence[TableState]:
        """Every table, sorted by number."""
        return await self._backend.ask(ask.TABLES, self._request())

    async def events(self, after: int | None = None) -> AsyncIterator[RegionEvent]:
        """Writes, marks, drops, moves, cleans and pins as they happen, for ever; those behind the offset `after`, or from now on."""
        request = requests.FollowRegion(**self._place(), after=after)
        seen = after

        def behind(event: RegionEvent) -> requests.FollowRegion:
            nonlocal seen
            seen = seen if event.kind in ("clean", "pin") else event.offset
            return requests.FollowRegion(namespace=self.namespace, region=self.region, after=seen)

        async for event in self._backend.stream(ask.EVENTS, request, behind):
            yield event

    # -- looking after it ---------------------------------------------------------------------------------------

    async def statistics(self) -> RegionStatistics:
        """What it holds: offsets, tables, live and pinned entries, snapshots, its owner."""
        return await self._backend.ask(ask.STATISTICS, self._request())

    async def why(self) -> PinnedLog:
        """Which table pins the log, since when, how much of it, and what to do."""
        return await self._backend.ask(ask.WHY, self._request())

    async def verify(self) -> RegionVerified:
        """Compare the stored state with the one that the log tells. Errors: `Differs` with the first difference."""
        return await (await self._backend.start(ask.VERIFY, self._request())).result()

    async def clean(self, *, dry_run: bool = False) -> RegionCleaned:
        """Store the state, and remove what no table needs from the beginning of the log."""
        return await self._backend.ask(ask.CLEAN, requests.ChangeRegion(**self._place(), dry_run=dry_run))

    async def recover(self, *, accept_loss: bool = False, dry_run: bool = False) -> RegionRecovered:
        """Recover the state and store it anew; `accept_loss`: also where the beginning of the log is lost. Errors: `MetaLost`."""
        return await self._backend.ask(ask.RECOVER, requests.RecoverRegion(**self._place(), accept_loss=accept_loss, dry_run=dry_run))

    async def close(self) -> None:
        """Finish the calls under way, and let another process own the region. Closing twice is no error; other calls are `Closed` then."""
        await self._close(graceful=False)

    async def close_gracefully(self) -> None:
        """`close` with a last snapshot, so that the next opening reads nothing but that."""
        await self._close(graceful=True)

    async def _close(self, *, graceful: bool) -> None:
        if not self._closed:
            await self._backend.ask(ask.CLOSE, requests.CloseRegion(**self._place(), graceful=graceful))
            self._closed = True

    def _request(self) -> requests.RegionRequest:
        return requests.RegionRequest(**self._place())

    def _place(self) -> dict[str, Any]:
        if self._closed:
            raise Closed(f"Region {self.namespace}/{self.region} is closed.", hint='Open it again: `await hw.wal("…").open(…)`.')
        return {"namespace": self.namespace, "region": self.region}


class EntryStream:
    """Payloads, one by one or in batches. What they are is decided with the first one. An error stays an error on every later call.

    A call that is given up, as by `asyncio.timeout`, takes nothing away: the next one goes on behind what was given. Errors: `OffsetGone`
    where a clean has removed them meanwhile: this never ends early without a word. `RegionNotFound`, `Damaged`.
    """

    def __init__(self, begin: Callable[[], AsyncIterator[Any]] | None, batch: int) -> None:
        if type(batch) is not int or batch < 1:
            raise BadInput(f"A batch of {batch!r} entries reads nothing.", hint="Give 1 or more.")
        self._begin, self._batch = begin, batch
        self._items: AsyncIterator[Any] | None = None
        self._reading: asyncio.Task[list[LogEntry]] | None = None  # of the next batch: a cancelled generator would end without a word
        self._rest: list[LogEntry] = []  # of a batch that is given one by one, the last first
        self._error: Exception | None = None

    async def next_batch(self) -> list[LogEntry]:
        """Up to `batch` entries; empty at the end."""
        if self._rest:
            rest, self._rest = self._rest[::-1], []
            return rest
        while True:
            if self._error is not None:
                raise self._error
            if (reading := self._reading) is None:
                reading = self._reading = asyncio.create_task(self._read())
            batch = await asyncio.shield(reading)
            if self._reading is reading:  # else another caller has it
                self._reading = None
                if self._error is None:
                    return batch

    def __aiter__(self) -> AsyncIterator[LogEntry]:
        """The entries, one by one."""
        return self

    async def __anext__(self) -> LogEntry:
        """The next entry. Errors: `StopAsyncIteration` at the end."""
        if not self._rest:
            self._rest = (await self.next_batch())[::-1]
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop()

    async def _read(self) -> list[LogEntry]:
        """The next batch. What it raises stays in `_error`."""
        entries: list[LogEntry] = []
        try:
            while len(entries) < self._batch and (entry := await self._next()) is not None:
                entries.append(entry)
        except asyncio.CancelledError:
            self._error = Cancelled("The reading was cancelled.", hint="Begin to read again.")
        except Exception as error:
            self._error = error
        return entries

    async def _next(self) -> LogEntry | None:
        if self._begin is None:
            return None
        if self._items is None:
            self._items = aiter(self._begin())
        try:
            item = await anext(self._items)
        except StopAsyncIteration:
            self._begin = None
            return None
        if isinstance(item, LogEntry):
            return item
        return LogEntry(item.table, item.sequence, item.offset, binary_of(item.payload))


async def _of_tables(entries: AsyncIterator[Any], wanted: Collection[int]) -> AsyncIterator[Any]:
    """Those of some tables, which are too many for the address of a request."""
    async for entry in entries:
        if entry.table in wanted:
            yield entry


def _seconds(timeout: object) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < 1e9:
        raise BadInput(f"timeout={timeout!r} is no number of seconds.", hint="Give such as timeout=5.")
    return float(timeout)
