from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.wal.conftest import TOPICS, FailingOnce, OpenRegion
from tests.until import until

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import (
    BadInput,
    Closed,
    DiskFull,
    Fenced,
    NotOwner,
    OutcomeUnknown,
    Timeout,
    TooLarge,
    Unavailable,
    UnknownTable,
)
from headwater.log import Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.wal.layout import EMPTY, RecordKind, encode_key
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_outcomes import Cleaned, TableMark
from headwater.wal.region_topics import RegionTopics

pytestmark = pytest.mark.anyio


async def test_calls_of_one_moment_share_a_batch_and_keep_their_order(opened: OpenRegion) -> None:
    region = await opened()
    assert await asyncio.gather(*(region.write(1, [b"%d" % number]) for number in range(200))) == list(range(1, 201))
    assert [entry.payload async for entry in region.read(1)] == [b"%d" % number for number in range(200)]


async def test_a_write_that_takes_too_long_is_told_and_may_arrive(opened: OpenRegion) -> None:
    region = await opened()
    with region._writer.locked:  # the appender's thread waits here, with the record in the log
        with pytest.raises(Timeout, match="1 to 2 of table 1 are not durable"):
            await region.write(1, [b"a", b"b"], timeout=0.01)
    assert await region.write(1, [b"c"], timeout=60) == 3


async def test_a_cancelled_write_keeps_its_number(opened: OpenRegion) -> None:
    region = await opened()
    with region._writer.locked:
        task = asyncio.create_task(region.write(1, [b"a"]))
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await region.write(1, [b"b"]) == 2
    assert [entry.payload async for entry in region.read(1)] == [b"a", b"b"]


async def test_a_move_copies_many_small_payloads_as_one_record(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b""] * 5000)
    assert await region.move(1) == 5000
    assert log.bounds(region.topics.data, 0).end == 2


async def test_a_mark_during_a_move_waits_for_it(opened: OpenRegion) -> None:
    region = await opened()
    for number in range(1, 1201):
        await region.write(1, [b"%d" % number]) if number % 400 == 0 else None
    await asyncio.gather(*(region.write(1, [b"x"]) for _ in range(1500)))
    moved, marked = await asyncio.gather(region.move(1), region.mark_delete_up_to(1, 600))
    assert marked.sequence == 600
    assert 0 < moved <= 1503
    assert [entry.sequence async for entry in region.read(1)] == list(range(601, 1504))


async def test_closing_twice_is_no_error_and_frees_the_region(opened: OpenRegion, log: EmbeddedLog, tmp_path: Path) -> None:
    region = await opened()
    with LocalOwnership(log, tmp_path / "owners") as other:
        with pytest.raises(NotOwner):
            await open_region(log, other, TOPICS)
        await region.close()
        await region.close()
        with pytest.raises(Closed):
            await region.mark_delete_up_to(1, 1)
        await (await open_region(log, other, TOPICS)).close()


async def test_a_clean_of_everything_leaves_no_closed_segment(opened: OpenRegion, log: EmbeddedLog, tmp_path: Path) -> None:
    region = await opened()
    for _ in range(40):
        await region.write(1, [bytes(500)])
    await region.mark_delete_up_to(1, 40)
    await region.clean()
    folder = tmp_path / "log" / TOPICS.data / "0"
    assert sum(path.stat().st_size for path in folder.glob("*.log")) == 0
    assert await region.write(1, [b"x"]) == 41


# -- calls that are given up, and calls beside each other --------------------------------------------------------------


class Holding:
    """A Writer that lets records of one kind wait until they are let go."""

    def __init__(self, writer: Any, kind: RecordKind) -> None:
        self._writer, self._kind = writer, kind
        self.reached, self.go = threading.Event(), threading.Event()

    def append(self, records: Sequence[Record]) -> Sequence[int]:
        if any(record.key and record.key[0] == self._kind for record in records):
            self.reached.set()
            assert self.go.wait(60)
        return cast("Sequence[int]", self._writer.append(records))

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)


def held(region: Region, kind: RecordKind) -> Holding:
    holding = Holding(region._owned.writer, kind)
    region._owned.writer = holding  # type: ignore[assignment]
    return holding


async def reached(holding: Holding) -> None:
    await asyncio.to_thread(holding.reached.wait, 60)


async def given_up(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def settle(times: int = 50) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def test_a_drop_that_is_given_up_during_a_move_spoils_no_log(opened: OpenRegion, log: EmbeddedLog) -> None:
    """Nothing may be moved behind the drop of its table: no fold could apply that record."""
    region = await opened()
    await region.write(1, [b"x"] * 1200)
    holding = held(region, RecordKind.DROP)
    moving = asyncio.create_task(region.move(1))
    dropping = asyncio.create_task(region.drop_table(1))
    await reached(holding)
    await given_up(dropping)
    writing = asyncio.create_task(region.write(1, [b"new"] * 3))
    await settle()
    await asyncio.sleep(0.05)  # time for a move to read
    holding.go.set()
    assert await writing == 3
    await moving
    assert [entry.payload async for entry in region.read(1)] == [b"new"] * 3
    await region.close()
    assert recover(log, TOPICS).meta == full_scan(log, TOPICS).meta
    assert (await opened()).sequence_num(1) == 3


async def test_a_drop_that_arrived_although_it_failed_is_not_moved_behind(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"x"] * 3)

    class Slow:
        """A log whose scattered reads wait."""

        def __init__(self) -> None:
            self.go = threading.Event()

        def read_at(self, *what: Any) -> Any:
            assert self.go.wait(60)
            return log.read_at(*what)

        def __getattr__(self, name: str) -> Any:
            return getattr(log, name)

    slow = Slow()
    region._log = slow  # type: ignore[assignment]
    moving = asyncio.create_task(region.move(1))
    await settle()
    await asyncio.sleep(0.02)
    owned = region._owned
    writer = owned.writer
    writer.append([Record(encode_key(RecordKind.DROP, 7, 1, 4), EMPTY)])  # of a drop that failed with an unknown outcome
    owned.writer = FailingOnce(writer, OutcomeUnknown("?"), arrives=False)  # type: ignore[assignment]
    with pytest.raises(OutcomeUnknown):
        await region.write(2, [b"y"])
    assert await region.write(2, [b"z"]) == 1  # claimed anew, and read: table 1 is gone
    slow.go.set()
    assert await moving == 0
    region._log = log
    assert await region.write(2, [b"z"]) == 2
    await region.close()
    assert list(recover(log, TOPICS).meta.tables) == [2]


async def test_a_mark_below_one_that_is_given_up_waits_for_it(opened: OpenRegion) -> None:
    """What it answers is durable, or it fails."""
    region = await opened()
    await region.write(1, [b"x"] * 10)
    holding = held(region, RecordKind.MARK)
    first = asyncio.create_task(region.mark_delete_up_to(1, 8))
    await reached(holding)
    await given_up(first)
    second = asyncio.create_task(region.mark_delete_up_to(1, 3))
    await settle()
    assert not second.done()
    holding.go.set()
    assert await second == TableMark(8)
    assert [entry.sequence async for entry in region.read(1)] == [9, 10]


async def test_a_mark_beyond_the_end_says_so_whatever_is_written_meanwhile(opened: OpenRegion) -> None:
    region = await opened()
    await region.write(1, [b"x"] * 3)
    holding = held(region, RecordKind.MARK)
    marking = asyncio.create_task(region.mark_delete_up_to(1, 5))
    await reached(holding)
    writing = asyncio.create_task(region.write(1, [b"x"] * 9))
    await settle()
    holding.go.set()
    assert await marking == TableMark(3, clamped=True)
    assert await writing == 12


async def test_tables_that_are_not_there_leave_nothing_behind(opened: OpenRegion) -> None:
    region = await opened()
    for number in range(100):
        with pytest.raises(UnknownTable):
            await region.mark_delete_up_to(number, 1)
    await region.write(1, [b"x"])
    await region.drop_table(1)
    assert not region._gates


@pytest.mark.parametrize("kind", [RecordKind.ENTRY, RecordKind.MARK, RecordKind.DROP, RecordKind.MOVE])
async def test_calls_that_are_given_up_at_any_moment_spoil_nothing(opened: OpenRegion, log: EmbeddedLog, kind: RecordKind) -> None:
    """Each call is cancelled after 0, 1, 2 … turns of the loop; beside it, others write, mark, move and drop."""
    region = await opened()
    calls: dict[RecordKind, Callable[[], Awaitable[object]]] = {
        RecordKind.ENTRY: lambda: region.write(1, [b"a", b"b"]),
        RecordKind.MARK: lambda: region.mark_delete_up_to(1, region.sequence_num(1) - 1),
        RecordKind.DROP: lambda: region.drop_table(1),
        RecordKind.MOVE: lambda: region.move(1),
    }

    async def quiet(call: Awaitable[object]) -> None:
        with suppress(UnknownTable):
            await call

    for turns in range(12):
        await region.write(1, [b"x"] * 3)
        await region.write(2, [b"x"])
        beside = [asyncio.create_task(quiet(call())) for call in calls.values()]
        task = asyncio.create_task(quiet(calls[kind]()))
        await settle(turns)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.gather(*beside)
        await region.write(1, [b"y"])
    await region.close()
    assert recover(log, TOPICS).meta == full_scan(log, TOPICS).meta
    region = await opened()
    assert [entry.sequence async for entry in region.read(2)] == list(range(1, 13))


async def test_an_opening_that_is_given_up_leaves_the_region_free(log: EmbeddedLog, tmp_path: Path) -> None:
    with LocalOwnership(log, tmp_path / "owners") as owners, LocalOwnership(log, tmp_path / "owners") as others:
        for turns in range(4):
            task = asyncio.create_task(open_region(log, owners, TOPICS))
            await settle(turns)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await (await task).close()
        for _ in range(500):
            with suppress(NotOwner):
                region = await open_region(log, others, TOPICS)
                break
            await asyncio.sleep(0.01)
        await region.close()


# -- two regions in one process --------------------------------------------------------------------------------------


async def test_a_region_that_is_open_in_this_process_is_not_opened_twice(opened: OpenRegion, log: EmbeddedLog) -> None:
    """Two that number on their own would write one sequence twice, as one owner."""
    region = await opened()
    assert await region.write(1, [b"a"]) == 1
    for _ in range(2):
        with pytest.raises(NotOwner, match="open in this process"):
            await opened()
        assert await region.write(1, [b"b"]) > 1
    second = await opened(take_over=True)
    assert await second.write(1, [b"c"]) == 4
    for _ in range(2):
        with pytest.raises(Fenced):
            await region.write(1, [b"d"])
    for call in (region.snapshot, region.clean):
        with pytest.raises(Fenced):
            await call()
    await region.close()
    assert await second.write(1, [b"e"]) == 5
    await second.close()
    assert (await opened()).sequence_num(1) == 5
    assert recover(log, TOPICS).meta == full_scan(log, TOPICS).meta


async def test_of_many_openings_at_once_one_wins(log: EmbeddedLog, tmp_path: Path) -> None:
    with LocalOwnership(log, tmp_path / "owners") as owners:
        outcomes = await asyncio.gather(*(open_region(log, owners, TOPICS) for _ in range(6)), return_exceptions=True)
        [region] = [one for one in outcomes if isinstance(one, Region)]
        assert sum(isinstance(one, NotOwner) for one in outcomes) == 5
        assert await region.write(1, [b"x"]) == 1
        await region.close()


# -- closing -----------------------------------------------------------------------------------------------------


async def test_a_closed_region_refuses_every_call(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"a"])
    await region.close_gracefully()
    end = log.bounds(TOPICS.meta, 0).end
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: region.write(1, [b"x"]),
        lambda: region.mark_delete_up_to(1, 1),
        lambda: region.drop_table(1),
        lambda: region.move(1),
        region.snapshot,
        region.clean,
    ]
    for call in calls:
        with pytest.raises(Closed):
            await call()
    for look in (lambda: region.read(1), region.scan, lambda: region.sequence_num(1)):
        with pytest.raises(Closed):
            look()
    await region.close_gracefully()
    await region.close()
    assert log.bounds(TOPICS.meta, 0).end == end


async def test_closing_waits_for_what_is_under_way(opened: OpenRegion, log: EmbeddedLog) -> None:
    region = await opened()
    await region.write(1, [b"x"] * 3)
    holding = held(region, RecordKind.MARK)
    writes = [asyncio.create_task(region.write(1, [b"%d" % number])) for number in range(20)]
    marking = asyncio.create_task(region.mark_delete_up_to(1, 2))
    await reached(holding)
    closing = [asyncio.create_task(call()) for call in (region.close, region.close_gracefully, region.close)]
    await settle()
    assert not any(one.done() for one in closing)
    holding.go.set()
    await asyncio.gather(*closing)
    assert [await one for one in writes] == list(range(4, 24))
    assert await marking == TableMark(2)
    assert (await opened()).sequence_num(1) == 23


async def test_closing_waits_for_a_clean(opened: OpenRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    """It truncates as the owner: nobody else may own the region meanwhile."""
    region = await opened()
    await region.write(1, [b"x"])
    await region.mark_delete_up_to(1, 1)
    begun, go = threading.Event(), threading.Event()
    clean = region._clean

    def slow() -> Cleaned:
        begun.set()
        assert go.wait(60)
        return clean()

    monkeypatch.setattr(region, "_clean", slow)
    cleaning = asyncio.create_task(region.clean())
    await asyncio.to_thread(begun.wait, 60)
    closing = asyncio.create_task(region.close())
    await settle()
    assert not closing.done()
    assert not region._owned.lost
    go.set()
    await closing
    assert (await cleaning).removed > 0


async def test_a_region_that_is_closed_while_it_claims_anew_takes_no_more_writes(
    opened: OpenRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(threading.enumerate())  # of other tests, some of which leave a region as a dead process does
    region = await opened()
    await region.write(1, [b"a"])
    owned = region._owned
    begun, go = threading.Event(), threading.Event()
    renew = owned.renew

    def slow() -> Writer:
        begun.set()
        assert go.wait(60)
        return renew()

    monkeypatch.setattr(owned, "renew", slow)
    owned.writer = FailingOnce(owned.writer, DiskFull("full"), arrives=False)  # type: ignore[assignment]
    with pytest.raises(DiskFull):
        await region.write(1, [b"b"])
    waiting = [asyncio.create_task(region.write(1, [b"%d" % number])) for number in range(5)]
    await asyncio.to_thread(begun.wait, 60)
    closing = asyncio.create_task(region.close())
    await settle()
    go.set()
    await closing
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, Closed | Fenced) or one in range(2, 7) for one in outcomes), outcomes
    with pytest.raises(Closed):
        await region.write(1, [b"late"])
    assert not [one for one in threading.enumerate() if TOPICS.data in one.name and one not in before]
    again = await opened()
    assert again.sequence_num(1) == 1 + sum(isinstance(one, int) for one in outcomes)


async def test_a_time_limit_counts_while_the_region_claims_anew(opened: OpenRegion, monkeypatch: pytest.MonkeyPatch) -> None:
    region = await opened()
    owned, go = region._owned, threading.Event()
    renew = owned.renew
    monkeypatch.setattr(owned, "renew", lambda: (go.wait(60), renew())[1])
    owned.writer = FailingOnce(owned.writer, DiskFull("full"), arrives=False)  # type: ignore[assignment]
    with pytest.raises(DiskFull):
        await region.write(1, [b"a"])
    with pytest.raises(Timeout):
        await region.write(1, [b"b"], timeout=0.01)
    go.set()
    assert await region.write(1, [b"c"], timeout=60) == 1


async def test_what_claiming_anew_raises_is_told_to_all_who_wait_and_tried_again(
    opened: OpenRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = await opened()
    for table in (1, 3, 4):
        await region.write(table, [b"a"])
    owned = region._owned
    renew, fails = owned.renew, [Unavailable("The disk is away."), OSError("not ours")]

    def failing() -> Writer:
        if fails:
            raise fails.pop(0)
        return renew()

    monkeypatch.setattr(owned, "renew", failing)
    owned.writer = FailingOnce(owned.writer, OutcomeUnknown("?"), arrives=True)  # type: ignore[assignment]
    with pytest.raises(OutcomeUnknown):
        await region.write(1, [b"b"])
    for expected in (Unavailable, OSError):
        calls = [region.write(1, [b"c"]), region.mark_delete_up_to(1, 1), region.write(2, [b"d"]), region.drop_table(3), region.move(4)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, expected) for one in outcomes), outcomes
    assert await region.write(1, [b"e"]) == 3


# -- moving ------------------------------------------------------------------------------------------------------------


async def test_records_that_a_move_makes_fit_into_the_log(log: EmbeddedLog, tmp_path: Path) -> None:
    topics = RegionTopics("wal", 8)
    create_region(log, topics, TopicSettings(max_record=2000))
    with LocalOwnership(log, tmp_path / "owners") as owners:
        region = await open_region(log, owners, topics)
        for number in range(60):
            await region.write(1, [b"%d" % number * 20])
            await region.write(2, [b""] * 100)
        await region.write(1, [bytes(1900)])  # as large as a record may be
        await region.write(1, [b""] * 450)
        assert await region.move(1) == 511
        assert await region.move(2) == 6000
        assert [entry.sequence async for entry in region.read(1)] == list(range(1, 512))
        assert (await region.clean()).start > 100
        await region.close()
        assert recover(log, topics).meta.tables[1].live == 511


# -- owners of a table that append without a coroutine -------------------------------------------------------------


async def test_an_append_has_the_number_that_its_caller_expects_and_is_answered_when_it_is_durable(opened: OpenRegion) -> None:
    region, told = await opened(), list[int]()
    region.settled.append(lambda changes, error: told.extend(changes.sequences))
    assert region.append(1, EMPTY, 2, "another is next") is None
    appended = [region.append(1, EMPTY + b"%d" % number, 1 + number, f"answer {number}") for number in range(3)]
    assert region.append(1, EMPTY, 3, "it has a payload") is None
    assert [await one for one in appended if one is not None] == ["answer 0", "answer 1", "answer 2"]
    assert [entry.payload async for entry in region.read(1)] == [b"0", b"1", b"2"]
    assert told == [1, 2, 3]
    with pytest.raises(BadInput):
        region.append(-1, EMPTY, 1, None)
    with pytest.raises(TooLarge):
        region.append(1, bytes(region.limit + 1), 4, None)


async def test_after_a_failure_an_append_does_nothing_until_the_region_is_ready(opened: OpenRegion) -> None:
    region, told = await opened(), list[Exception | None]()
    await region.write(1, [b"a"])
    region.settled.append(lambda changes, error: told.append(error))
    owned = cast(Any, region)._owned
    owned.writer = FailingOnce(owned.writer, OutcomeUnknown("?"), arrives=True)
    appended = region.append(1, EMPTY + b"b", 2, None)
    assert appended is not None
    with pytest.raises(OutcomeUnknown):
        await appended
    assert [type(error) for error in told] == [OutcomeUnknown]
    assert region.append(1, EMPTY + b"c", 3, None) is None
    await region.ready()
    again = region.append(1, EMPTY + b"d", 3, "there")
    assert again is not None
    assert await again == "there"
    assert [entry.payload async for entry in region.read(1)] == [b"a", b"b", b"d"]


async def test_a_snapshot_that_was_given_up_ends_before_the_next_one_begins(opened: OpenRegion) -> None:
    """Two at a time mix their chunks, and each removes what the other has stored: a log that is cut then has no whole one."""
    region, go, running, most = await opened(), threading.Event(), 0, 0
    await region.write(1, [b"x"] * 10)
    store = region._snapshots.store

    def slow(values: Any, watermark: int) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert go.wait(60)
        running -= 1
        return store(values, watermark)

    region._snapshots.store = slow  # type: ignore[method-assign]
    given_up = asyncio.create_task(region.clean())
    await until(lambda: running)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    others = [asyncio.create_task(region.snapshot()), asyncio.create_task(region.clean()), asyncio.create_task(region.close_gracefully())]
    await settle()
    go.set()
    await asyncio.gather(*others, return_exceptions=True)
    assert most == 1
    assert len(region.snapshots) == 2
