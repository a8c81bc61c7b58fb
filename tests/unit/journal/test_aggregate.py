"""Repositories over the door, on a directory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headwater
from headwater.client.journal import Journal
from headwater.client.journal_snapshots import JournalSnapshots
from headwater.core.errors import BadInput, Unavailable, WrongExpected
from headwater.journal.aggregate import Aggregate, BlockingRepository, Repository, applies

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Opened(msgspec.Struct, frozen=True):
    owner: str


class Moved(msgspec.Struct, frozen=True):
    eur: int


class Account(Aggregate):
    owner: str = ""
    eur: int = 0
    history: list[int] = msgspec.field(default_factory=list)

    def move(self, eur: int) -> None:
        if self.eur + eur < 0:
            raise ValueError("too little")
        self.record(Moved(eur))

    @applies(Opened)
    def _opened(self, event: Opened) -> None:
        self.owner = event.owner

    @applies(Moved)
    def _moved(self, event: Moved) -> None:
        self.eur += event.eur
        self.history.append(event.eur)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headwater.Blocking]:
    with headwater.open_blocking(tmp_path_factory.mktemp("bank"), create=True) as hw:
        hw.journals.create("bank", partitions=1)
        yield hw


async def test_an_aggregate_is_saved_and_loaded(tmp_path: Path) -> None:
    async with headwater.open(tmp_path, create=True) as hw:
        bank = await hw.journals("bank", create=True)
        accounts = Repository(bank, Account, snapshot_every=2)
        alice = await accounts.load("alice")
        alice.record(Opened("Al"))
        alice.move(50)
        assert await accounts.save(alice) == 2
        assert await accounts.save(alice) == 2  # nothing is recorded
        [snapshot] = await bank["alice"].snapshots.list()
        assert snapshot.seq_nr == 2
        other = await accounts.load("alice")
        assert (other, other.seq_nr, other.pending) == (alice, 2, ())
        other.move(1)
        await accounts.save(other)
        alice.move(2)
        with pytest.raises(WrongExpected):
            await accounts.save(alice)
        assert alice.pending == (Moved(2),)
        assert [event.seq_nr async for event in bank["alice"].read()] == [1, 2, 3]
        moved = await accounts.update("alice", lambda account: account.move(5))
        assert (moved.eur, moved.seq_nr) == (56, 4)
        with pytest.raises(BadInput, match="attempts=0"):
            await accounts.update("alice", lambda account: None, attempts=0)


async def test_a_conflict_in_an_update_is_decided_anew(tmp_path: Path) -> None:
    async with headwater.open(tmp_path, create=True) as hw:
        bank = await hw.journals("bank", create=True)
        accounts, tries = Repository(bank, Account), list[int]()
        await accounts.update("a", lambda account: account.move(10))

        class Quick(Repository[Account]):
            async def load(self, id: str) -> Account:
                found = await super().load(id)
                if len(tries) < 2:
                    tries.append(found.seq_nr)
                    await accounts.update(id, lambda account: account.move(1))
                return found

        assert (await Quick(bank, Account).update("a", lambda account: account.move(100))).eur == 112
        assert tries == [1, 2]
        tries.clear()
        with pytest.raises(WrongExpected):
            await Quick(bank, Account).update("a", lambda account: account.move(100), attempts=2)


async def test_a_snapshot_that_fails_does_not_fail_the_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with headwater.open(tmp_path, create=True) as hw:
        bank = await hw.journals("bank", create=True)
        accounts = Repository(bank, Account, snapshot_every=1)

        async def away(*_: object, **given: object) -> None:
            raise Unavailable("Away.")

        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
            patched.setattr("headwater.client.journal_snapshots.JournalSnapshots.save", away)
            alice = await accounts.load("alice")
            alice.move(1)
            assert await accounts.save(alice) == 1
        assert "No snapshot of alice at event 1: Away." in caplog.text
        alice.move(1)
        await accounts.save(alice)
        assert [one.seq_nr for one in await bank["alice"].snapshots.list()] == [2]


@pytest.fixture
def purged_before_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer purges the journal, and appends three events, before any snapshot is saved."""
    save = JournalSnapshots.save

    async def purged_before(self: JournalSnapshots, *args: Any, **given: Any) -> Any:
        journal = Journal(self._backend, self.topic, self.id)
        await journal.purge()
        await journal.append(*[{"type": "Moved", "eur": 1}] * 3)
        return await save(self, *args, **given)

    monkeypatch.setattr(JournalSnapshots, "save", purged_before)


@pytest.mark.usefixtures("purged_before_snapshots")
async def test_a_journal_that_is_purged_before_its_snapshot_is_saved_gets_none_of_its_earlier_life(tmp_path: Path) -> None:
    async with headwater.open(tmp_path, create=True) as hw:
        bank = await hw.journals("bank", create=True)
        await Repository(bank, Account, snapshot_every=1).update("alice", lambda account: account.move(50))
        assert (await Repository(bank, Account).load("alice")).eur == 3


@pytest.mark.usefixtures("purged_before_snapshots")
def test_a_blocking_repository_saves_no_snapshot_of_an_earlier_life(door: headwater.Blocking) -> None:
    bank = door.journals("bank")
    BlockingRepository(bank, Account, snapshot_every=1).update("purged", lambda account: account.move(50))
    assert BlockingRepository(bank, Account).load("purged").eur == 3


def test_the_blocking_door_has_one_too(door: headwater.Blocking) -> None:
    accounts = BlockingRepository(door.journals("bank"), Account, snapshot_every=2)
    bob = accounts.load("bob")
    bob.record(Opened("Bob"))
    bob.move(3)
    assert accounts.save(bob) == 2
    bob.move(-3)
    stale = accounts.load("bob")
    accounts.save(bob)
    stale.move(1)
    with pytest.raises(WrongExpected):
        accounts.save(stale)
    assert accounts.update("bob", lambda account: account.move(9)).history == [3, -3, 9]
    assert accounts.load("bob").owner == "Bob"
    with pytest.raises(ValueError, match="too little"):
        accounts.update("bob", lambda account: account.move(-10))
    with pytest.raises(BadInput):
        accounts.update("bob", lambda account: None, attempts=0)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    moves=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=6),
    every=st.integers(1, 5),
    deletes=st.booleans(),
)
def test_a_snapshot_and_its_tail_make_what_all_events_make(
    door: headwater.Blocking, moves: list[list[int]], every: int, deletes: bool
) -> None:
    bank = door.journals("bank")
    id = f"j{len(list(bank.ids()))}"
    accounts, whole = BlockingRepository(bank, Account, snapshot_every=every), BlockingRepository(bank, Account, snapshot_every=0)
    model = list[int]()
    for batch in moves:
        account = accounts.load(id)
        assert account.history == model
        for eur in batch:
            account.move(eur)
        accounts.save(account)
        model += batch
    events = list(bank[id].read())
    assert [event.payload["eur"] for event in events] == model
    for cut in range(1, len(model) + 1):  # a snapshot at every cut, and what lies behind it
        state = whole._fold.new(id)
        for event in events[:cut]:
            whole._fold.apply(state, event)
        bank[id].snapshots.delete(min_seq_nr=1)
        bank[id].snapshots.save(whole._fold.snapshot(state), cut)
        found = accounts.load(id)
        assert (found.history, found.eur, found.seq_nr) == (model, sum(model), len(model))
    if deletes:
        bank[id].delete(to=len(model))
        assert accounts.load(id).history == model
