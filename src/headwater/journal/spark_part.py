"""What a task of Spark's reads of journals: a partition with its choice of events, and the keys that open them."""

from __future__ import annotations

from typing import Self

import msgspec

from headwater.core.clock import SystemClock
from headwater.core.errors import BadConfig, Differs, Erased, Undecryptable
from headwater.journal.change import EventRow
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.key_address import KeyAddress, open_keys
from headwater.journal.settings import Duplicates
from headwater.journal.store_address import StoreAddress
from headwater.journal.topic_cipher import TopicCipher
from headwater.log import Log


class EventChoice(msgspec.Struct, frozen=True):
    """Which journal and which of its events. `id`: None for all. `lenient`: events that no key opens come without their payload."""

    id: str | None = None
    start: int = 1
    stop: int | None = None
    lenient: bool = False


class PartitionPart(msgspec.Struct, frozen=True):
    """What one task reads: a partition up to `end`. `store`: where its copy is; `keys`: where the keys of its events are. `skip`: offsets
    of quarantined records. `counts`: the numbers of partitions that the topic has had, of one on Kafka."""

    topic: str
    partition: int
    generation: str
    end: int
    store: StoreAddress
    keys: KeyAddress
    skip: tuple[int, ...] = ()
    duplicates: Duplicates = "first"
    counts: tuple[int, ...] = ()


class EventOpener:
    """Opens encrypted events in a task; the key store is opened at the first of them."""

    def __init__(self, log: Log, part: PartitionPart) -> None:
        self._keys: EntityKeys | None = None
        self._address = part.keys
        self._cipher = TopicCipher(log, log.topic(part.topic), self._opened_keys, clock=SystemClock())

    def _opened_keys(self) -> EntityKeys | None:
        if self._keys is None and self._address.configured:
            self._keys = open_keys(self._address)
        return self._keys

    def opened(self, id: str, row: EventRow, *, lenient: bool) -> EventRow | None:
        """The event in clear; None for one that no key opens, where that is allowed. Errors: those of `TopicCipher.open_row`."""
        try:
            return self._cipher.open_row(id, row)
        except (Erased, Undecryptable, BadConfig, Differs):
            if lenient:
                return None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._keys is not None:
            self._keys.close()
