"""The door's write-ahead log, over a directory and over HTTP: the same calls, the same answers, the same errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.until import until

import headwater
from headwater.client import wal_performer
from headwater.client.backend import Backend
from headwater.client.forwarding import ForwardingBackend
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.remote import remote_log
from headwater.client.wal import EntryStream, OneRegion, WalNamespace, WriteAheadLog
from headwater.client.wal_performer import WalPerformer, closes, opens
from headwater.core.clock import SystemClock
from headwater.core.errors import (
    AlreadyExists,
    BadBounds,
    BadInput,
    Cancelled,
    Closed,
    Damaged,
    Differs,
    DiskFull,
    Fenced,
    MetaLost,
    NotOwner,
    OffsetGone,
    RegionNotFound,
    TooLarge,
    UnknownTable,
    Unsupported,
)
from headwater.core.settings import Settings
from headwater.log.record import Bounds
from headwater.testing.app import app_over
from headwater.testing.scripted import served
from headwater.wal.answers import PinnedLog, RegionVerified, TableMarked
from headwater.wal.bounds import Excluded, Included
from headwater.wal.entries import LogEntry
from headwater.wal.region_meta import RegionMeta
from headwater.wal.requests import RegionRequest
from headwater.wal.settings import RegionSettings
from headwater.wal.snapshots import SnapshotStore
from headwater.wal.view import RegionView

pytestmark = pytest.mark.anyio
MAX = 2**64 - 1


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def performer(data: Path) -> AsyncIterator[WalPerformer]:
    """Where the operations are performed: in this process, or behind HTTP."""
    log = local_log(Settings(), data, SystemClock())
    await log.open()
    made = WalPerformer(log=log)
    yield made
    await made.aclose()
    await log.aclose()


@pytest.fixture(params=["directory", "http"])
async def backend(request: pytest.FixtureRequest, performer: WalPerformer) -> AsyncIterator[Backend]:
    log = performer._log
    if request.param == "directory":
        yield LocalBackend(log, performers={"wal": performer})
        return
    async with served(app_over(log, performers={"wal": performer})) as url:
        remote = remote_log(url, token=None, clock=SystemClock())
        yield ForwardingBackend(remote.backend, connect=lambda address: remote.backend)
        await remote.aclose()


@pytest.fixture
def wal(backend: Backend) -> WriteAheadLog:
    return WriteAheadLog(backend)


@pytest.fixture
async def region(wal: WriteAheadLog) -> OneRegion:
    return await wal("wal").open(7, create=True)


async def payloads(entries: Any) -> list[bytes]:
    return [entry.payload async for entry in entries]


async def test_what_is_written_is_read_between_bounds(region: OneRegion) -> None:
    written = [b"", b"\x00\xff", "ä".encode(), b'{"$binary": "x"}']
    assert await region.write(1, written) == 4
    assert await region.write(1, [b"five"], timeout=30) == 5
    assert await region.write(MAX, [b"last"]) == 1
    assert await payloads(region.read(1)) == [*written, b"five"]
    assert [(entry.table, entry.sequence, entry.offset) async for entry in region.read(1, Excluded(3), Included(5))] == [
        (1, 4, 0),
        (1, 5, 1),
    ]
    assert await payloads(region.read(9)) == []
    assert [(entry.table, entry.sequence) async for entry in region.scan()] == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (MAX, 1)]
    assert await payloads(region.scan(tables=[MAX, 9])) == [b"last"]
    assert await payloads(region.scan(tables=[])) == []
    assert [await region.sequence_num(table) for table in (1, MAX, 9)] == [5, 1, 0]


async def test_a_scan_takes_any_number_of_tables(region: OneRegion) -> None:
    for table in (1, 4000, 5001, MAX):
        await region.write(table, [b"%d" % table])
    assert await payloads(region.scan(tables=range(5000))) == [b"1", b"4000"]
    assert await payloads(region.scan(tables=[MAX - number for number in range(5000)])) == [b"%d" % MAX]


async def test_batches_end_where_the_reader_began_and_errors_stay(region: OneRegion) -> None:
    await region.write(1, [b"%d" % number for number in range(250)])
    stream = region.read(1, batch=100)
    assert len(await stream.next_batch()) == 100
    await region.write(1, [b"later"])
    assert [len(await stream.next_batch()) for _ in range(3)] == [100, 50, 0]
    for wrong in (0, -1, "x"):
        with pytest.raises(BadInput):
            region.read(1, batch=wrong)  # type: ignore[arg-type]
    gone = WriteAheadLog(region._backend)("wal")[8].scan()
    for _ in range(2):
        with pytest.raises(RegionNotFound):
            await gone.next_batch()


async def test_a_reader_whose_call_was_given_up_goes_on_behind_what_it_gave(region: OneRegion) -> None:
    for begin in range(0, 3000, 100):
        await region.write(1, [b"%d" % number for number in range(begin, begin + 100)])
    stream, seen, given_up = region.read(1, batch=700), list[int](), 0
    while True:
        call = asyncio.create_task(stream.next_batch())
        for _ in range(given_up):  # at another point each time
            await asyncio.sleep(0)
        if not call.done():
            given_up += 3
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            call = asyncio.create_task(stream.next_batch())
        entries = await call
        if not entries:
            break
        seen += [entry.sequence for entry in entries]
    assert given_up
    assert seen == list(range(1, 3001))


async def test_two_callers_of_a_reader_share_its_entries(region: OneRegion) -> None:
    await region.write(1, [b"x"] * 100)
    stream = region.read(1, batch=30)
    batches = await asyncio.gather(*(stream.next_batch() for _ in range(5)))
    assert sorted(entry.sequence for batch in batches for entry in batch) == list(range(1, 101))


async def test_entries_one_by_one_and_in_batches_are_of_one_stream(region: OneRegion) -> None:
    await region.write(1, [b"x"] * 10)
    stream = region.read(1, batch=4)
    async for first in stream:
        assert first.sequence == 1
        break
    assert [entry.sequence for entry in await stream.next_batch()] == [2, 3, 4]
    assert [entry.sequence async for entry in stream] == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), asyncio.CancelledError()])
async def test_a_reader_that_failed_never_ends_without_a_word(error: BaseException) -> None:
    async def entries() -> AsyncIterator[LogEntry]:
        yield LogEntry(1, 1, 0, b"x")
        raise error

    stream = EntryStream(entries, 10)
    for _ in range(3):
        with pytest.raises((OSError, Cancelled)):
            await stream.next_batch()


async def test_a_reader_that_a_clean_overtakes_never_ends_early(region: OneRegion, backend: Backend) -> None:
    for _ in range(600):
        await region.write(1, [b"x" * 2000])
    stream = region.read(1, batch=10)
    seen, error = len(await stream.next_batch()), None
    await region.mark_delete_up_to(1, 600)
    assert (await region.clean()).removed > 0
    try:
        while entries := await stream.next_batch():
            seen += len(entries)
    except OffsetGone as gone:
        error = gone
        with pytest.raises(OffsetGone):
            await stream.next_batch()
    if isinstance(backend, LocalBackend):
        assert error is not None
    else:  # what was under way already comes, which may be everything
        assert seen == 600 or error is not None


async def test_marks_drops_and_moves(region: OneRegion) -> None:
    await region.write(1, [b"a", b"b", b"c"])
    await region.write(2, [b"x"])
    assert await region.mark_delete_up_to(1, 2, dry_run=True) == TableMarked(table=1, sequence=2, clamped=False, dry_run=True)
    assert await region.mark_delete_up_to(1, 2) == TableMarked(table=1, sequence=2, clamped=False)
    assert await region.mark_delete_up_to(1, 1) == TableMarked(table=1, sequence=2, clamped=False)
    assert await region.mark_delete_up_to(1, MAX, dry_run=True) == TableMarked(table=1, sequence=3, clamped=True, dry_run=True)
    assert (await region.move(1, dry_run=True)).entries == 1
    assert (await region.move(1)).entries == 1
    assert await payloads(region.scan()) == [b"x", b"c"]
    states = [(one.table, one.last, one.flushed, one.live) for one in await region.tables()]
    assert states == [(1, 3, 2, 1), (2, 1, 0, 1)]
    assert (await region.drop_table(1, dry_run=True)).live == 1
    assert (await region.drop_table(1)).live == 1
    assert [one.table for one in await region.tables()] == [2]
    assert await region.write(1, [b"new"]) == 1
    for call in (lambda: region.mark_delete_up_to(9, 1), lambda: region.drop_table(9), lambda: region.move(9)):
        with pytest.raises(UnknownTable, match="headwater wal tables wal/7"):
            await call()


async def test_looking_creates_nothing_and_needs_no_ownership(wal: WriteAheadLog, performer: WalPerformer) -> None:
    region = wal("wal")[7]
    looks: list[Callable[[], Awaitable[Any]]] = [
        region.statistics,
        region.tables,
        region.why,
        region.verify,
        lambda: region.sequence_num(1),
        lambda: payloads(region.scan()),
        lambda: payloads(region.read(1)),
        lambda: anext(region.events()),  # type: ignore[call-overload]
    ]
    changes: list[Callable[[], Awaitable[Any]]] = [
        lambda: region.write(1, [b"x"]),
        lambda: region.mark_delete_up_to(1, 1),
        lambda: region.drop_table(1),
        lambda: region.move(1),
        lambda: region.clean(),
        lambda: region.clean(dry_run=True),
        lambda: region.recover(),
        lambda: wal("wal").open(7),
        lambda: wal("wal").open(7, take_over=True),
        lambda: region.close(),
    ]
    for call in [*looks, *changes]:
        with pytest.raises(RegionNotFound, match="headwater wal create wal/7"):
            await call()
    assert await wal.regions() == []
    await wal("wal").create(7)
    for look in looks[:-1]:
        await look()
    assert (await region.statistics()).open is False
    assert (await performer.manager("wal")).regions() == []


async def test_regions_are_made_and_listed(wal: WriteAheadLog) -> None:
    made = await wal("a").create(1, RegionSettings(segment="1MiB"))
    assert (made.namespace, made.region, made.settings["segment"]) == ("a", 1, "1MiB")
    disposed = await wal("a").create(2, RegionSettings(period="month", disposal="secure-delete"))
    assert (disposed.settings["period"], disposed.settings["disposal"]) == ("month", "secure-delete")
    assert (await wal("a")[2].statistics()).settings == disposed.settings
    await wal("b").create(MAX)
    await wal("b").create(5)
    assert await wal("a").create(1) == made
    assert [(one.namespace, one.region) for one in await wal.regions()] == [("a", 1), ("a", 2), ("b", 5), ("b", MAX)]
    assert [one.region for one in await wal("b").regions()] == [5, MAX]
    assert list(await wal.regions_of("none")) == []
    with pytest.raises(AlreadyExists):
        await wal("a").create(1, RegionSettings(segment="2MiB"))
    for wrong in (RegionSettings(segment="big"), {"segment": "1MiB"}):
        with pytest.raises(BadInput):
            await wal("a").create(2, wrong)  # type: ignore[arg-type]
    for region in (1, 3):  # also one that is there
        with pytest.raises(Unsupported, match="kept once"):
            await wal("a").create(region, RegionSettings(replication=3))
    with pytest.raises(BadInput, match="no number of copies"):
        await wal("a").create(3, RegionSettings(replication=0))


async def test_statistics_why_and_verify_tell_of_it(region: OneRegion) -> None:
    await region.write(9, [b"old"])
    for _ in range(10):
        await region.write(1, [b"x" * 100])
    await region.mark_delete_up_to(1, 10)
    found = await region.why()
    assert (found.table, found.entries) == (9, 12)
    assert found.advice[1].endswith("`headwater wal move wal/7 9`.")
    shown = await region.statistics()
    assert (shown.tables, shown.live_entries, shown.pinned_entries, shown.open, shown.owner) == (2, 1, 12, True, "this process")
    assert (await region.verify()).compared == "full scan"
    await region.move(9)
    assert (await region.clean(dry_run=True)).removed == 12
    assert (await region.clean()).start == 12
    assert (await region.verify()).compared == "older snapshot"


async def test_a_wrong_state_is_told(region: OneRegion, performer: WalPerformer) -> None:
    await region.write(1, [b"x", b"y"])
    opened = performer.opened("wal", 7)
    assert opened is not None
    with opened._writer.locked:
        opened._writer.meta.tables[1].mark(2)
    await opened.snapshot()
    with pytest.raises(Differs, match="table 1 has marked 2"):
        await region.verify()


async def test_verifications_that_were_given_up_hold_up_nobody(
    region: OneRegion, performer: WalPerformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await region.write(1, [b"a"])
    goes_on, beats = threading.Event(), list[Callable[[], None]]()

    def slow(view: RegionView, beat: Callable[[], None]) -> RegionVerified:
        beats.append(beat)
        assert goes_on.wait(60)
        beat()
        raise AssertionError("nobody waits for it")

    monkeypatch.setattr(wal_performer, "verify", slow)
    calls = [asyncio.create_task(performer.verify(RegionRequest(namespace="wal", region=7))) for _ in range(40)]
    await until(lambda: beats)
    assert await payloads(region.read(1)) == [b"a"]
    assert await region.write(1, [b"b"]) == 2
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    goes_on.set()
    for beat in beats:
        with pytest.raises(Cancelled):
            beat()
    assert len(beats) <= 2


async def test_a_lost_beginning_is_accepted_only_when_that_is_said(region: OneRegion, performer: WalPerformer) -> None:
    await region.clean()  # behind the first pass of the cleaner, whose snapshot would hold the first payload if it came later
    await region.write(1, [b"a"])
    opened = performer.opened("wal", 7)
    assert opened is not None
    opened._owned.writer.roll()
    await region.write(1, [b"b"])
    opened._owned.writer.delete_before(1)
    await region.close()
    again = WriteAheadLog(region._backend)("wal")[7]
    for call in (again.tables, again.recover, lambda: again.write(1, [b"c"])):
        with pytest.raises(MetaLost, match="--accept-loss"):
            await call()
    told = await again.recover(accept_loss=True, dry_run=True)
    assert (told.lost, told.live, told.dry_run) == (True, 1, True)
    assert (await again.recover(accept_loss=True)).lost
    assert await payloads(again.read(1)) == [b"b"]
    assert await again.write(1, [b"c"]) == 3
    await again.close()
    assert not (await WriteAheadLog(region._backend)("wal")[7].recover()).lost


async def test_what_cannot_be_stored_is_not_gone_on_with(
    region: OneRegion, performer: WalPerformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is older than its newest snapshot, and a full disk: a region that took writes would lose them to that snapshot."""
    for _ in range(2):
        await region.write(1, [b"old"] * 5)
        await region.close_gracefully()
        region = await WriteAheadLog(region._backend)("wal").open(7)
    opened = performer.opened("wal", 7)
    assert opened is not None
    snapshots = opened._snapshots
    snapshots.store(snapshots.encoded(RegionMeta(watermark=20)), 20)
    await region.close()
    again = WriteAheadLog(region._backend)("wal")[7]
    assert (await again.recover(accept_loss=True, dry_run=True)).lost
    with monkeypatch.context() as full:

        def refused(self: SnapshotStore, values: object, watermark: int) -> None:
            raise DiskFull("No space is left.", hint="Free some.")

        full.setattr(SnapshotStore, "store", refused)
        for _ in range(2):
            with pytest.raises(DiskFull):
                await again.recover(accept_loss=True)
            assert performer.opened("wal", 7) is None
    assert (await again.recover(accept_loss=True)).lost
    assert performer.opened("wal", 7) is not None


async def test_a_loss_is_accepted_also_of_a_region_that_is_open(region: OneRegion, performer: WalPerformer) -> None:
    """Somebody has cut off what a table needs, below an owner that still has it in its state."""
    await region.write(1, [b"lost"])
    await region.write(1, [b"left"])
    opened = performer.opened("wal", 7)
    assert opened is not None
    await opened.snapshot()
    opened._owned.writer.delete_before(1)
    with pytest.raises(Damaged, match="cuts off"):
        await region.recover()
    assert (await region.recover(accept_loss=True, dry_run=True)).lost
    assert (await region.recover(accept_loss=True)).problems == ["table 1 has lost 1 to 1"]
    assert await payloads(region.read(1)) == [b"left"]
    assert await region.write(1, [b"more"]) == 3
    await region.close_gracefully()
    again = WriteAheadLog(region._backend)("wal")[7]
    assert await payloads(again.scan()) == [b"left", b"more"]
    assert not (await again.recover()).lost


async def test_a_region_whose_new_snapshots_fail_is_closed(
    region: OneRegion, performer: WalPerformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await region.write(1, [b"x"])
    await region.close()

    def refused(self: SnapshotStore, values: object, watermark: int) -> None:
        raise DiskFull("No space is left.", hint="Free some.")

    monkeypatch.setattr(SnapshotStore, "store", refused)
    with pytest.raises(DiskFull):
        await WriteAheadLog(region._backend)("wal")[7].recover()
    assert performer.opened("wal", 7) is None


async def test_events_come_as_they_happen_and_go_on_behind_an_id(region: OneRegion) -> None:
    await region.write(1, [b"a", b"b"])
    await region.write(2, [b"c"])
    seen = []
    async for event in region.events(after=0):
        seen.append((event.kind, event.table, event.first, event.last))
        if len(seen) == 1:
            await region.mark_delete_up_to(1, 2)
        elif len(seen) == 2:
            await region.move(2)
        elif len(seen) == 3:
            await region.clean()
        elif len(seen) == 4:
            await region.drop_table(2)
        elif len(seen) == 5:
            break
    kinds = [("write", 2, 1, 1), ("mark", 1, None, 2), ("move", 2, 1, 1), ("clean", None, None, None), ("drop", 2, None, 1)]
    assert seen == kinds


async def test_a_reader_and_a_follower_of_a_region_that_is_deleted_are_told(wal: WriteAheadLog, region: OneRegion) -> None:
    """Also where it is created again: nothing of the new one is given as if it were of the old one."""
    for _ in range(30):
        await region.write(1, [b"old"] * 50)
    stream, events = region.read(1, batch=10), region.events(after=0)
    assert {entry.payload for entry in await stream.next_batch()} == {b"old"}
    await anext(events)
    await wal("wal").delete(7)
    made = await wal("wal").open(7, create=True)
    for _ in range(30):
        await made.write(1, [b"new"] * 50)
    seen = list[bytes]()
    with suppress(OffsetGone, RegionNotFound):  # not where all of it was on its way already
        async for entry in stream:
            seen.append(entry.payload)
    assert set(seen) <= {b"old"}
    with pytest.raises(RegionNotFound):
        async for _ in events:
            pass


async def test_closing_lets_others_own_it_and_refuses_calls(wal: WriteAheadLog, region: OneRegion, performer: WalPerformer) -> None:
    await region.write(1, [b"a"])
    await region.close_gracefully()
    await region.close()
    assert performer.opened("wal", 7) is None
    with pytest.raises(Closed):
        await region.write(1, [b"b"])
    with pytest.raises(Closed):
        region.scan()
    again = await wal("wal").open(7)
    assert await again.write(1, [b"b"]) == 2


async def test_another_process_owns_it(data: Path, wal: WriteAheadLog, region: OneRegion) -> None:
    await region.write(1, [b"a"])
    async with headwater.open(data) as other:
        theirs = other.wal("wal")
        with pytest.raises(NotOwner):
            await theirs.open(7)
        assert await payloads(theirs[7].scan()) == [b"a"]
        assert "process" in (await theirs[7].statistics()).owner
        taken = await theirs.open(7, take_over=True)
        with pytest.raises(Fenced):
            await region.write(1, [b"b"])
        with pytest.raises(NotOwner):
            await region.write(1, [b"b"])
        assert await taken.write(1, [b"c"]) == 2
    assert await region.write(1, [b"d"]) == 3


async def test_a_former_owner_shows_what_the_new_one_has_written(
    data: Path, wal: WriteAheadLog, region: OneRegion, performer: WalPerformer
) -> None:
    await region.write(1, [b"a"])
    async with headwater.open(data) as other:
        taken = await other.wal("wal").open(7, take_over=True)
        await taken.write(1, [b"b", b"c"])
        await taken.mark_delete_up_to(1, 1)
        assert await region.sequence_num(1) == 3
        assert performer.opened("wal", 7) is None
        assert await payloads(region.read(1)) == await payloads(region.scan()) == [b"b", b"c"]
        told = await region.statistics()
        assert (told.open, told.live_entries, told.end) == (False, 2, 3)
        assert told.owner.startswith("process ")
        assert await region.tables() == await taken.tables()
        with pytest.raises(Fenced, match="was taken over"):
            await region.write(1, [b"d"])
        with pytest.raises(NotOwner):
            await region.write(1, [b"d"])


BAD: list[tuple[type[Exception], Callable[[OneRegion], Any]]] = [
    (BadInput, lambda region: region.scan(tables=5).next_batch()),  # type: ignore[arg-type]
    (BadInput, lambda region: region.scan(tables="12").next_batch()),  # type: ignore[arg-type]
    (BadInput, lambda region: region.write(1, [])),
    (BadInput, lambda region: region.write(1, b"abc")),
    (BadInput, lambda region: region.write(1, ["text"])),  # type: ignore[list-item]
    (BadInput, lambda region: region.write(-1, [b"x"])),
    (BadInput, lambda region: region.write(MAX + 1, [b"x"])),
    (BadInput, lambda region: region.write(True, [b"x"])),
    (BadInput, lambda region: region.write("1", [b"x"])),  # type: ignore[arg-type]
    (BadInput, lambda region: region.write(1, [b"x"], timeout=0)),
    (BadInput, lambda region: region.write(1, [b"x"], timeout="5s")),  # type: ignore[arg-type]
    (TooLarge, lambda region: region.write(1, [b"x" * 9000])),
    (BadInput, lambda region: region.mark_delete_up_to(1, -1)),
    (BadInput, lambda region: region.mark_delete_up_to(1, MAX + 1)),
    (BadInput, lambda region: region.sequence_num(-1)),
    (BadBounds, lambda region: region.read(1, Included(3), Included(2))),
    (BadBounds, lambda region: region.read(1, Excluded(MAX))),
    (BadBounds, lambda region: region.read(1, "min", Excluded(0))),
    (BadInput, lambda region: region.read(-1)),
    (BadInput, lambda region: region.scan(tables=[-1])),
]


async def test_wrong_input_is_refused_and_the_region_goes_on(wal: WriteAheadLog) -> None:
    region = await wal("wal").open(7, create=RegionSettings(max_record="8KiB"))
    for error, call in BAD:
        with pytest.raises(error):
            given = call(region)
            await given
    for wrong in ("", "a_b", "x" * 101, 5, None):
        with pytest.raises(BadInput):
            wal(wrong)  # type: ignore[arg-type]
    for number in (-1, MAX + 1, "7", True):
        with pytest.raises(BadInput):
            wal("wal")[number]  # type: ignore[index]
    with pytest.raises(TypeError, match="is no list"):
        iter(wal("wal"))
    assert await region.write(1, [b"x"]) == 1


async def test_a_payload_may_be_as_large_as_the_settings_say_and_no_byte_larger(wal: WriteAheadLog, backend: Backend) -> None:
    region = await wal("wal").open(7, create=True)
    if isinstance(backend, LocalBackend):  # this server takes no such bodies
        assert await region.write(1, [bytes(16 << 20)]) == 1
        with pytest.raises(TooLarge, match="max_record"):
            await region.write(1, [bytes((16 << 20) + 1)])
    small = await wal("wal").open(8, create=RegionSettings(max_record="1KiB"))
    assert await small.write(1, [bytes(1024)]) == 1
    assert await small.write(1, [bytes(600), bytes(412)]) == 3
    for payloads in ([bytes(1025)], [bytes(600), bytes(413)]):
        with pytest.raises(TooLarge):
            await small.write(1, payloads)
    assert [len(entry.payload) for entry in await small.read(1).next_batch()] == [1024, 600, 412]
    assert [one.settings["max_record"] for one in await wal("wal").regions()] == ["16MiB", "1KiB"]


async def test_writers_share_and_are_numbered_in_order(region: OneRegion) -> None:
    async def writer(table: int) -> list[int]:
        return [await region.write(table, [b"x"]) for _ in range(20)]

    assert await asyncio.gather(*(writer(table) for table in range(10))) == [list(range(1, 21))] * 10


async def test_who_opens_a_region_is_told_what_pins_it(data: Path) -> None:
    told: list[PinnedLog] = []
    config = data.parent / "headwater.toml"
    config.write_text('[wal.wal]\npin_limit = "2000B"\n')
    async with headwater.open(data, create=True, config=config) as hw:
        region = await hw.wal("wal").open(7, create=True, on_pin=told.append)
        await region.write(9, [b"old"])
        for _ in range(30):
            await region.write(1, [b"x" * 100])
        await region.mark_delete_up_to(1, 30)
        assert (await region.clean()).moved == [9]
        assert [(one.region, one.table, one.entries) for one in told] == [(7, 9, 32)]


async def test_who_opens_a_region_is_told_of_a_pin_that_nothing_moves(data: Path) -> None:
    told: list[PinnedLog] = []
    async with headwater.open(data, create=True) as hw:
        region = await hw.wal("wal").open(7, create=RegionSettings(segment="4KiB"))
        await region.write(9, [b"old"])
        await region.write(1, [b"x" * 9000])
        await region.mark_delete_up_to(1, 1)
        await hw.wal("wal").open(7, on_pin=told.append)  # it is pinned now
        await region.clean()
        assert [(one.region, one.table, one.entries) for one in told] == [(7, 9, 3)]


async def test_events_tell_of_a_pin(wal: WriteAheadLog) -> None:
    region = await wal("wal").open(7, create=RegionSettings(segment="4KiB"))
    await region.write(9, [b"old"])
    events = region.events(after=0)
    await region.write(1, [b"x" * 9000])
    assert (await anext(events)).kind == "write"  # it follows from here on
    await region.mark_delete_up_to(1, 1)
    await region.clean()
    pin = await anext(event async for event in events if event.kind == "pin")
    assert (pin.table, pin.offset) == (9, 0)
    assert pin.bytes is not None
    assert pin.bytes > 9000
    await region.move(9)
    await region.clean()
    told: list[str] = []
    while "clean" not in told:
        told.append((await anext(events)).kind)
    assert "pin" not in told
    await events.aclose()


async def test_a_server_cannot_tell_what_pins_a_region(wal: WriteAheadLog, backend: Backend) -> None:
    if isinstance(backend, LocalBackend):
        await wal("wal").open(7, create=True, on_pin=lambda found: None)
        return
    with pytest.raises(Unsupported, match="cannot call a function of yours"):
        await wal("wal").open(7, create=True, on_pin=lambda found: None)
    assert not await wal.regions()


def test_plain_code_uses_it_without_await(data: Path) -> None:
    with headwater.open_blocking(data, create=True) as hw:
        region = hw.wal("wal").open(7, create=True)
        assert region.write(1, [b"a", b"b"]) == 2
        assert [entry.payload for entry in region.read(1, Excluded(1))] == [b"b"]
        assert [len(region.scan(batch=1).next_batch()), region.sequence_num(1)] == [1, 2]
        region.close_gracefully()
        with pytest.raises(Closed):
            region.write(1, [b"c"])
        assert [one.region for one in hw.wal("wal").regions()] == [7]


async def test_a_server_opens_its_regions_at_its_start_and_cleans_them(data: Path) -> None:
    async with headwater.open(data, create=True) as hw:
        for number in (1, 2):
            region = await hw.wal("wal").open(number, create=True)
            await region.write(1, [b"x"])
            await region.mark_delete_up_to(1, 1)
    log = local_log(Settings(), data, SystemClock())
    serving = WalPerformer(log=log, address="http://127.0.0.1:9")
    await opens(serving, log)
    wal = await serving.manager("wal")

    async def cleaned() -> bool:
        return [await log.bounds(f"wal_data_{number}", 0) for number in (1, 2)] == [Bounds(2, 2), Bounds(2, 2)]

    await until(cleaned)
    assert wal.regions() == [1, 2]
    async with headwater.open(data) as hw:
        with pytest.raises(NotOwner) as refused:
            await serving_only(hw).open(1)
    assert refused.value.address == "http://127.0.0.1:9"
    await closes(serving, log)
    await log.aclose()
    async with headwater.open(data) as hw:
        assert (await hw.wal("wal")[1].recover(dry_run=True)).records == 0


def serving_only(hw: headwater.Headwater) -> WalNamespace:
    """A namespace that goes to no other process."""
    backend = hw.wal._backend
    assert isinstance(backend, ForwardingBackend)
    return WriteAheadLog(backend.near)("wal")


async def test_a_new_region_has_the_settings_of_topics(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text('[log]\nsegment = "1MiB"\nperiod = "day"\ndisposal = "secure-reset"\n')
    async with headwater.open(tmp_path / "data", create=True, config=file) as hw:
        made = await hw.wal("wal").create(7)
        assert (made.settings["segment"], made.settings["period"], made.settings["disposal"]) == ("1MiB", "day", "secure-reset")
        other = await hw.wal("wal").create(8, RegionSettings(period="0ms", disposal="delete"))
        assert (other.settings["period"], other.settings["disposal"]) == ("0ms", "delete")
