"""Data keys: made once, found again, forgotten in time, wrapped anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Erased, Undecryptable
from headwater.journal.entity_keys import KEPT, EntityKeys
from headwater.journal.envelope import read_envelope
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.key_store import StoredKey
from headwater.journal.master_keys import MasterKeys
from headwater.journal.sqlite_keys import SqliteKeyStore
from headwater.testing.clock import ManualClock

TOPIC = "journal-bank"
PAYLOAD = Payload(PayloadKind.TEXT, b"hello")
OLD, NEW = MasterKeys({"old": b"1" * 32}), MasterKeys({"new": b"2" * 32, "old": b"1" * 32})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def opened(path: Path, clock: ManualClock, masters: MasterKeys = OLD) -> EntityKeys:
    return EntityKeys(SqliteKeyStore(path / "journal.db", clock=clock), masters, clock=clock)


def test_what_one_process_seals_another_opens(tmp_path: Path, clock: ManualClock) -> None:
    one, other = opened(tmp_path, clock), opened(tmp_path, clock)
    made = one.create(TOPIC, ["a", "b"])
    envelope = read_envelope(made["a"].seal(PAYLOAD, 1).data)
    assert other.opening(TOPIC, "a", envelope.key_id).open(envelope, 1) == PAYLOAD
    assert made["a"].key_id != made["b"].key_id
    with pytest.raises(Undecryptable, match="not in the key store"):
        other.opening(TOPIC, "b", envelope.key_id)
    with pytest.raises(Undecryptable, match="not in the key store"):
        other.opening("journal-other", "a", envelope.key_id)


def test_a_destroyed_key_is_forgotten_in_time(tmp_path: Path, clock: ManualClock) -> None:
    one, other = opened(tmp_path, clock), opened(tmp_path, clock)
    key_id = one.create(TOPIC, ["a"])["a"].key_id
    other.opening(TOPIC, "a", key_id)
    one.store.destroy(TOPIC, [StoredKey("a", key_id, 1)])
    other.opening(TOPIC, "a", key_id)  # from memory
    clock.advance(KEPT + 1)
    with pytest.raises(Erased):
        other.opening(TOPIC, "a", key_id)
    with pytest.raises(Erased):
        one.opening(TOPIC, "a", key_id)


def test_forgetting_at_once(tmp_path: Path, clock: ManualClock) -> None:
    keys = opened(tmp_path, clock)
    key_id = keys.create(TOPIC, ["a"])["a"].key_id
    keys.opening(TOPIC, "a", key_id)
    keys.store.destroy(TOPIC, [StoredKey("a", key_id, 1)])
    keys.forget(TOPIC, "a")
    with pytest.raises(Erased):
        keys.opening(TOPIC, "a", key_id)


def test_a_new_master_key_wraps_what_older_ones_have_wrapped(tmp_path: Path, clock: ManualClock) -> None:
    old = opened(tmp_path, clock)
    made = old.create(TOPIC, [f"id-{n}" for n in range(7)])
    old.store.destroy(TOPIC, [StoredKey("id-6", made["id-6"].key_id, 1)])
    new = opened(tmp_path, clock, NEW)
    assert new.rotate(TOPIC, dry_run=True) == (6, 6)
    assert new.rotate(TOPIC) == (6, 6)
    assert new.rotate(TOPIC) == (6, 0)
    alone = opened(tmp_path, clock, MasterKeys({"new": b"2" * 32}))
    for id, cipher in made.items():
        envelope = read_envelope(cipher.seal(PAYLOAD, 1).data)
        if id != "id-6":
            assert alone.opening(TOPIC, id, cipher.key_id).open(envelope, 1) == PAYLOAD
    with pytest.raises(Undecryptable, match="'new', which is not configured"):
        opened(tmp_path, clock).opening(TOPIC, "id-0", made["id-0"].key_id)
    with pytest.raises(Undecryptable, match="not configured"):
        opened(tmp_path, clock, MasterKeys({"newest": b"3" * 32})).rotate(TOPIC)


def test_a_key_of_an_unknown_cipher(tmp_path: Path, clock: ManualClock) -> None:
    keys = opened(tmp_path, clock)
    keys.store.add(TOPIC, [StoredKey("a", b"a" * 16, 99, "active", "old", b"x" * 60)])
    with pytest.raises(Undecryptable, match="unknown cipher 99"):
        keys.opening(TOPIC, "a", b"a" * 16)


def test_a_placeholder_has_no_bytes(tmp_path: Path, clock: ManualClock) -> None:
    made = opened(tmp_path, clock).placeholder("a", who="me", why="asked")
    assert (made.state, made.wrapped, made.who, made.why) == ("retired", b"", "me", "asked")
