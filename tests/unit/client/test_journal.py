"""The door's journals, over a directory and over HTTP: the same calls, the same answers, the same errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.client.journal_ground import copy_all, journal_backend

import headwater
from headwater.client.backend import Backend
from headwater.client.journal import Journal
from headwater.client.journals import Journals, TopicJournals
from headwater.client.local import LocalLog
from headwater.core.errors import (
    AlreadyExists,
    BadBounds,
    BadInput,
    Differs,
    HeadwaterError,
    KeyReused,
    OffsetGone,
    OwnedTopic,
    TooLarge,
    UnknownJournal,
    WrongExpected,
)
from headwater.journal.event import Event, EventRecord
from headwater.journal.replication_task import PartitionProblem
from headwater.journal.replicator import status_file
from headwater.journal.status import PartitionStatus, ReplicatorStatus
from headwater.journal.write import Appended
from headwater.log.record import Record
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
START = 1_800_000_000_000
DAY = 86_400


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START / 1000)


@pytest.fixture(params=["directory", "http"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[tuple[Backend, LocalLog]]:
    async with journal_backend(tmp_path / "data", request.param, clock) as made:
        yield made


@pytest.fixture
def journals(opened: tuple[Backend, LocalLog]) -> Journals:
    return Journals(opened[0])


@pytest.fixture
async def bank(journals: Journals) -> TopicJournals:
    return await journals("bank", create=True)


@pytest.fixture
def alice(bank: TopicJournals) -> Journal:
    return bank["alice"]


async def read(journal: Journal, *given: Any, **asked: Any) -> list[EventRecord]:
    return [event async for event in journal.read(*given, **asked)]


async def numbers(journal: Journal, *given: Any, **asked: Any) -> list[int]:
    return [event.seq_nr for event in await read(journal, *given, **asked)]


async def test_nothing_is_created_by_a_typo_and_the_error_names_the_command(journals: Journals) -> None:
    for call in (
        lambda: journals("bank").open(),
        lambda: journals("bank")["a"].append(1),
        lambda: journals("bank")["a"].pointer(),
        lambda: journals("bank")["a"].head(),
        lambda: journals("bank")["a"].delete(to=1),
        lambda: journals("bank")["a"].purge(),
        lambda: journals("bank")["a"].mark(),
        lambda: read(journals("bank")["a"]),
        lambda: read(journals("bank")["a"], limit=0),
        lambda: journals("bank").status(),
        lambda: journals("bank").append_many([("a", [1])]),
    ):
        with pytest.raises(UnknownJournal, match="headwater journal create bank"):
            await call()
    assert list(await journals.list()) == []


async def test_topics_are_created_once(journals: Journals) -> None:
    tried = await journals.create("bank", dry_run=True)
    assert (tried.topic, tried.created, tried.dry_run) == ("journal-bank", True, True)
    made = await journals.create("bank")
    assert (made.topic, made.partitions, made.writers, made.created) == ("journal-bank", 2, "owner", True)
    assert not (await journals.create("journal-bank")).created
    assert [topic.topic for topic in await journals.list()] == ["journal-bank"]
    with pytest.raises(AlreadyExists):
        await journals.create("bank", partitions=5)
    for name in ("", "a/b", "ä", "x" * 300):
        with pytest.raises(BadInput):
            await journals.create(name)


async def test_events_are_numbered_and_come_back_as_they_were_given(alice: Journal) -> None:
    placed = await alice.append({"type": "opened"}, Event("text", tags=("a", "b")), b"\x00\xff", expected=0, tags=("all",))
    assert (placed.first, placed.last, placed.offset, placed.replayed) == (1, 3, 0, False)
    again = await alice.append(
        None, headers={"trace": "7"}, metadata={"m": 1}, header_metadata=["h"], expire_after="1d", expected=3, tags=("x",)
    )
    assert again == Appended(4, 4, placed.partition, 1)
    one, two, three, four = await read(alice)
    assert [one.payload, two.payload, three.payload, four.payload] == [{"type": "opened"}, "text", b"\x00\xff", None]
    assert [one.tags, set(two.tags), three.tags] == [("all",), {"a", "b", "all"}, ("all",)]
    assert (one.timestamp, one.partition, one.offset, one.headers, one.metadata) == (START, placed.partition, 0, {}, None)
    assert (four.headers, four.metadata, four.header_metadata) == ({"trace": "7"}, {"m": 1}, ["h"])
    assert one.origin
    assert one.version
    head = await alice.head()
    assert head is not None
    assert (head.seq_nr, head.delete_to, head.expire_after, head.expire_on) == (4, 0, "1d", "2027-01-16")


async def test_the_same_from_the_store(opened: tuple[Backend, LocalLog], alice: Journal, tmp_path: Path) -> None:
    await alice.append({"n": 1}, "two", b"3", tags=("t",), headers={"a": "b"}, metadata=1, header_metadata={"h": None})
    before, head = await read(alice), await alice.head()
    await copy_all(opened[1], tmp_path / "data", "journal-bank")
    assert await read(alice, consistency="store") == await read(alice) == await read(alice, consistency="mark") == before
    assert await alice.head() == head
    assert (await alice.trail()).rows == 3


async def test_ranges_and_limits(alice: Journal) -> None:
    await alice.append(*range(1, 11))
    assert await numbers(alice, 4) == [4, 5, 6, 7, 8, 9, 10]
    assert await numbers(alice, 4, stop=6) == [4, 5, 6]
    assert await numbers(alice, 4, limit=2) == [4, 5]
    assert await numbers(alice, limit=0) == await numbers(alice, 11) == []
    for start, stop in ((0, None), (1, 0)):
        with pytest.raises(BadInput):
            await read(alice, start, stop=stop)
    with pytest.raises(BadBounds):
        await read(alice, 3, stop=2)
    with pytest.raises(BadInput):
        await read(alice, consistency="never")


async def test_expected_is_exact(alice: Journal, bank: TopicJournals) -> None:
    await alice.append(1, expected=0)
    with pytest.raises(WrongExpected, match=r"ends with event 1, not with 0.*expected=1"):
        await alice.append(1, expected=0)
    with pytest.raises(WrongExpected, match="There is no journal 'bob'"):
        await bank["bob"].append(1, expected=3)
    outcomes = await asyncio.gather(*(alice.append(n, expected=1) for n in range(20)), return_exceptions=True)
    assert sum(isinstance(outcome, Appended) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, WrongExpected) for outcome in outcomes) == 19
    assert await alice.pointer() == 2


async def test_events_that_bring_their_numbers(alice: Journal) -> None:
    assert (await alice.append(Event("a", 5), Event("b", 9))).last == 9
    assert (await alice.append("c")).first == 10
    assert await numbers(alice) == [5, 9, 10]
    for events in ((Event(1, 3), Event(1, 3)), (Event(1, 3), Event(1, 2)), (Event(1, 3), 2), (Event(1, 0),), (Event(1, True),), ()):
        with pytest.raises(BadInput):
            await alice.append(*events)


async def test_deletes_and_purges(alice: Journal, bank: TopicJournals) -> None:
    assert not (await alice.delete(to=3)).done
    assert not (await alice.purge()).done
    await alice.append(1, 2, 3)
    deleted = await alice.delete(to=(1 << 63) - 1)
    assert (deleted.done, deleted.to) == (True, 3)
    assert (await numbers(alice), await alice.pointer()) == ([], 3)
    assert (await alice.append(4)).first == 4
    assert (await alice.purge()).done
    assert (await numbers(alice), await alice.pointer(), await alice.head()) == ([], None, None)
    assert (await alice.append("new", expected=0)).first == 1
    assert [event.payload for event in await read(alice)] == ["new"]
    with pytest.raises(BadInput):
        await alice.delete(to=0)
    assert await bank["nobody"].pointer() is None


async def test_marks(alice: Journal) -> None:
    await alice.append(1)
    mark = await alice.mark("seen")
    assert (mark.done, mark.offset) == (True, 1)
    assert (await alice.mark()).offset == 2
    assert (await numbers(alice), await alice.pointer()) == ([1], 1)
    assert [(record.action, record.mark) for record in (await alice.trail()).records][:2] == [("append", None), ("mark", "seen")]
    with pytest.raises(BadInput):
        await alice.mark("")


async def test_an_append_that_is_sent_twice_is_done_once_for_a_day(alice: Journal, clock: ManualClock) -> None:
    first = await alice.append({"n": 1}, idempotency_key="k1")
    again = await alice.append({"n": 1}, idempotency_key="k1")
    assert not first.replayed
    assert again == Appended(first.first, first.last, first.partition, first.offset, True)
    with pytest.raises(KeyReused):
        await alice.append({"n": 2}, idempotency_key="k1")
    with pytest.raises(BadInput):
        await alice.append({"n": 2}, idempotency_key="")
    outcomes = await asyncio.gather(*(alice.append("x", idempotency_key="k2") for _ in range(10)))
    assert sorted({outcome.first for outcome in outcomes}) == [2]
    assert sum(not outcome.replayed for outcome in outcomes) == 1
    assert await numbers(alice) == [1, 2]
    clock.advance(DAY + 60)
    assert (await alice.append({"n": 1}, idempotency_key="k1")).first == 3


async def test_keys_survive_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    for _ in range(2):
        async with journal_backend(tmp_path / "data", "directory", clock) as (backend, _log):
            bank = await Journals(backend)("bank", create=True)
            await bank["alice"].append("x", idempotency_key="k")
            assert await numbers(bank["alice"]) == [1]


async def test_many_journals_at_once(bank: TopicJournals) -> None:
    outcomes = await bank.append_many([("a", [1, 2]), ("b", ["x"]), ("a", [3]), ("c", []), ("d", [Event(b"y", 7)])])
    assert [outcome.first if isinstance(outcome, Appended) else type(outcome) for outcome in outcomes] == [1, 1, 3, BadInput, 7]
    assert [event.payload for event in await read(bank["d"])] == [b"y"]
    assert [id async for id in bank.ids()] == ["a", "b", "d"]
    await bank["b"].purge()
    assert [id async for id in bank.ids()] == ["a", "d"]


async def test_ids_of_the_store_and_of_the_log(opened: tuple[Backend, LocalLog], bank: TopicJournals, tmp_path: Path) -> None:
    ids = ["a", "b", "ä", "z/y", "😀", "%41", "e" * 500]
    await bank.append_many([(id, [1]) for id in ids[:4]])
    await copy_all(opened[1], tmp_path / "data", "journal-bank")
    await bank.append_many([(id, [1]) for id in ids[4:]])
    await bank["b"].purge()
    ids.remove("b")
    assert [id async for id in bank.ids()] == sorted(ids, key=str.encode)
    for id in ids:
        assert await numbers(bank[id]) == [1]


async def test_following_catches_up_then_waits(bank: TopicJournals) -> None:
    await bank.append_many([("a", [Event(1, tags=("x",)), Event(2, tags=("y",))]), ("b", [3])])
    seen = [event async for event in _first(bank.follow(), 3)]
    assert sorted((event.id, event.seq_nr, event.payload) for event in seen) == [("a", 1, 1), ("a", 2, 2), ("b", 1, 3)]
    async with aclosing(bank.follow(after=seen[-1].position)) as following:
        waiting = asyncio.ensure_future(anext(aiter(following)))
        await bank["c"].append("late")
        event = await waiting
    assert (event.id, event.payload) == ("c", "late")
    for start in range(3):
        rest = [event async for event in _first(bank.follow(after=seen[start].position), 3 - start)]
        assert {(event.id, event.seq_nr) for event in rest} == {(event.id, event.seq_nr) for event in [*seen[start + 1 :], event]}
    assert [event.payload async for event in _first(bank.follow(tags={"y"}), 1)] == [2]
    assert [event.payload async for event in _first(bank.follow(ids={"b", "c"}), 2)] in ([3, "late"], ["late", 3])
    for bad in ("x", "1;2"):
        with pytest.raises(BadInput):
            await anext(aiter(bank.follow(after=bad)))
    with pytest.raises(BadInput):
        await anext(aiter(bank.follow(tags="y")))


async def _first(events: Any, count: int) -> AsyncIterator[Any]:
    async with aclosing(events):
        async for event in events:
            yield event
            count -= 1
            if not count:
                return


async def test_a_position_whose_records_are_gone(opened: tuple[Backend, LocalLog], bank: TopicJournals) -> None:
    placed = await bank["a"].append(1)
    await bank["a"].append(2)
    await opened[1].work(lambda log: log.delete_before("journal-bank", placed.partition, 1, part="journal"))
    with pytest.raises(OffsetGone):
        await anext(aiter(bank.follow(after="0,0")))


async def test_the_copy_stands_in_for_deleted_records(opened: tuple[Backend, LocalLog], bank: TopicJournals, tmp_path: Path) -> None:
    placed = await bank["a"].append(1)
    (first,) = [event async for event in _first(bank.follow(ids={"a"}), 1)]
    await bank["a"].append(2)
    await copy_all(opened[1], tmp_path / "data", "journal-bank")
    await bank["a"].append(3)
    await opened[1].work(lambda log: log.delete_before("journal-bank", placed.partition, 2, part="journal"))
    for after in (None, first.position):
        with pytest.raises(OffsetGone, match=r"the records . to 1 are deleted") as refused:
            await anext(aiter(bank.follow(after=after)))
        assert "--copied" in refused.value.hint
    assert [event.payload async for event in _first(bank.follow(copied=True), 3)] == [1, 2, 3]
    assert [event.payload async for event in _first(bank.follow(first.position, copied=True), 2)] == [2, 3]
    assert [event.payload async for event in _first(bank.follow("kept"), 1)] == [3]


async def test_a_position_of_another_topic_is_told(opened: tuple[Backend, LocalLog], bank: TopicJournals) -> None:
    await bank["a"].append(1)
    (seen,) = [event async for event in _first(bank.follow(), 1)]
    await opened[1].work(lambda log: log.delete_topic("journal-bank", part="journal"))
    await opened[1].work(lambda log: log.create_topic("journal-bank", partitions=2, part="journal"))
    await bank["a"].append("other")
    with pytest.raises(Differs, match="another topic"):
        await anext(aiter(bank.follow(after=seen.position)))
    assert [event.payload async for event in _first(bank.follow(), 1)] == ["other"]
    with pytest.raises(Differs, match="older copy"):
        await anext(aiter(bank.follow(after="7,7")))


async def test_what_cannot_be_appended(alice: Journal, opened: tuple[Backend, LocalLog]) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: alice.append(1, expected=-1),
        lambda: alice.append(1, expected=True),
        lambda: alice.append(1, headers={"journal.action": "x"}),
        lambda: alice.append(1, headers={"headwater.epoch": "x"}),
        lambda: alice.append(1, headers={"a": 1}),  # type: ignore[dict-item]
        lambda: alice.append(1, expire_after="7"),
        lambda: alice.append(1, expire_after="-1d"),
        lambda: alice.append(1, tags="abc"),
        lambda: alice.append(object()),
        lambda: alice.append("\ud800"),
    ]
    for call in calls:
        with pytest.raises(BadInput):
            await call()
    assert await alice.pointer() is None
    with pytest.raises(TooLarge):
        await alice.append("x" * (17 << 20))
    with pytest.raises(OwnedTopic, match="journal append"):
        await opened[1].append("journal-bank", 0, [Record(b"a", b"b")])
    assert (await alice.append(1)).first == 1


async def test_ids_that_are_none(bank: TopicJournals) -> None:
    for id in ("", "x" * 5000, "\ud800", 7):
        with pytest.raises(BadInput):
            bank[id]  # type: ignore[index]


async def test_a_topic_that_is_created_again_is_another_one(
    opened: tuple[Backend, LocalLog], journals: Journals, clock: ManualClock
) -> None:
    bank = await journals("bank", create=True)
    await bank["a"].append(1, 2, 3)
    assert await numbers(bank["a"]) == [1, 2, 3]
    await opened[1].work(lambda log: log.delete_topic("journal-bank", part="journal"))
    with pytest.raises(UnknownJournal):
        await bank["a"].append(4)
    await journals.create("bank")
    clock.advance(1)
    assert await numbers(bank["a"]) == []
    assert (await bank["a"].append("new")).first == 1
    assert await numbers(bank["a"]) == [1]


async def test_status_and_pointers(opened: tuple[Backend, LocalLog], bank: TopicJournals, tmp_path: Path) -> None:
    placed = await bank["a"].append(1)
    status = await bank.status()
    assert (status.topic, status.writers, status.lag, len(status.partitions)) == ("journal-bank", "owner", 1, 2)
    await copy_all(opened[1], tmp_path / "data", "journal-bank")
    pointer = (await bank.pointers())[placed.partition]
    assert (pointer.offset, pointer.end, pointer.lag) == (0, 1, 0)


async def test_status_tells_what_the_replicator_says_of_the_topic(
    opened: tuple[Backend, LocalLog], bank: TopicJournals, tmp_path: Path
) -> None:
    _, local = opened
    placed = await bank["a"].append(1)
    assert (await bank.status()).engine is None
    stopped = PartitionProblem(code="log-gap", message="It begins at 5.", hint="Rebuild it.")
    partition = PartitionStatus(topic="journal-bank", partition=placed.partition, pointer=-1, problem=stopped)
    for topic, engine, problem in [("journal-bank", "spark", "It begins at 5. Rebuild it."), ("journal-other", None, "")]:
        said = ReplicatorStatus(pid=1, host="here", at=0, topics=(topic,), engine="spark", partitions=(partition,))
        file = status_file(tmp_path / "data")
        file.path.parent.mkdir(exist_ok=True)
        file.write(said)
        status = await bank.status()
        assert status.engine == engine
        assert {one.partition: one.problem for one in status.partitions} == {placed.partition: problem, 1 - placed.partition: ""}
    await copy_all(local, tmp_path / "data", "journal-bank")
    file.write(ReplicatorStatus(pid=1, host="here", at=0, topics=("journal-bank",), engine="here", partitions=(partition,)))
    assert [one.problem for one in (await bank.status()).partitions] == ["", ""]  # it has gone on since


@pytest.mark.parametrize("number", [float("nan"), Decimal("NaN"), Decimal("-Infinity")])
async def test_numbers_that_json_has_not_are_refused(bank: TopicJournals, number: object) -> None:
    """Null in their place would be acknowledged as them, and a record with NaN could be read by nobody."""
    await bank["a"].append({"a": "NaN", "b": None, "c": Decimal("1e999")})
    for call in (
        lambda: bank["a"].append(number),
        lambda: bank["a"].append({"a": [number]}, 1),
        lambda: bank["a"].append(1, metadata={"a": number}),
        lambda: bank["a"].append(1, header_metadata={"a": number}),
        lambda: bank["a"].snapshots.save({"a": number}),
    ):
        with pytest.raises(BadInput, match="holds a number that JSON has not"):
            await call()
    with pytest.raises(BadInput, match="is no JSON"):
        await bank["a"].append({"a": msgspec.Raw(b"nope")})
    [refused] = await bank.append_many([("a", [1, number])])
    assert isinstance(refused, BadInput)
    [event] = await read(bank["a"])
    assert event.payload == {"a": "NaN", "b": None, "c": Decimal("1e999")}


async def test_a_long_journal_is_read_in_pages(alice: Journal) -> None:
    for start in range(0, 2500, 500):
        await alice.append(*range(start, start + 500))
    found = await read(alice)
    assert [event.payload for event in found] == list(range(2500))
    assert await numbers(alice, limit=1500) == list(range(1, 1501))


def test_the_blocking_door(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path / "data", create=True) as hw:
        bank = hw.journals("bank", create=True).open()
        alice = bank["alice"]
        assert alice.append({"type": "opened"}, expected=0).last == 1
        assert [event.payload for event in alice.read()] == [{"type": "opened"}]
        with pytest.raises(HeadwaterError):
            alice.append(1, expected=0)
        assert list(bank.ids()) == ["alice"]
