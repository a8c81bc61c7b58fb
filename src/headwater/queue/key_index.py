"""The slots of rows by their keys. A short key is held whole; of a long one the index holds a hash, and the row alone holds the key.

Where two long keys have the same hash, the rows tell them apart: the key of the later one is held whole, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b

from headwater.queue.body import key_of

WHOLE_KEY = 64
"""Bytes of a key that is held whole at most."""
_HASH = 16  # bytes

KeyName = bytes | int
"""By which the index finds a key: itself, or the hash of it."""


def key_hash(key: bytes) -> int:
    """The hash of a long key. A number, so that no short key is the same."""
    return int.from_bytes(blake2b(key, digest_size=_HASH).digest(), "big")


class KeyIndex(dict[KeyName, int]):
    """Slots by name. Whoever has a key asks for its `name`, unless the key is short."""

    __slots__ = ("_bodies", "_last", "hash")

    def __init__(self, bodies: list[bytes], hash: Callable[[bytes], int] = key_hash) -> None:
        """`bodies`: of all rows, by slot; a row's body is there as long as its key is in the index. `hash`: of long keys."""
        super().__init__()
        self._bodies, self.hash = bodies, hash
        self._last = b"", 0  # a key and its hash: whoever looks for a key mostly adds it then

    def name(self, key: bytes) -> KeyName:
        """Under which a key is in the index, or would be."""
        if len(key) <= WHOLE_KEY or key in self:
            return key
        if key is not self._last[0]:
            self._last = key, self.hash(key)
        hashed = self._last[1]
        slot = self.get(hashed)
        return hashed if slot is None or key_of(self._bodies[slot]) == key else key

    def find(self, key: bytes) -> int | None:
        """The slot of a key's row; None: it has none."""
        return self.get(key if len(key) <= WHOLE_KEY else self.name(key))

    def add(self, key: bytes, slot: int) -> None:
        """A key has this row from now on."""
        self[key if len(key) <= WHOLE_KEY else self.name(key)] = slot

    def leave(self, key: bytes) -> None:
        """A key has no row any more. Its row's body is still there."""
        del self[key if len(key) <= WHOLE_KEY else self.name(key)]

    def fill(self, keys: list[bytes], slots: Iterable[int]) -> None:
        """Add many keys, each to its slot."""
        if not keys or max(map(len, keys)) <= WHOLE_KEY:
            self.update(zip(keys, slots, strict=True))
            return
        for key, slot in zip(keys, slots, strict=True):
            self.add(key, slot)
