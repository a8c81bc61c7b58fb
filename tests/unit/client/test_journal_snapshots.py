"""The door's snapshots, over a directory and over HTTP: the same calls, the same answers, the same errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.journal_ground import copy_all, journal_backend

from headwater.client.backend import Backend
from headwater.client.journal import Journal
from headwater.client.journals import Journals, TopicJournals
from headwater.client.local import LocalLog
from headwater.core.errors import BadBounds, BadInput, Conflict, NotFound, TooLarge, UnknownJournal
from headwater.journal.discovery import JournalTopic, snapshots_of
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.sqlite import SqliteJournalStore
from headwater.log import Log
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
START = 1_800_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START / 1000)


@pytest.fixture(params=["directory", "http"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[tuple[Backend, LocalLog]]:
    async with journal_backend(tmp_path / "data", request.param, clock) as made:
        yield made


@pytest.fixture
async def bank(opened: tuple[Backend, LocalLog]) -> TopicJournals:
    return await Journals(opened[0])("bank", create=True)


@pytest.fixture
async def alice(bank: TopicJournals) -> Journal:
    journal = bank["alice"]
    await journal.append(*({"n": number} for number in range(1, 6)))
    return journal


@pytest.mark.parametrize("payload", [{"eur": 1.5, "of": [None, "ä"]}, "text", b"\xff\x00", None, 0, [], "", b""])
async def test_a_payload_comes_back_as_it_was_saved(alice: Journal, payload: Any) -> None:
    saved = await alice.snapshots.save(payload)
    assert saved.seq_nr == 5
    found = await alice.snapshots.load()
    assert found is not None
    assert (found.seq_nr, found.payload, found.timestamp) == (5, payload, START)
    assert type(found.payload) is type(payload)


async def test_the_newest_that_matches_is_loaded(
    alice: Journal, clock: ManualClock, opened: tuple[Backend, LocalLog], tmp_path: Path
) -> None:
    for number in (2, 4, 3):
        await alice.snapshots.save({"at": number}, number)
        clock.advance(1)
    for copied in (False, True):
        if copied:
            await copy_all(opened[1], tmp_path / "data", "journal-bank")
        assert [(one.seq_nr, one.payload) for one in await alice.snapshots.list()] == [(4, None), (3, None), (2, None)]
        for bounds, number in (
            ({}, 4),
            ({"max_seq_nr": 3}, 3),
            ({"max_seq_nr": 3, "max_timestamp": START + 500}, 2),
            ({"min_timestamp": START + 1500}, 3),
            ({"min_seq_nr": 5}, None),
        ):
            found = await alice.snapshots.load(**bounds)  # type: ignore[arg-type]
            assert (found and found.payload) == (None if number is None else {"at": number})
        assert [one.seq_nr for one in await alice.snapshots.list(min_seq_nr=3)] == [4, 3]


async def test_snapshots_are_deleted_by_number_or_bounds(alice: Journal) -> None:
    for number in range(1, 6):
        await alice.snapshots.save(number, number)
    assert (await alice.snapshots.delete(9)).deleted == 0
    assert (await alice.snapshots.delete(3, dry_run=True)).deleted == 1
    assert (await alice.snapshots.delete(3)).deleted == 1
    assert (await alice.snapshots.delete(max_seq_nr=4)).deleted == 3
    assert [one.seq_nr for one in await alice.snapshots.list()] == [5]
    assert await alice.pointer() == 5


async def test_deletes_leave_snapshots_and_a_purge_takes_them(alice: Journal) -> None:
    await alice.snapshots.save("state", 5)
    await alice.delete(to=5)
    found = await alice.snapshots.load()
    assert found is not None
    await alice.purge()
    assert await alice.snapshots.load() is None
    await alice.append(1)
    assert await alice.snapshots.list() == []
    assert (await alice.snapshots.delete(min_seq_nr=1)).deleted == 0


async def test_a_snapshot_of_an_event_of_an_earlier_life_is_refused(alice: Journal) -> None:
    appended = await alice.append({"n": 6})
    saved = await alice.snapshots.save("of 6", 6, offset=appended.offset)
    assert saved.seq_nr == 6
    await alice.purge()
    await alice.append(*range(7))
    with pytest.raises(Conflict, match="Event 6 of journal 'alice' does not lie at offset"):
        await alice.snapshots.save("of 6", 6, offset=appended.offset)
    assert await alice.snapshots.list() == []
    for number, offset in ((None, 1), (1, -1), (1, True)):
        with pytest.raises(BadInput):
            await alice.snapshots.save("no", number, offset=offset)


async def test_what_cannot_be_saved_is_refused(alice: Journal, bank: TopicJournals, opened: tuple[Backend, LocalLog]) -> None:
    for number in (0, -1, 1 << 63, True, "1", 1.0):
        with pytest.raises(BadInput, match="is no number of a snapshot"):
            await alice.snapshots.save({}, number)  # type: ignore[arg-type]
    with pytest.raises(BadBounds, match="ends at event 5: a snapshot of 6"):
        await alice.snapshots.save({}, 6)
    with pytest.raises(NotFound, match="no journal 'bob'"):
        await bank["bob"].snapshots.save({})
    with pytest.raises(BadInput):
        await alice.snapshots.save(object())
    with pytest.raises(TooLarge):
        await alice.snapshots.save(b"x" * (17 << 20))
    with pytest.raises(UnknownJournal):
        await Journals(opened[0])("none")["a"].snapshots.save({})
    assert await alice.snapshots.list() == []


async def test_criteria_that_cannot_be_meant_are_refused(alice: Journal, bank: TopicJournals) -> None:
    await alice.snapshots.save({})
    with pytest.raises(BadBounds):
        await alice.snapshots.load(min_seq_nr=3, max_seq_nr=2)
    with pytest.raises(BadBounds):
        await alice.snapshots.delete(min_timestamp=3, max_timestamp=2)
    for given in ({}, {"seq_nr": 0}, {"seq_nr": 1, "min_seq_nr": 1}, {"max_seq_nr": 0}, {"min_timestamp": -1}):
        with pytest.raises(BadInput):
            await alice.snapshots.delete(**given)
    assert (await bank["bob"].snapshots.delete(1)).deleted == 0
    assert await bank["bob"].snapshots.load() is None
    assert len(await alice.snapshots.list()) == 1


async def test_verify_counts_them(alice: Journal, bank: TopicJournals, opened: tuple[Backend, LocalLog], tmp_path: Path) -> None:
    await alice.snapshots.save({"n": 5})
    await copy_all(opened[1], tmp_path / "data", "journal-bank")

    def copy_snapshots(log: Log) -> None:
        described = log.topic("journal-bank")
        journals = JournalTopic(described.name, described.partitions, described.generation)
        snapshots = snapshots_of(log, journals)
        assert snapshots is not None
        with SqliteJournalStore(tmp_path / "data" / "store" / "journal") as store:
            for number in range(snapshots.partitions):
                end = log.bounds(snapshots.name, number).end
                task = PartitionTask(
                    topic=snapshots.name, partition=number, generation=snapshots.generation, end=end, holds=snapshots.holds
                )
                assert copy_partition(log, store, task).problem is None

    await opened[1].work(copy_snapshots)
    assert (await bank.verify()).snapshots == 1
