"""The data keys of entities, unwrapped: made, found, kept for a while, wrapped anew."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Erased, Undecryptable
from headwater.journal.cipher import USUAL, Cipher, Randomness, cipher_named, cipher_with
from headwater.journal.envelope import KEY_ID, EntityCipher
from headwater.journal.key_store import KeyStore, StoredKey
from headwater.journal.master_keys import MasterKeys

KEPT = 30.0
"""Seconds for which a reader keeps a key in memory: another process reads no longer than that what was erased."""
_MOST = 10_000


class EntityKeys:
    """A key store with its master keys. Blocking; safe for several threads. It closes the store."""

    def __init__(self, store: KeyStore, masters: MasterKeys, *, clock: Clock | None = None, random: Randomness = os.urandom) -> None:
        self.store, self.masters = store, masters
        self._clock, self._random = clock or SystemClock(), random
        self._guard = threading.Lock()
        self._gone: set[tuple[str, str, bytes]] = set()  # keys that were seen destroyed: they never come back
        self._kept: OrderedDict[tuple[str, str, bytes], tuple[float, EntityCipher]] = OrderedDict()

    def create(self, topic: str, ids: Iterable[str], cipher: str = USUAL) -> dict[str, EntityCipher]:
        """New keys, durable when this returns, for entities that have no active one."""
        kind = cipher_named(cipher)
        keys: list[StoredKey] = []
        keyed: dict[str, EntityCipher] = {}
        for id in ids:
            key_id, key = self._random(KEY_ID), self._random(kind.key_size)
            wrapped = self.masters.wrap(key, topic=topic, id=id, key_id=key_id)
            keys.append(StoredKey(id, key_id, kind.code, "active", self.masters.newest, wrapped, self._clock.now_ms()))
            keyed[id] = EntityCipher(kind, key_id, key, topic=topic, id=id)
        if keys:
            self.store.add(topic, keys)
        return keyed

    def placeholder(self, id: str, *, who: str, why: str) -> StoredKey:
        """A retired key without bytes, for an entity that has none: so its erasure, too, is finished after a crash."""
        return StoredKey(id, self._random(KEY_ID), 0, "retired", created=self._clock.now_ms(), who=who, why=why)

    def usable(self, topic: str, key: StoredKey) -> EntityCipher:
        """A key, unwrapped. Errors: `Undecryptable`, where its master key is not there or does not open it."""
        kind = _kind_of(key)
        return EntityCipher(
            kind,
            key.key_id,
            self.masters.unwrap(key.wrapped, key.master, topic=topic, id=key.id, key_id=key.key_id),
            topic=topic,
            id=key.id,
        )

    def opening(self, topic: str, id: str, key_id: bytes) -> EntityCipher:
        """The key that opens an envelope. Errors: `Erased`; `Undecryptable` where the store has no such key."""
        place, now = (topic, id, key_id), self._clock.monotonic()
        if place in self._gone:
            raise erased(id)
        with self._guard:
            cached = self._kept.get(place)
        if cached is not None and now - cached[0] < KEPT:
            return cached[1]
        stored_key = next((key for key in self.store.keys(topic, [id]).get(id, []) if key.key_id == key_id), None)
        if stored_key is None:
            raise Undecryptable(
                f"The key {key_id.hex()} of journal {id!r:.60} in {topic} is not in the key store.",
                hint="The key store is older than the log, or another one: bring back the newest backup of it.",
            )
        if stored_key.state == "destroyed":
            self.forget(topic, id)
            if len(self._gone) >= _MOST:
                self._gone.clear()
            self._gone.add(place)
            raise erased(id)
        keyed = self.usable(topic, stored_key)
        with self._guard:
            self._kept[place] = now, keyed
            self._kept.move_to_end(place)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return keyed

    def forget(self, topic: str, id: str) -> None:
        """Keep no key of an entity in memory."""
        with self._guard:
            for place in [place for place in self._kept if place[:2] == (topic, id)]:
                del self._kept[place]

    def rotate(self, topic: str, *, dry_run: bool = False) -> tuple[int, int]:
        """Wrap the keys of a topic with the newest master key: how many there are, and how many were wrapped by another one.

        Safe beside writers and erasures; stopped midway, it goes on when it is called again. Errors: `Undecryptable` for a key whose master
        key is not configured: those before it are done.
        """
        count = older = 0
        for page in self.store.pages(topic):
            for key in page:
                if not key.wrapped:
                    continue
                count += 1
                if key.master == self.masters.newest:
                    continue
                older += 1
                place = {"topic": topic, "id": key.id, "key_id": key.key_id}
                data_key = self.masters.unwrap(key.wrapped, key.master, **place)  # type: ignore[arg-type]
                if not dry_run:
                    self.store.rewrap(topic, key, self.masters.newest, self.masters.wrap(data_key, **place))  # type: ignore[arg-type]
        return count, older

    def close(self) -> None:
        """Close the store. Closing twice is no error."""
        self.store.close()


def erased(id: str) -> Erased:
    """The error for a journal whose keys are destroyed."""
    return Erased(
        f"Journal {id!r:.60} was erased: its key is destroyed.",
        hint="If its events still show, finish it: `headwater journal erase TOPIC ID --why TEXT`.",
    )


def _kind_of(key: StoredKey) -> Cipher:
    kind = cipher_with(key.cipher)
    if kind is None:
        raise Undecryptable(
            f"The key of journal {key.id!r:.60} is of the unknown cipher {key.cipher}.", hint="Install the headwater that made it."
        )
    return kind
