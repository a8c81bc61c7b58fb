"""Key stores: the data keys of entities, wrapped by a master key. The one thing of journals that is no fold of the log, because what the
log keeps cannot be destroyed.

A key is `active` from its creation on: events are sealed with it. `retired`: its entity is being erased, and nothing is sealed with it any
more. `destroyed`: its bytes are gone, and its row says that it was there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

import msgspec

KeyState = Literal["active", "retired", "destroyed"]


class StoredKey(msgspec.Struct, frozen=True, gc=False):
    """A data key of an entity. `wrapped`: encrypted by the master key `master`; empty once it is destroyed. `who`, `why`: for its audit."""

    id: str
    key_id: bytes
    cipher: int
    state: KeyState = "active"
    master: str = ""
    wrapped: bytes = b""
    created: int = 0  # milliseconds
    who: str = ""
    why: str = ""


class KeyNote(msgspec.Struct, frozen=True):
    """What a key store knows of a topic. `cipher`: its name. `control`, `applied`: the erasures of this generation of the control topic
    below this offset are carried out here."""

    cipher: str
    control: str = ""
    applied: int = 0


class KeyStore(ABC):
    """Blocking; safe for several threads and processes.

    Guarantees: what `add`, `retire`, `destroy`, `rewrap` and `set_note` have done is durable when they return. A destroyed key never comes
    back: neither `add` nor `rewrap` changes it. After `destroy` returns, no file of the store that this process can write holds the key.
    Errors of all calls: those of the engine, among them `Damaged` for a file that cannot be read: it is never taken for an empty one.
    """

    @abstractmethod
    def identity(self, *, create: bool = False) -> str:
        """The random name of this store: topics name the store that holds their keys. `create`: give it one; without, an empty text where
        it has none, as a store has that was lost and begun anew."""

    @abstractmethod
    def keys(self, topic: str, ids: Sequence[str]) -> Mapping[str, list[StoredKey]]:
        """The keys of these entities, oldest first. Entities without keys are left out."""

    @abstractmethod
    def add(self, topic: str, keys: Sequence[StoredKey]) -> None:
        """Keep new keys, all of them in one step where the engine can. A key that is there stays as it is."""

    @abstractmethod
    def retire(self, topic: str, id: str, *, who: str, why: str) -> None:
        """Retire every active key of an entity."""

    @abstractmethod
    def destroy(self, topic: str, keys: Sequence[StoredKey]) -> None:
        """Destroy these keys, whatever their state is; note those that are not there as destroyed. Destroying twice is no error."""

    @abstractmethod
    def retired(self, topic: str) -> list[StoredKey]:
        """The keys whose erasure has begun and has not ended."""

    @abstractmethod
    def pages(self, topic: str, size: int = 500) -> Iterator[list[StoredKey]]:
        """Every key of a topic, in pages."""

    @abstractmethod
    def rewrap(self, topic: str, key: StoredKey, master: str, wrapped: bytes) -> bool:
        """Wrap a key anew that is not destroyed and still is as `key` says; whether it was so."""

    @abstractmethod
    def note(self, topic: str) -> KeyNote | None:
        """What is known of a topic; None: it has no keys here."""

    @abstractmethod
    def set_note(self, topic: str, note: KeyNote) -> None:
        """Note it."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
