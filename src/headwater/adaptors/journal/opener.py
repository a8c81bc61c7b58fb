"""The keys with which a pipeline reads encrypted journals: those that are configured where it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from headwater.adaptors.headwater.address import resolved_address
from headwater.adaptors.headwater.connection import HeadwaterConnection
from headwater.adaptors.journal.adaptor import JournalAdaptor
from headwater.core.clock import SystemClock
from headwater.core.config import load
from headwater.core.errors import BadConfig
from headwater.journal.change import EventRow
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.envelope import is_sealed
from headwater.journal.key_address import key_address_of, open_keys
from headwater.journal.topic_cipher import TopicCipher
from headwater.log.record import Topic


class SourceOpener:
    """Opens the encrypted events of a topic; the key store is opened at the first of them. Used in one thread."""

    def __init__(self, adaptor: JournalAdaptor, connection: HeadwaterConnection, topic: Topic) -> None:
        self._adaptor, self._topic, self._where = adaptor, topic, connection.where
        self._keys: EntityKeys | None = None
        log = connection.log
        self._cipher = None if log is None else TopicCipher(log, topic, self._opened_keys, clock=SystemClock())

    def _opened_keys(self) -> EntityKeys | None:
        if self._keys is None:
            place, settings = resolved_address(self._adaptor.log()), load(cwd=Path(self._adaptor.home or ".")).settings
            address = key_address_of(settings, Path(place.where) if place.kind == "directory" else settings.data)
            self._keys = open_keys(address) if address.configured else None
        return self._keys

    def check(self) -> None:
        """Before a run. Errors: `BadConfig` for an encrypted topic whose keys are not here; `Differs` where they are in another store."""
        if self._cipher is not None and self._cipher.name() is not None:
            self._cipher.keys()

    def opened(self, id: str, row: EventRow) -> EventRow | None:
        """The event in clear; None for one that was erased. Errors: those of `TopicCipher.open_row`; `BadConfig` behind a server."""
        if not is_sealed(row.payload):
            return row
        if self._cipher is None:
            raise BadConfig(
                f"Topic {self._topic.name} is encrypted, and {self._where} gives records as they are: no key is here.",
                hint="Give a data directory or kafka:// as the address, where `journal.key_file` or `journal.key_variable` is set.",
            )
        return self._cipher.open_kept(id, row)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._keys is not None:
            self._keys.close()
