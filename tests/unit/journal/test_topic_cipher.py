"""The encryption of a topic: whether it is on, and what opens its events, whatever was restored from a backup."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.journal.cipher_ground import TOPIC, CipherGround, append, erase, rows, values

from headwater.core.clock import SystemClock
from headwater.core.errors import BadConfig, BadInput, Conflict, Differs, Erased, Undecryptable, Unsupported
from headwater.journal.cipher_control import CipherOn
from headwater.journal.entity_keys import KEPT
from headwater.journal.envelope import is_sealed
from headwater.journal.master_keys import MasterKeys
from headwater.journal.read import JournalRead
from headwater.journal.topic_cipher import LOOK, TopicCipher
from headwater.journal.topics import PART
from headwater.journal.write import ActionPlaced, PurgeDraft

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[CipherGround]:
    ground = CipherGround(tmp_path)
    yield ground
    await ground.aclose()


@pytest.fixture
async def clear(tmp_path: Path) -> AsyncIterator[CipherGround]:
    ground = CipherGround(tmp_path, on=False)
    yield ground
    await ground.aclose()


async def test_events_are_encrypted_and_read_by_every_process(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    await append(one, "alice", {"secret": 1}, "text", b"bytes")
    assert values(other, "alice") == [{"secret": 1}, "text", b"bytes"]
    assert all(is_sealed(row.payload) for row in rows(other, "alice", raw=True))


async def test_a_topic_that_is_turned_on_later(clear: CipherGround) -> None:
    one, other = clear.process(), clear.process()
    await append(one, "alice", "before")
    await append(other, "bob", "before")
    assert other.cipher.turn_on() is True
    assert other.cipher.turn_on() is False
    clear.clock.advance(LOOK)
    await append(one, "alice", "after")
    await append(other, "bob", "after")
    for opened in (one, other, clear.process()):
        for id in ("alice", "bob"):
            assert values(opened, id) == ["before", "after"]
            assert [is_sealed(row.payload) for row in rows(opened, id, raw=True)] == [False, True]


async def test_without_a_master_key(ground: CipherGround) -> None:
    await append(ground.process(), "alice", "x")
    bare = ground.process(configured=False)
    with pytest.raises(BadConfig, match=r"journal\.key_file"):
        values(bare, "alice")
    with pytest.raises(BadConfig, match=r"journal\.key_file"):
        await append(bare, "alice", "y")
    assert len(rows(bare, "alice", raw=True)) == 1  # whoever copies needs no key
    assert bare.partition("alice").last_number("alice", 1) == 1


async def test_a_clear_topic_needs_no_key(clear: CipherGround) -> None:
    bare = clear.process(configured=False)
    await append(bare, "alice", "y")
    assert values(bare, "alice") == ["y"]
    with pytest.raises(BadInput, match="not encrypted"):
        await erase(bare, "alice")


async def test_with_another_master_key(ground: CipherGround) -> None:
    await append(ground.process(), "alice", "x")
    ground.masters = MasterKeys({"first": b"another" + b"x" * 25})
    wrong = ground.process()
    with pytest.raises(Undecryptable, match="another key of that name"):
        values(wrong, "alice")
    with pytest.raises(Undecryptable, match="another key of that name"):
        await append(wrong, "alice", "y")
    ground.masters = MasterKeys({"second": b"2" * 32})
    with pytest.raises(Undecryptable, match="not configured"):
        values(ground.process(), "alice")


async def test_a_lost_key_store_is_not_taken_for_a_new_one(ground: CipherGround) -> None:
    one = ground.process()
    await append(one, "alice", "x")
    await one.aclose()
    shutil.rmtree(ground.key_file.parent)
    for call in (lambda opened: values(opened, "alice"), lambda opened: opened.cipher.turn_on()):
        with pytest.raises(Differs, match="backup"):
            call(ground.process())
    with pytest.raises(Differs, match="backup"):
        await append(ground.process(), "alice", "y")
    assert not ground.key_file.exists()
    assert isinstance(await ground.process().writer("alice").write(PurgeDraft("alice")), ActionPlaced)  # which needs no key


async def test_the_key_store_of_another_installation(ground: CipherGround, tmp_path: Path) -> None:
    other = CipherGround(tmp_path / "other")
    keys = other.keys()
    with pytest.raises(Differs, match="key store"):
        await append(ground.process(keys=keys), "alice", "y")
    await other.aclose()


async def test_an_older_key_store_names_what_is_missing_and_takes_nothing_more(ground: CipherGround, tmp_path: Path) -> None:
    await append(ground.process(), "old", "x")
    shutil.copytree(ground.key_file.parent, tmp_path / "backup")
    await append(ground.process(), "new", "y")
    await ground.process().aclose()
    shutil.rmtree(ground.key_file.parent)
    shutil.copytree(tmp_path / "backup", ground.key_file.parent)
    restored = ground.process()
    assert values(restored, "old") == ["x"]
    with pytest.raises(Undecryptable, match="backup"):
        values(restored, "new")
    with pytest.raises(Undecryptable, match="backup"):
        await append(restored, "new", "z")
    await append(restored, "old", "goes on")
    assert isinstance(await erase(restored, "new"), ActionPlaced)  # given up
    await append(restored, "new", "begun anew")
    assert values(restored, "new") == ["begun anew"]


async def test_a_restored_key_store_opens_nothing_that_was_erased_and_destroys_it_again(ground: CipherGround, tmp_path: Path) -> None:
    one = ground.process()
    await append(one, "alice", "x")
    (sealed,) = rows(one, "alice", raw=True)
    shutil.copytree(ground.key_file.parent, tmp_path / "backup")
    await erase(one, "alice")
    await one.aclose()
    shutil.rmtree(ground.key_file.parent)
    shutil.copytree(tmp_path / "backup", ground.key_file.parent)
    restored = ground.process()
    with pytest.raises(Erased):
        restored.cipher.open_row("alice", sealed)  # a reader changes nothing, and opens nothing
    assert ground.keys().store.keys(TOPIC, ["alice"])["alice"][0].state == "active"
    await append(restored, "bob", "whoever writes destroys it again")
    assert ground.keys().store.keys(TOPIC, ["alice"])["alice"][0].state == "destroyed"
    await append(restored, "alice", "anew")
    assert values(ground.process(), "alice") == ["anew"]


async def test_a_lost_decision_makes_nothing_clear(ground: CipherGround) -> None:
    await append(ground.process(), "alice", "x")
    ground.log.delete_topic(f"control-{TOPIC}", part=PART)
    again = ground.process()
    assert again.cipher.name() == "aes-256-gcm"
    await append(again, "alice", "y")
    assert all(is_sealed(row.payload) for row in rows(again, "alice", raw=True))
    assert again.cipher.turn_on() is False
    assert ground.control().on is not None


async def test_a_lost_note_makes_nothing_clear(ground: CipherGround, tmp_path: Path) -> None:
    other = CipherGround(tmp_path / "other", on=False)
    keys = other.keys()
    CipherGround.control(other).append(CipherOn(generation="g", cipher="aes-256-gcm", store=keys.store.identity(create=True)))
    opened = other.process(keys=keys)
    await append(opened, "alice", "y")
    assert all(is_sealed(row.payload) for row in rows(opened, "alice", raw=True))
    await other.aclose()


async def test_envelopes_that_were_moved_are_not_opened(ground: CipherGround) -> None:
    one = ground.process()
    await append(one, "alice", "first", "second")
    await append(one, "bob", "third")
    first, second = rows(one, "alice", raw=True)
    for id, row in (
        ("alice", type(first)(2, 0, 0, 0, payload=first.payload)),
        ("alice", type(first)(1, 0, 0, 0, payload=second.payload)),
        ("bob", first),
    ):
        with pytest.raises(Undecryptable):
            one.cipher.open_row(id, row)


async def test_a_topic_of_others_is_not_encrypted(clear: CipherGround) -> None:
    keys = clear.keys()
    shared = TopicCipher(clear.log, clear.topic, lambda: keys, clock=SystemClock(), exact=False)
    with pytest.raises(Unsupported, match="others"):
        shared.turn_on()
    with pytest.raises(BadInput):
        clear.process().cipher.turn_on(cipher="rot13")


async def test_a_journal_that_is_erased_while_it_is_read_is_a_conflict(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    await append(one, "alice", *(f"{n}" for n in range(10)))
    partition = other.partition("alice")
    read = JournalRead(partition, "alice", end=partition.end(), opens=other.cipher.open_rows)
    assert len(read.page(2)) == 2
    await erase(one, "alice")
    ground.clock.advance(KEPT + 1)
    with pytest.raises(Conflict, match="purged while it was read"):
        read.page(2)
