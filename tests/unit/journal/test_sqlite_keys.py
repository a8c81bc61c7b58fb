"""The key store in SQLite: what is destroyed is in none of its files. What else it does is held by the contract suite."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from headwater.core.errors import Damaged
from headwater.journal.key_store import KeyNote, StoredKey
from headwater.journal.sqlite_keys import SqliteKeyStore


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def test_whoever_only_reads_makes_no_file(tmp_path: Path) -> None:
    with SqliteKeyStore(tmp_path / "keys" / "journal.db") as store:
        assert store.keys("t", ["a"]) == {}
        assert store.identity() == ""
        assert store.retired("t") == list(store.pages("t")) == []
        assert store.note("t") is None
    assert not (tmp_path / "keys").exists()


def test_a_destroyed_key_is_in_no_file(tmp_path: Path) -> None:
    with SqliteKeyStore(tmp_path / "keys" / "journal.db") as store:
        keys = [StoredKey(f"id-{n}", bytes([n]) * 16, 1, "active", "m", b"WRAPPED-%03d-" % n * 5) for n in range(200)]
        store.add("t", keys)
        store.destroy("t", keys[50:60])
        held = bytes_of(tmp_path / "keys")
        assert not any(key.wrapped in held for key in keys[50:60])
        assert all(key.wrapped in held for key in (*keys[:50], *keys[60:]))


def test_a_rewrapped_key_leaves_nothing_once_another_is_destroyed(tmp_path: Path) -> None:
    with SqliteKeyStore(tmp_path / "keys" / "journal.db") as store:
        keys = [StoredKey("a", b"a" * 16, 1, "active", "m", b"WRAPPED-OLD-" * 5), StoredKey("b", b"b" * 16, 1, "active", "m", b"x" * 60)]
        store.add("t", keys)
        store.rewrap("t", keys[0], "m2", b"WRAPPED-NEW-" * 5)
        store.destroy("t", keys[1:])
        assert b"WRAPPED-OLD-" not in bytes_of(tmp_path / "keys")


def test_damage_is_no_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteKeyStore(path) as store:
        store.add("t", [StoredKey("a", b"a" * 16, 1)])
        store.set_note("t", KeyNote("aes-256-gcm"))
    connection = apsw.Connection(str(path))
    connection.execute("update entity_key set state = 'gone'; update key_note set note = '{'")
    connection.close()
    with SqliteKeyStore(path) as store:
        with pytest.raises(Damaged, match="backup"):
            store.keys("t", ["a"])
        with pytest.raises(Damaged):
            store.note("t")
    path.write_bytes(b"no database" * 1000)
    with SqliteKeyStore(path) as store:
        for call in (lambda: store.keys("t", ["a"]), lambda: store.add("t", []), lambda: store.destroy("t", []), store.identity):
            with pytest.raises(Damaged, match="newest backup"):
                call()
