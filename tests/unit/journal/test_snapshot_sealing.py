"""Snapshots of an encrypted topic: sealed with the keys of their journals, beside erasures of other processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.journal.cipher_ground import TOPIC, CipherGround, append, erase, rows

from headwater.core.errors import BadConfig, Conflict, Erased, Undecryptable
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.envelope import is_sealed, read_envelope
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.key_store import StoredKey
from headwater.journal.open_topic import OpenTopic
from headwater.journal.snapshot import SnapshotCriteria
from headwater.journal.snapshot_sealing import SnapshotSealing
from headwater.journal.sqlite_keys import SqliteKeyStore
from headwater.journal.whole import WholeJournals
from headwater.log.record import Record

pytestmark = pytest.mark.anyio
ALL = SnapshotCriteria()
STATE = Payload(PayloadKind.JSON, b'{"eur":"a-secret-that-is-searched-for"}')


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[CipherGround]:
    ground = CipherGround(tmp_path)
    yield ground
    await ground.aclose()


def save(opened: OpenTopic, id: str, seq_nr: int = 1, payload: Payload = STATE) -> int:
    living = opened.snapshots(id).living(id)
    assert living is not None
    return opened.snapshots(id).save(id, seq_nr, payload, living, (None, None))


def load(opened: OpenTopic, id: str) -> Payload | None:
    found = opened.snapshots(id).load(id, ALL)
    assert found is None or found.payload is None or found.kind is found.payload.kind
    return None if found is None else found.payload


def records(ground: CipherGround) -> list[Record]:
    name = f"snapshot-{TOPIC}"
    try:
        return ground.log.read(name, 0, 0, limit=100)
    except Exception:
        return []


def states(ground: CipherGround, id: str) -> list[str]:
    return sorted(key.state for key in ground.keys().store.keys(TOPIC, [id]).get(id, []))


async def test_a_snapshot_lies_in_the_log_as_an_envelope_of_its_journals_key(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    await append(one, "alice", "a", "b")
    for number, payload in enumerate((STATE, Payload(PayloadKind.TEXT, "ä".encode()), Payload(PayloadKind.BINARY, b"\xff")), 1):
        save(one, "alice", min(number, 2), payload)
        assert load(other, "alice") == payload
    events = {read_envelope(row.payload.data).key_id for row in rows(one, "alice", raw=True)}  # type: ignore[union-attr]
    for record in records(ground):
        assert is_sealed(Payload(PayloadKind.BINARY, record.value or b""))
        assert {read_envelope(record.value or b"").key_id} == events
    assert states(ground, "alice") == ["active"]


async def test_an_envelope_is_of_one_topic_journal_number_and_purpose(ground: CipherGround) -> None:
    one = ground.process()
    await append(one, "alice", "a", "b")
    await append(one, "bob", "a")
    save(one, "alice", 2)
    sealing = SnapshotSealing(one.cipher, WholeJournals(one.partition("alice")))
    found = one.snapshots("alice").load("alice", ALL)
    assert found is not None
    sealed = msgspec.structs.replace(found, payload=Payload(PayloadKind.BINARY, records(ground)[0].value or b""))
    assert sealing.opened("alice", sealed).payload == STATE
    event = rows(one, "alice", raw=True)[1].payload
    for id, other in (
        ("alice", msgspec.structs.replace(sealed, seq_nr=1)),
        ("bob", sealed),
        ("alice", msgspec.structs.replace(sealed, payload=event)),
    ):
        with pytest.raises(Undecryptable):
            sealing.opened(id, other)


async def test_an_erasure_takes_snapshots(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    await append(one, "alice", "a")
    save(one, "alice")
    found = one.snapshots("alice").load("alice", ALL)
    assert found is not None
    await erase(other, "alice")
    assert load(one, "alice") is None
    kept = msgspec.structs.replace(found, payload=Payload(PayloadKind.BINARY, records(ground)[0].value or b""))
    with pytest.raises(Erased):
        SnapshotSealing(ground.process().cipher, WholeJournals(one.partition("alice"))).opened("alice", kept)
    await append(one, "alice", "anew")
    assert load(one, "alice") is None
    save(other, "alice", 1, Payload(PayloadKind.TEXT, b"anew"))
    assert load(one, "alice") == Payload(PayloadKind.TEXT, b"anew")
    assert states(ground, "alice") == ["active", "destroyed"]


async def test_without_the_key_nothing_is_saved_and_nothing_loaded(ground: CipherGround) -> None:
    one, without = ground.process(), ground.process(configured=False)
    await append(one, "alice", "a")
    with pytest.raises(BadConfig, match="master key"):
        save(without, "alice")
    assert records(ground) == []
    save(one, "alice")
    with pytest.raises(BadConfig, match="master key"):
        load(without, "alice")
    assert [one.seq_nr for one in without.snapshots("alice").find("alice", ALL)] == [1]


async def test_a_topic_that_becomes_encrypted_is_never_saved_to_in_clear_again(tmp_path: Path) -> None:
    ground = CipherGround(tmp_path, on=False)
    one, other = ground.process(), ground.process()
    await append(one, "alice", "a", "b")
    save(one, "alice", 1)
    assert states(ground, "alice") == []
    other.cipher.turn_on()
    save(one, "alice", 2)  # at the same instant: no second passes
    assert [is_sealed(Payload(PayloadKind.BINARY, record.value or b"")) for record in records(ground)] == [False, True]
    assert load(other, "alice") == STATE
    assert states(ground, "alice") == ["active"]  # the journal had none before
    await erase(other, "alice")
    assert states(ground, "alice") == ["destroyed"]
    await ground.aclose()


async def test_a_key_is_durable_before_the_record(ground: CipherGround, monkeypatch: pytest.MonkeyPatch) -> None:
    one = await clear_journal(ground)
    added: list[bool] = []
    monkeypatch.setattr(one.log, "append", lambda *args, **more: added.append(states(ground, "alice") == ["active"]) or [0])
    save(one, "alice")
    assert added == [True]


async def test_a_journal_that_is_being_erased_gets_no_snapshot(ground: CipherGround) -> None:
    one = ground.process()
    await append(one, "alice", "a")
    ground.keys().store.retire(TOPIC, "alice", who="me", why="asked")
    with pytest.raises(Conflict, match="being erased"):
        save(one, "alice")
    assert (records(ground), states(ground, "alice")) == ([], ["retired"])


async def test_a_key_store_without_the_journals_key_gets_no_other_one(ground: CipherGround) -> None:
    await append(ground.process(), "alice", "a")
    one = ground.process(keys=EntityKeys(_Without(ground.key_file, clock=ground.clock), ground.masters, clock=ground.clock))
    with pytest.raises(Undecryptable, match="not in the key store"):
        save(one, "alice")
    assert (records(ground), states(ground, "alice")) == ([], ["active"])


class _Without(SqliteKeyStore):
    """An older copy of the key store."""

    def keys(self, topic: str, ids: Sequence[str]) -> dict[str, list[StoredKey]]:
        return {}


class _Meanwhile(SqliteKeyStore):
    """Another process does something before the first key is kept, or after it."""

    before: Callable[[], Any] | None = None
    after: Callable[[], Any] | None = None

    def add(self, topic: str, keys: Sequence[StoredKey]) -> None:
        before, self.before = self.before, None
        if before is not None:
            before()
        super().add(topic, keys)
        after, self.after = self.after, None
        if after is not None:
            after()


async def clear_journal(ground: CipherGround) -> OpenTopic:
    """A journal whose only event is of before the encryption: it has no key."""
    from headwater.journal.action import Append
    from headwater.journal.event import NumberedEvent
    from headwater.journal.event_bodies import encode_events
    from headwater.journal.wire import write_record

    kind, value = encode_events([NumberedEvent(1, Payload(PayloadKind.TEXT, b"clear"), ())])
    ground.log.append(TOPIC, 0, [write_record("alice", Append(1, 1, kind), value=value)], part="journal")
    return ground.process()


@pytest.mark.parametrize("finished", [True, False])
async def test_an_erasure_that_begins_before_the_first_key_is_kept(ground: CipherGround, finished: bool) -> None:
    await clear_journal(ground)
    store = _Meanwhile(ground.key_file, clock=ground.clock)
    one = ground.process(keys=EntityKeys(store, ground.masters, clock=ground.clock))
    others = ground.keys()

    def begins() -> None:
        placeholder = others.placeholder("alice", who="me", why="asked")
        others.store.add(TOPIC, [placeholder])
        if finished:
            others.store.destroy(TOPIC, [placeholder])

    store.before = begins
    with pytest.raises(Conflict, match="being erased"):
        save(one, "alice")
    assert records(ground) == []
    assert states(ground, "alice") == (["destroyed", "destroyed"] if finished else ["destroyed", "retired"])
    store.close()


async def test_an_erasure_that_begins_with_the_first_key_takes_it(ground: CipherGround) -> None:
    await clear_journal(ground)
    store = _Meanwhile(ground.key_file, clock=ground.clock)
    one = ground.process(keys=EntityKeys(store, ground.masters, clock=ground.clock))
    others = ground.keys()
    store.after = lambda: others.store.retire(TOPIC, "alice", who="me", why="asked")
    with pytest.raises(Conflict):
        save(one, "alice")
    assert states(ground, "alice") == ["retired"]  # the erasure finishes it
    store.close()


async def test_an_erasure_sees_a_key_that_was_made_while_it_began(ground: CipherGround) -> None:
    one = await clear_journal(ground)
    store = _Meanwhile(ground.key_file, clock=ground.clock)
    eraser = ground.process(keys=EntityKeys(store, ground.masters, clock=ground.clock))
    store.before = lambda: save(one, "alice")  # between the erasure's look and its own key
    await erase(eraser, "alice")
    assert states(ground, "alice") == ["destroyed", "destroyed"]
    assert len(records(ground)) == 1
    assert load(one, "alice") is None
    store.close()


@pytest.mark.parametrize("clear", [True, False])
async def test_a_save_that_was_slower_than_a_whole_erasure_is_told(ground: CipherGround, clear: bool) -> None:
    one = await clear_journal(ground) if clear else ground.process()
    if not clear:
        await append(one, "alice", "a")
    living = one.snapshots("alice").living("alice")
    assert living is not None
    await erase(ground.process(), "alice")
    with pytest.raises((Conflict, Erased)):
        one.snapshots("alice").save("alice", 1, STATE, living, (None, None))
    assert records(ground) == []
    assert set(states(ground, "alice")) == {"destroyed"}
