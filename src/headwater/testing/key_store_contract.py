"""The contract of key stores: every engine passes it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import pytest

from headwater.journal.key_store import KeyNote, KeyStore, StoredKey

OpenKeyStore = Callable[[], KeyStore]
TOPIC = "journal-bank"


def key(id: str, number: int, **fields: object) -> StoredKey:
    """A key of an entity."""
    made = StoredKey(id, bytes([number]) * 16, 1, "active", "m1", b"wrapped-%d" % number, 1000 + number)
    return msgspec.structs.replace(made, **fields)


class KeyStoreContract:
    """`open_store` opens one and the same store each time, as another process does."""

    @pytest.fixture
    def open_store(self) -> OpenKeyStore:
        raise NotImplementedError

    def test_what_is_kept_is_there_for_everybody(self, open_store: OpenKeyStore) -> None:
        with open_store() as store, open_store() as other:
            assert store.keys(TOPIC, ["a", "b"]) == {}
            store.add(TOPIC, [key("a", 2), key("a", 1), key("é/ü\0", 3)])
            assert other.keys(TOPIC, ["a", "b", "é/ü\0"]) == {"a": [key("a", 1), key("a", 2)], "é/ü\0": [key("é/ü\0", 3)]}
            assert other.keys("journal-other", ["a"]) == {}
            store.add(TOPIC, [key("a", 1, wrapped=b"another")])
            assert other.keys(TOPIC, ["a"])["a"][0].wrapped == b"wrapped-1"  # a key that is there stays

    def test_the_identity_is_given_once(self, open_store: OpenKeyStore) -> None:
        with open_store() as store, open_store() as other:
            assert store.identity() == ""
            made = store.identity(create=True)
            assert made
            assert other.identity() == other.identity(create=True) == made

    def test_notes(self, open_store: OpenKeyStore) -> None:
        with open_store() as store, open_store() as other:
            assert store.note(TOPIC) is None
            store.set_note(TOPIC, KeyNote("aes-256-gcm"))
            store.set_note(TOPIC, KeyNote("aes-256-gcm", "g", 7))
            assert other.note(TOPIC) == KeyNote("aes-256-gcm", "g", 7)

    def test_retiring_and_destroying(self, open_store: OpenKeyStore) -> None:
        with open_store() as store, open_store() as other:
            store.add(TOPIC, [key("a", 1), key("a", 2), key("b", 3)])
            store.retire(TOPIC, "a", who="me", why="asked")
            store.retire(TOPIC, "nobody", who="me", why="asked")
            retired = other.retired(TOPIC)
            assert [(entity_key.key_id[0], entity_key.state, entity_key.who, entity_key.why) for entity_key in retired] == [
                (1, "retired", "me", "asked"),
                (2, "retired", "me", "asked"),
            ]
            assert [entity_key.wrapped for entity_key in retired] == [b"wrapped-1", b"wrapped-2"]
            assert other.keys(TOPIC, ["b"])["b"][0].state == "active"
            other.destroy(TOPIC, retired)
            other.destroy(TOPIC, retired)
            assert store.retired(TOPIC) == []
            assert [(entity_key.state, entity_key.wrapped, entity_key.master) for entity_key in store.keys(TOPIC, ["a"])["a"]] == [
                ("destroyed", b"", "")
            ] * 2

    def test_a_destroyed_key_never_comes_back(self, open_store: OpenKeyStore) -> None:
        with open_store() as store:
            store.add(TOPIC, [key("a", 1)])
            store.destroy(TOPIC, [key("a", 1), key("a", 9)])
            store.add(TOPIC, [key("a", 1), key("a", 9)])
            assert not store.rewrap(TOPIC, key("a", 1), "m2", b"again")
            store.retire(TOPIC, "a", who="me", why="asked")
            assert [(entity_key.key_id[0], entity_key.state, entity_key.wrapped) for entity_key in store.keys(TOPIC, ["a"])["a"]] == [
                (1, "destroyed", b""),
                (9, "destroyed", b""),
            ]

    def test_a_retired_key_without_bytes(self, open_store: OpenKeyStore) -> None:
        with open_store() as store:
            store.add(TOPIC, [key("a", 1, state="retired", wrapped=b"", master="", who="me", why="asked")])
            assert [entity_key.key_id[0] for entity_key in store.retired(TOPIC)] == [1]
            store.destroy(TOPIC, store.retired(TOPIC))
            assert store.retired(TOPIC) == []

    def test_keys_are_wrapped_anew_unless_they_have_changed(self, open_store: OpenKeyStore) -> None:
        with open_store() as store, open_store() as other:
            store.add(TOPIC, [key("a", 1)])
            assert store.rewrap(TOPIC, key("a", 1), "m2", b"anew")
            assert not other.rewrap(TOPIC, key("a", 1), "m3", b"too late")
            (entity_key,) = other.keys(TOPIC, ["a"])["a"]
            assert (entity_key.master, entity_key.wrapped, entity_key.state) == ("m2", b"anew", "active")

    def test_every_key_comes_once(self, open_store: OpenKeyStore) -> None:
        with open_store() as store:
            made = [key(f"id-{number % 5}", number) for number in range(23)]
            store.add(TOPIC, made)
            store.add("journal-other", [key("id-1", 99)])
            keys = [entity_key for page in store.pages(TOPIC, 4) for entity_key in page]
            assert sorted(keys, key=lambda entity_key: entity_key.key_id) == made

    def test_several_threads(self, open_store: OpenKeyStore) -> None:
        with open_store() as store:
            threads = [
                threading.Thread(target=lambda at=at: store.add(TOPIC, [key("a", 10 * at + n) for n in range(5)])) for at in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(store.keys(TOPIC, ["a"])["a"]) == 20
