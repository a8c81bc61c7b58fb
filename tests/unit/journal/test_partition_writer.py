"""The writer of a partition: exact numbers, beside other writers and after failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.journal.partitions import TOPIC, Ground
from tests.until import until

from headwater.core.errors import BadInput, Closed, Differs, NotOwner, OutcomeUnknown, TooLarge, WrongExpected
from headwater.journal.action import Purge
from headwater.journal.append_draft import draft, plain_draft
from headwater.journal.event import MAX_SEQ_NR, Event
from headwater.journal.idempotency import KeyIndex
from headwater.journal.open_topic import PlainJournalLog
from headwater.journal.partition_writer import PartitionWriter
from headwater.journal.topics import PART
from headwater.journal.wire import read_record
from headwater.journal.write import ActionPlaced, Appended, Condition, DeleteDraft, ExpireDraft, MarkDraft, PurgeDraft
from headwater.log import Guard
from headwater.log.record import Record

pytestmark = pytest.mark.anyio


class Log(PlainJournalLog):
    """A log of which tests disturb the next append."""

    def __init__(self, ground: Ground, *, exact: bool = True) -> None:
        super().__init__(ground.partition, exact=exact, part=PART)
        self.before: list[object] = []
        self.appends = 0
        self._ground = ground

    def append(self, records: Sequence[Record], guard: Guard | None) -> Sequence[int]:
        self.appends += 1
        if self.before:
            step = self.before.pop(0)
            if isinstance(step, Exception):
                raise step
            step()  # type: ignore[operator]
        return super().append(records, guard)


def writer_of(ground: Ground, log: Log, **given: object) -> PartitionWriter:
    keys = KeyIndex(ground.log, TOPIC, 0, now=lambda: 1_700_000_000_000)
    return PartitionWriter(log, partition=0, keys=keys, by=("host", "1"), **given)  # type: ignore[arg-type]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture
async def log(ground: Ground) -> AsyncIterator[Log]:
    yield Log(ground)
    ground.close()


@pytest.fixture
async def writer(ground: Ground, log: Log) -> AsyncIterator[PartitionWriter]:
    made = writer_of(ground, log)
    yield made
    await made.aclose()


async def test_calls_that_wait_become_one_batch_in_their_order(writer: PartitionWriter, log: Log, ground: Ground) -> None:
    for id in ("a", "b"):
        await writer.write(plain_draft(id, {"n": 0}))
    calls = [writer.write(plain_draft(id, {"n": n})) for n in range(50) for id in ("a", "b")]
    outcomes = await asyncio.gather(*calls)
    assert [outcome.first for outcome in outcomes[::2]] == list(range(2, 52))
    assert [outcome.first for outcome in outcomes[1::2]] == list(range(2, 52))
    assert [outcome.offset for outcome in outcomes] == list(range(2, 102))
    assert log.appends <= 5
    assert ground.numbers("a") == list(range(1, 52))


async def test_records_name_their_writer_and_their_range(writer: PartitionWriter, ground: Ground) -> None:
    await writer.write(plain_draft("a", {"n": 1}))
    await writer.write(draft("a", ["x", b"y"], by=("host", "1")))
    await writer.write(DeleteDraft("a", 1))
    await writer.write(PurgeDraft("a"))
    await writer.write(MarkDraft("a", "m"))
    found = [read_record(record) for record in ground.log.read(TOPIC, 0, 0)]
    assert all(one is not None and (one.action.origin, one.action.version) == ("host", "1") for one in found)
    assert [type(one.action).__name__ for one in found if one] == ["Append", "Append", "Delete", "Purge", "Mark"]


async def test_another_process_s_events_are_numbered_around(writer: PartitionWriter, log: Log, ground: Ground) -> None:
    await writer.write(plain_draft("a", 1))
    log.before = [lambda: ground.append("a", 2), lambda: ground.append("a", 3, 4), lambda: ground.append("b", 1)]
    assert await writer.write(plain_draft("a", 1)) == Appended(5, 5, 0, 4)
    assert log.appends == 4
    ground.append("a", 6)  # long before the next call
    assert await writer.write(plain_draft("a", 1), Condition(6)) == Appended(7, 7, 0, 6)
    assert ground.numbers("a") == [1, 2, 3, 4, 5, 6, 7]


async def test_what_is_expected_is_compared_under_the_lock(writer: PartitionWriter, log: Log, ground: Ground) -> None:
    await writer.write(plain_draft("a", 1))
    log.before = [lambda: ground.append("a", 2)]
    with pytest.raises(WrongExpected, match="ends with event 2"):
        await writer.write(plain_draft("a", 1), Condition(1))
    assert ground.numbers("a") == [1, 2]


async def test_another_process_s_purge_counts(writer: PartitionWriter, log: Log, ground: Ground) -> None:
    await writer.write(draft("a", [1, 2, 3]))
    log.before = [lambda: ground.put("a", Purge())]
    assert await writer.write(plain_draft("a", 1)) == Appended(1, 1, 0, 2)
    log.before = [lambda: ground.put("a", Purge())]
    assert await writer.write(DeleteDraft("a", 9)) is None
    assert ground.numbers("a") == []


async def test_a_journal_is_purged_only_if_it_has_expired(writer: PartitionWriter, log: Log, ground: Ground) -> None:
    today = datetime.now(UTC).date()
    ground.append("old", 1, expire_after=1)
    ground.append("kept", 1)
    ground.append("raced", 1, expire_after=1)
    ground.copy()
    ground.append("old", 2, expire_after=1)
    assert await writer.write(ExpireDraft("old", today - timedelta(days=1))) is None
    assert await writer.write(ExpireDraft("kept", today)) is None
    assert await writer.write(ExpireDraft("none", today)) is None
    assert isinstance(await writer.write(ExpireDraft("old", today)), ActionPlaced)
    log.before = [lambda: ground.append("raced", 2)]
    assert await writer.write(ExpireDraft("raced", today)) is None
    blocks = writer.write(plain_draft("z", 1))
    ground.append("again", 1, expire_after=1)
    both = [writer.write(plain_draft("again", 1)), writer.write(ExpireDraft("again", today))]
    await blocks
    assert [type(outcome) for outcome in await asyncio.gather(*both)] == [Appended, type(None)]
    assert [ground.numbers(id) for id in ("old", "kept", "raced", "again")] == [[], [1], [1, 2], [1, 2]]


async def test_given_numbers_wait_for_nobody(writer: PartitionWriter, log: Log, ground: Ground) -> None:
    log.before = [lambda: ground.append("a", 1)]
    assert await writer.write(draft("a", [Event(1, 7)])) == Appended(7, 7, 0, 1)
    assert log.appends == 1
    assert (await writer.write(plain_draft("a", 1))).first == 8  # type: ignore[union-attr]


async def test_given_numbers_count_for_those_behind_them_in_the_batch(writer: PartitionWriter, ground: Ground) -> None:
    ground.append("a", 1, 2)
    blocks = writer.write(plain_draft("z", 1))
    calls = [writer.write(one) for one in (draft("a", [Event(1, 7)]), draft("a", [Event(1, 5)]), plain_draft("a", 1), DeleteDraft("a", 20))]
    await blocks
    assert [getattr(one, "last", getattr(one, "to", None)) for one in await asyncio.gather(*calls)] == [7, 5, 8, 8]


async def test_a_wrong_call_fails_alone(writer: PartitionWriter, ground: Ground) -> None:
    calls = [
        writer.write(plain_draft("a", 1)),
        writer.write(plain_draft("a", 1), Condition(7)),
        writer.write(plain_draft("b", 1), Condition(0)),
        writer.write(plain_draft("a", "x" * (17 << 20))),
        writer.write(plain_draft("a", 1), Condition(1)),
    ]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in outcomes] == [Appended, WrongExpected, Appended, TooLarge, Appended]
    assert ground.numbers("a") == [1, 2]


async def test_a_record_that_the_log_refuses_takes_nobody_along(ground: Ground, log: Log) -> None:
    writer = writer_of(ground, log, max_record=64 << 20)  # the topic's own limit is lower
    calls = [writer.write(plain_draft("a", 1)), writer.write(plain_draft("b", {"x": "x" * (17 << 20)})), writer.write(plain_draft("a", 2))]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in outcomes] == [Appended, TooLarge, Appended]
    assert ground.numbers("a") == [1, 2]
    await writer.aclose()


async def test_a_record_that_the_log_refuses_leaves_look_ups_of_others_in_order(ground: Ground, log: Log) -> None:
    writer = writer_of(ground, log, max_record=64 << 20)  # the topic's own limit is lower
    for id in ("a", "b", "c"):
        await writer.write(plain_draft(id, 1))
    slow = SlowLookups(ground, log, "a")
    held, entered = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        assert held.wait(60)

    log.before = [hold]
    asked = [writer.write(plain_draft("c", 1))]
    await until(entered.is_set)
    asked += [writer.write(one) for one in (plain_draft("a", 2), plain_draft("b", {"x": "x" * (17 << 20)}), plain_draft("a", 3))]
    asked += [writer.write(one) for one in (draft("a", [Event(1, 9)]), plain_draft("a", 5), DeleteDraft("a", 1))]
    held.set()
    await until(lambda: bool(slow.asked))
    slow.go.set()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [getattr(one, "last", type(one)) for one in outcomes] == [2, 2, TooLarge, 3, 9, 10, ActionPlaced]
    assert [one.offset for one in outcomes if isinstance(one, Appended | ActionPlaced)] == list(range(3, 9))
    assert slow.asked == ["a"]
    await writer.aclose()


async def test_what_fails_after_a_failure_fails_its_calls_alone(ground: Ground, log: Log) -> None:
    class Keys(KeyIndex):
        failing = 0

        def forget(self) -> None:
            if self.failing:
                self.failing -= 1
                raise MemoryError
            super().forget()

    keys = Keys(ground.log, TOPIC, 0, now=lambda: 1_700_000_000_000)
    writer = PartitionWriter(log, partition=0, keys=keys)
    await writer.write(plain_draft("a", 1))
    keys.failing, log.before = 2, [OutcomeUnknown("Nobody knows.")]
    with pytest.raises(MemoryError):
        await asyncio.wait_for(writer.write(plain_draft("a", 1)), 60)
    with pytest.raises(MemoryError):  # what was known is forgotten first
        await asyncio.wait_for(writer.write(plain_draft("a", 1)), 60)
    assert (await writer.write(plain_draft("a", 1))).first == 2  # type: ignore[union-attr]
    await writer.aclose()


async def test_the_tail_is_read_anew_after_an_unknown_outcome(writer: PartitionWriter, log: Log, ground: Ground) -> None:
    await writer.write(plain_draft("a", 1))

    def written_and_lost() -> None:
        ground.append("a", 2)
        raise OutcomeUnknown("The answer is lost.")

    log.before = [written_and_lost]
    with pytest.raises(OutcomeUnknown):
        await writer.write(plain_draft("a", 1))
    assert (await writer.write(plain_draft("a", 1))).first == 3  # type: ignore[union-attr]


async def test_heads_come_from_the_store_and_the_log_behind_it(ground: Ground, log: Log) -> None:
    ground.append("a", 1, 2, 3)
    ground.copy()
    ground.append("a", 4)
    ground.append("b", 1)
    writer = writer_of(ground, log, most_heads=1)
    for expected in (4, 5, 6):
        assert (await writer.write(plain_draft("a", 1), Condition(expected))).first == expected + 1  # type: ignore[union-attr]
        assert (await writer.write(plain_draft("b", 1))).first == expected - 2  # type: ignore[union-attr]
    await writer.aclose()


async def test_a_store_that_fails_fails_the_journals_that_need_it_alone(ground: Ground, log: Log) -> None:
    writer = writer_of(ground, log)
    await writer.write(plain_draft("a", 1))
    known = ground.partition.last_number

    def failing(id: str, end: int) -> int:
        if id == "b":
            raise Differs("It holds another topic.")
        return known(id, end)

    log.last_number = failing
    outcomes = await asyncio.gather(
        *(writer.write(plain_draft(id, 1)) for id in "abc"), writer.write(draft("b", [Event(1, 1)])), return_exceptions=True
    )
    assert [type(one) for one in outcomes] == [Appended, Differs, Appended, Appended]
    await writer.aclose()


async def test_a_stored_deletion_above_the_last_number_is_counted(ground: Ground, log: Log) -> None:
    log.last_number = lambda id, end: 9  # as of a head with delete_to 9 and seq_nr 5
    writer = writer_of(ground, log)
    assert (await writer.write(plain_draft("a", 1))).first == 10  # type: ignore[union-attr]
    await writer.aclose()


async def test_deletes_are_capped_and_unknown_journals_left_alone(writer: PartitionWriter, ground: Ground) -> None:
    assert await writer.write(DeleteDraft("a", 3)) is None
    assert await writer.write(PurgeDraft("a")) is None
    assert ground.partition.end() == 0
    calls = [
        writer.write(one)
        for one in (plain_draft("a", 1), DeleteDraft("a", MAX_SEQ_NR), PurgeDraft("a"), PurgeDraft("a"), plain_draft("a", 1))
    ]
    assert await asyncio.gather(*calls) == [
        Appended(1, 1, 0, 0), ActionPlaced(0, 1, 1), ActionPlaced(0, 2), None, Appended(1, 1, 0, 3),
    ]  # fmt: skip


async def test_a_journal_without_numbers_left(writer: PartitionWriter) -> None:
    await writer.write(draft("a", [Event(1, MAX_SEQ_NR)]))
    with pytest.raises(BadInput, match="no numbers left"):
        await writer.write(plain_draft("a", 1))


async def test_a_shared_topic_takes_given_numbers_alone(ground: Ground) -> None:
    writer = writer_of(ground, Log(ground, exact=False))
    for call in ((plain_draft("a", 1),), (draft("a", [Event(1, 1)]), Condition(0))):
        with pytest.raises(NotOwner, match="seq_nr"):
            await writer.write(*call)
    assert (await writer.write(draft("a", [Event(1, 1)]))).first == 1  # type: ignore[union-attr]
    ground.append("a", 2)
    assert await writer.write(DeleteDraft("a", 9)) == ActionPlaced(0, 2, 2)
    await writer.aclose()
    ground.close()


async def test_keys_of_other_processes_count(writer: PartitionWriter, ground: Ground, log: Log) -> None:
    other = writer_of(ground, Log(ground))
    first = await other.write(plain_draft("a", 1), Condition(None, "k", "d"))
    again = await writer.write(plain_draft("a", 1), Condition(None, "k", "d"))
    assert isinstance(first, Appended)
    assert again == Appended(1, 1, 0, 0, True)
    await other.aclose()


async def test_closed(ground: Ground, log: Log) -> None:
    writer = writer_of(ground, log)
    last = writer.write(plain_draft("a", 1))
    await writer.aclose()
    assert isinstance(await last, Appended)
    with pytest.raises(Closed):
        await writer.write(plain_draft("a", 1))


class SlowLookups:
    """Look-ups of some journals that wait until a test lets them go on."""

    def __init__(self, ground: Ground, log: Log, *ids: str) -> None:
        self._look, self._ids = ground.partition.last_number, ids
        self.asked, self.go = list[str](), threading.Event()
        log.last_number, log.near = self._last_number, lambda end: False

    def _last_number(self, id: str, end: int) -> int:
        found = self._look(id, end)
        if id in self._ids:
            self.asked.append(id)
            assert self.go.wait(60)
        return found


async def test_a_look_up_that_takes_long_delays_its_own_journal_alone(ground: Ground, log: Log) -> None:
    writer = writer_of(ground, log)
    await writer.write(plain_draft("warm", 1))
    slow = SlowLookups(ground, log, "a", "b")
    held = [writer.write(one) for id in "ab" for one in (plain_draft(id, 1), draft(id, [Event(1, 9)]), DeleteDraft(id, 1))]
    await until(lambda: sorted(slow.asked) == ["a", "b"])
    held.append(writer.write(plain_draft("a", 2)))
    for number in (2, 3, 4):
        assert await writer.write(plain_draft("warm", 1), Condition(number - 1)) == Appended(number, number, 0, number - 1)
    assert await writer.write(plain_draft("new", 1)) == Appended(1, 1, 0, 4)
    assert not any(one.done() for one in held)
    slow.go.set()
    outcomes = await asyncio.gather(*held)
    assert [getattr(one, "first", None) for one in outcomes] == [1, 9, None, 1, 9, None, 10]
    assert (ground.numbers("a"), ground.numbers("b")) == ([9, 10], [9])
    await writer.aclose()


async def test_what_others_append_during_a_look_up_counts(ground: Ground, log: Log) -> None:
    writer = writer_of(ground, log)
    await writer.write(plain_draft("warm", 1))
    slow = SlowLookups(ground, log, "a", "b", "c")
    held = [writer.write(plain_draft(id, 1)) for id in "abc"]
    await until(lambda: len(slow.asked) == 3)
    ground.append("a", 1, 2)
    ground.append("b", 1, 2)
    ground.put("b", Purge())
    await writer.write(plain_draft("warm", 1))  # the writer sees them
    ground.append("b", 1)
    ground.append("c", 1)
    slow.go.set()
    assert [one.first for one in await asyncio.gather(*held)] == [3, 2, 2]
    await writer.aclose()


async def test_a_look_up_is_made_anew_after_a_failure(ground: Ground, log: Log) -> None:
    writer = writer_of(ground, log)
    await writer.write(plain_draft("warm", 1))
    slow = SlowLookups(ground, log, "a")
    held = writer.write(plain_draft("a", 1), Condition(2))
    await until(lambda: slow.asked == ["a"])
    log.before = [OutcomeUnknown("Nobody knows.")]
    with pytest.raises(OutcomeUnknown):
        await writer.write(plain_draft("warm", 1))
    ground.append("a", 1, 2)
    slow.go.set()
    assert (await held).first == 3  # type: ignore[union-attr]
    assert slow.asked == ["a", "a"]
    await writer.aclose()


async def test_a_writer_that_is_closed_waits_for_look_ups(ground: Ground, log: Log) -> None:
    writer = writer_of(ground, log)
    slow = SlowLookups(ground, log, "a")
    held = writer.write(plain_draft("a", 1))
    await until(lambda: slow.asked == ["a"])
    closing = asyncio.ensure_future(writer.aclose())
    await asyncio.sleep(0)
    slow.go.set()
    await closing
    assert isinstance(await held, Appended)


async def test_a_shared_topic_looks_up_once_for_each_delete(ground: Ground) -> None:
    log = Log(ground, exact=False)
    writer = writer_of(ground, log)
    slow = SlowLookups(ground, log, "a")
    slow.go.set()
    ground.append("a", 1, 2)
    for _ in range(2):
        assert await writer.write(DeleteDraft("a", 9)) == ActionPlaced(0, ground.partition.end() - 1, 2)
    assert slow.asked == ["a", "a"]
    await writer.aclose()
