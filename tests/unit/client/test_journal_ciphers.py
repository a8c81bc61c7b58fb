"""Encrypted journals through the door, over a directory and over HTTP: the same calls, the same answers, the same errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.unit.client.journal_ground import copy_all, journal_backend

from headwater.client.journals import Journals
from headwater.client.local import LocalLog
from headwater.core.errors import BadConfig, BadInput, HeadwaterError, KeyReused, UnknownJournal
from headwater.core.settings import Settings
from headwater.journal.aggregate import Aggregate, Repository, applies
from headwater.journal.cipher_operations import ErasedJournal, RotatedKeys
from headwater.journal.discovery import JournalTopic, snapshots_of
from headwater.journal.master_keys import new_master_key
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.settings import JournalSettings
from headwater.journal.sqlite import SqliteJournalStore
from headwater.log import Log
from headwater.testing.clock import ManualClock
from headwater.wire import json

pytestmark = pytest.mark.anyio
SECRET = "a-secret-that-is-searched-for"


class Door:
    """A data directory whose settings a test changes between two openings."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.data, self.kind, self.key_file = folder / "data", kind, folder / "master.keys"
        self.key_file.write_text(new_master_key("first") + "\n")
        self.settings = Settings(sections={"journal": JournalSettings(key_file=self.key_file)})
        self._stack = AsyncExitStack()
        self.log: LocalLog

    async def open(self, settings: Settings | None = None) -> Journals:
        await self._stack.aclose()
        made = journal_backend(self.data, self.kind, ManualClock(1_800_000_000), settings or self.settings)
        backend, self.log = await self._stack.enter_async_context(made)
        return Journals(backend)

    async def aclose(self) -> None:
        await self._stack.aclose()

    def holds(self, text: bytes) -> list[str]:
        """The files of the data directory that hold these bytes."""
        return [str(path.relative_to(self.data)) for path in self.data.rglob("*") if path.is_file() and text in path.read_bytes()]


@pytest.fixture(params=["directory", "http"])
async def door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Door]:
    door = Door(tmp_path, request.param)
    yield door
    await door.aclose()


async def payloads(journals: Journals, id: str, topic: str = "bank") -> list[object]:
    return [event.payload async for event in journals(topic)[id].read()]


async def test_a_topic_with_a_cipher(door: Door) -> None:
    journals = await door.open()
    dry = await journals.create("bank", cipher="aes-256-gcm", dry_run=True)
    assert (dry.created, dry.cipher) == (True, "aes-256-gcm")
    made = await journals.create("bank", partitions=1, cipher="aes-256-gcm")
    assert (made.created, made.cipher) == (True, "aes-256-gcm")
    assert [(one.topic, one.cipher) for one in await journals.list()] == [("journal-bank", "aes-256-gcm")]
    bank = journals("bank")
    assert (await bank.status()).cipher == "aes-256-gcm"
    appended = await bank["alice"].append({"s": SECRET}, SECRET, SECRET.encode(), tags=["tag"], metadata={"clear": 1}, headers={"h": "v"})
    assert (appended.first, appended.last) == (1, 3)
    events = [event async for event in bank["alice"].read()]
    assert [event.payload for event in events] == [{"s": SECRET}, SECRET, SECRET.encode()]
    assert (events[0].tags, events[0].metadata, events[0].headers) == (("tag",), {"clear": 1}, {"h": "v"})
    await copy_all(door.log, door.data, "journal-bank")
    assert [event.payload async for event in bank["alice"].read(2, consistency="store")] == [SECRET, SECRET.encode()]
    assert (await bank.verify()).events == 3
    assert door.holds(SECRET.encode()) == []
    followed = bank.follow(tags=["tag"])
    assert [(await anext(followed)).payload for _ in range(3)] == [{"s": SECRET}, SECRET, SECRET.encode()]


async def test_an_erased_journal_is_gone_everywhere(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank", partitions=1, cipher="aes-256-gcm")
    bank = journals("bank")
    await bank["alice"].append({"s": SECRET})
    await bank["bob"].append("stays")
    await copy_all(door.log, door.data, "journal-bank")
    dry = await bank["alice"].erase(why="request 1", dry_run=True)
    assert dry == ErasedJournal(id="alice", done=True, events=1, keys=1, partition=0, dry_run=True)
    assert await payloads(journals, "alice") == [{"s": SECRET}]
    done = await bank["alice"].erase(why="request 1")
    assert done == ErasedJournal(id="alice", done=True, events=1, keys=1, partition=0, offset=2)
    again = await bank["alice"].erase(why="request 1")
    assert (again.done, again.keys) == (False, 0)
    assert await payloads(journals, "alice") == []
    assert await bank["alice"].head() is None
    followed = bank.follow()
    assert (await anext(followed)).payload == "stays"  # the erased event is left out
    await bank["alice"].append("anew")
    event = await anext(followed)
    assert (event.id, event.seq_nr, event.payload) == ("alice", 1, "anew")
    await copy_all(door.log, door.data, "journal-bank")
    journals = await door.open()
    assert await payloads(journals, "alice") == ["anew"]
    assert await payloads(journals, "bob") == ["stays"]
    assert (await journals("bank").verify()).journals == 2


async def test_clear_events_are_counted(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank")
    alice = journals("bank")["alice"]
    await alice.append("clear one", "clear two")
    await journals.create("bank", cipher="aes-256-gcm")
    await alice.append("sealed")
    assert await payloads(journals, "alice") == ["clear one", "clear two", "sealed"]
    done = await alice.erase(why="asked")
    assert (done.events, done.clear, done.keys) == (3, 2, 1)


async def test_a_topic_without_a_cipher(door: Door) -> None:
    journals = await door.open(Settings())
    await journals.create("bank")
    with pytest.raises(BadInput, match="not encrypted"):
        await journals("bank")["alice"].erase(why="asked")
    with pytest.raises(BadInput, match="not encrypted"):
        await journals("bank").rotate()
    with pytest.raises(UnknownJournal):
        await journals("other")["alice"].erase(why="asked")
    with pytest.raises(BadConfig, match="master key"):
        await journals.create("new", cipher="aes-256-gcm")
    assert [one.topic for one in await journals.list()] == ["journal-bank"]  # nothing was created
    with pytest.raises(BadInput, match="rot13"):
        await journals.create("new", cipher="rot13")
    for why in ("", "  "):
        with pytest.raises(BadInput):
            await journals("bank")["alice"].erase(why=why)


async def test_without_the_key_reads_and_appends_say_so(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank", partitions=1, cipher="aes-256-gcm")
    await journals("bank")["alice"].append("x")
    journals = await door.open(Settings())
    bank = journals("bank")
    for call in (bank["alice"].append("y"), bank["alice"].erase(why="asked"), payloads(journals, "alice"), anext(bank.follow())):
        with pytest.raises(BadConfig, match=r"journal\.key_file"):
            await call
    assert await bank["alice"].pointer() == 1
    assert (await bank.status()).cipher == "aes-256-gcm"
    await copy_all(door.log, door.data, "journal-bank")
    assert (await bank.verify()).events == 1
    assert [id async for id in bank.ids()] == ["alice"]
    journals = await door.open()
    assert await payloads(journals, "alice") == ["x"]


async def test_a_master_key_is_replaced(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank", cipher="aes-256-gcm")
    await journals("bank")["alice"].append("x")
    first = door.key_file.read_text()
    door.key_file.write_text(new_master_key("second") + "\n" + first)
    journals = await door.open()
    bank = journals("bank")
    assert await bank.rotate(dry_run=True) == RotatedKeys(topic="journal-bank", master="second", keys=1, rewrapped=1, dry_run=True)
    assert await bank.rotate(why="yearly") == RotatedKeys(topic="journal-bank", master="second", keys=1, rewrapped=1)
    assert (await bank.rotate()).rewrapped == 0
    door.key_file.write_text(door.key_file.read_text().removesuffix(first))
    journals = await door.open()
    assert await payloads(journals, "alice") == ["x"]


async def test_idempotency_keys_beside_an_erasure(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank", cipher="aes-256-gcm")
    alice = journals("bank")["alice"]
    await alice.append("x", idempotency_key="k")
    assert (await alice.append("x", idempotency_key="k")).replayed
    await alice.erase(why="asked")
    with pytest.raises(KeyReused):  # what was asked under the key is no longer known: nothing is written
        await alice.append("x", idempotency_key="k")
    assert await payloads(journals, "alice") == []


async def test_payloads_that_look_encrypted_are_refused(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank")
    with pytest.raises(BadInput, match="mark encrypted"):
        await journals("bank")["alice"].append(b"\x93hw-seal" + b"x" * 100)


async def test_many_callers_and_an_erasure(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank", partitions=2, cipher="aes-256-gcm")
    bank = journals("bank")

    async def appends(id: str) -> None:
        for number in range(5):
            await bank[id].append({"n": number})

    async def erases(id: str) -> ErasedJournal | HeadwaterError:
        await bank[id].append("first")
        return await bank[id].erase(why="asked")

    await asyncio.gather(*(appends(f"id-{n}") for n in range(8)), *(erases(f"gone-{n}") for n in range(4)))
    for n in range(8):
        assert await payloads(journals, f"id-{n}") == [{"n": number} for number in range(5)]
    for n in range(4):
        assert await payloads(journals, f"gone-{n}") == []


async def copy_snapshots(door: Door) -> None:
    """Copy all snapshots into the store, as the replicator does: without a key."""

    def copies(log: Log) -> None:
        journals = log.topic("journal-bank")
        found = snapshots_of(log, JournalTopic(journals.name, journals.partitions, journals.generation))
        assert found is not None
        with SqliteJournalStore(door.data / "store" / "journal") as store:
            for number in range(found.partitions):
                end = log.bounds(found.name, number).end
                task = PartitionTask(topic=found.name, partition=number, generation=found.generation, end=end, holds="snapshots")
                assert copy_partition(log, store, task).problem is None

    await door.log.work(copies)


@pytest.mark.parametrize("copied", [False, True])
async def test_snapshots_of_an_encrypted_topic(door: Door, copied: bool) -> None:
    journals = await door.open()
    await journals.create("bank", partitions=1, cipher="aes-256-gcm")
    alice = journals("bank")["alice"]
    await alice.append("a", "b")
    for number, state in enumerate(({"s": SECRET}, SECRET, SECRET.encode()), 1):
        await alice.snapshots.save(state, min(number, 2))
        if copied:
            await copy_all(door.log, door.data, "journal-bank")
            await copy_snapshots(door)
        found = await alice.snapshots.load()
        assert found is not None
        assert (found.seq_nr, found.payload) == (min(number, 2), state)
    assert [one.seq_nr for one in await alice.snapshots.list()] == [2, 1]
    assert door.holds(SECRET.encode()) == []
    if copied:
        assert (await journals("bank").verify()).snapshots == 2
    without = (await door.open(Settings()))("bank")["alice"]
    for call in (without.snapshots.load(), without.snapshots.save(SECRET)):
        with pytest.raises(BadConfig, match=r"journal\.key_file"):
            await call
    assert [one.seq_nr for one in await without.snapshots.list()] == [2, 1]
    alice = (await door.open())("bank")["alice"]
    assert (await alice.erase(why="asked")).done
    assert await alice.snapshots.load() is None
    await alice.append("anew")
    assert await alice.snapshots.load() is None
    await alice.snapshots.save("state")
    again = await alice.snapshots.load()
    assert again is not None
    assert again.payload == "state"
    assert door.holds(SECRET.encode()) == []


class Moved(msgspec.Struct, frozen=True):
    eur: int
    why: str


class Account(Aggregate):
    eur: int = 0
    why: str = ""

    @applies(Moved)
    def _moved(self, event: Moved) -> None:
        self.eur, self.why = self.eur + event.eur, event.why


async def test_aggregates_over_an_encrypted_topic(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank", partitions=1, cipher="aes-256-gcm")
    accounts = Repository(journals("bank"), Account, snapshot_every=2)
    for _ in range(5):
        await accounts.update("alice", lambda account: account.record(Moved(1, SECRET)))
    snapshot = await journals("bank")["alice"].snapshots.load()
    assert snapshot is not None
    assert SECRET in str(snapshot.payload)
    loaded = await Repository((await door.open())("bank"), Account, snapshot_every=2).load("alice")
    assert (loaded.eur, loaded.why) == (5, SECRET)
    assert door.holds(SECRET.encode()) == []


async def test_an_export_is_clear_and_an_import_is_encrypted(door: Door) -> None:
    journals = await door.open()
    await journals.create("bank", partitions=1, cipher="aes-256-gcm")
    bank = journals("bank")
    given = [{"s": SECRET}, SECRET, SECRET.encode()]
    await bank["alice"].append(*given, tags=["t"])
    await bank["bob"].append("gone")
    await bank["bob"].erase(why="asked")
    lines = [json.encode(line) async for line in bank.export()]
    assert sum(SECRET.encode() in line for line in lines) == 1
    assert not any(b"bob" in line for line in lines)
    await journals.create("copy", partitions=1, cipher="aes-256-gcm")
    for again in (False, True):
        done = await journals("copy").import_lines(lines)
        assert (done.events, done.there > 0) == (0 if again else 3, True)
    assert await payloads(journals, "alice", "copy") == given
    assert door.holds(SECRET.encode()) == []
    journals = await door.open(Settings())
    with pytest.raises(BadConfig, match=r"journal\.key_file"):
        [line async for line in journals("bank").export()]
    changed = [line.replace(b"alice", b"carol") for line in lines]
    journals = await door.open(Settings())
    with pytest.raises(BadConfig, match=r"journal\.key_file"):
        await journals("copy").import_lines(changed)
    assert await journals("copy")["carol"].head() is None
