"""The catalogue of queues as records: what each queue is called, where its rows lie, and how it is set.

A record is a JSON object of the catalogue's table:

    {"format": 1, "kind": "queue", "name": …, "region": …, "table": …, "version": …, "settings": {…}, "declaration": …, "declared": …, …}
    {"format": 1, "kind": "deletion", "name": …}
    {"format": 1, "kind": "tables", "next": …}               no later queue gets a table below this one

The newest record of a name counts. `version` grows with each change of a queue, `declared` with each change of its declaration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headwater.core.errors import BadInput, Damaged, NewerFormat
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.settings_form import NAMES, read_settings, show_settings

FORMAT = 1
_ROOM = 64  # records beside those of the queues that are there, from which on the rest is worth removing


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in the catalogue. Dates are milliseconds since 1970."""

    name: str
    region: int
    table: int
    """In its region. No queue has ever had it before, so that ids and tokens of a deleted queue fit no other."""
    version: int = 1
    settings: EffectiveSettings = EffectiveSettings()
    declaration: str = ""
    """The text of the table declaration; "" for none."""
    declared: int = 0
    """The version of the declaration: 1 for the first one, one more with each change, also with its removal."""
    created: int = 0
    changed: int = 0


class _Stored(msgspec.Struct, kw_only=True, omit_defaults=True):
    format: int
    kind: str
    name: str = ""
    region: int = 0
    table: int = 0
    version: int = 0
    settings: dict[str, Any] = {}
    declaration: str = ""
    declared: int = 0
    created: int = 0
    changed: int = 0
    next: int = 0


_decoder = msgspec.json.Decoder(_Stored)


def encode_entry(entry: QueueEntry) -> bytes:
    """The record of a queue that is made or changed."""
    fields = {**msgspec.structs.asdict(entry), "settings": show_settings(entry.settings)}
    return msgspec.json.encode(_Stored(format=FORMAT, kind="queue", **fields))


def encode_deletion(name: str) -> bytes:
    """The record of a queue that is gone."""
    return msgspec.json.encode(_Stored(format=FORMAT, kind="deletion", name=name))


class CatalogueFold:
    """The queues by name. Pure: the same records give the same queues."""

    def __init__(self, payloads: Iterable[bytes] = ()) -> None:
        self.entries: dict[str, QueueEntry] = {}
        self.next_table = 1
        """The lowest table that no queue has had."""
        self._records = 0
        for payload in payloads:
            self.apply(payload)

    def apply(self, payload: bytes) -> None:
        """Errors: `Damaged` for what is no record of the catalogue; `NewerFormat` for one of a later headwater."""
        self._records += 1
        try:
            record = _decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise _damaged(str(error)) from error
        if record.format > FORMAT:
            raise NewerFormat(
                f"The catalogue of queues was written in format {record.format} by a later headwater; this one knows {FORMAT}.",
                hint="Use that version.",
            )
        match record.kind:
            case "queue":
                self.entries[record.name] = _entry(record)
                self.next_table = max(self.next_table, record.table + 1)
            case "deletion":
                self.entries.pop(record.name, None)
            case "tables":
                self.next_table = max(self.next_table, record.next)
            case _:
                raise _damaged(f"it is of the kind {record.kind!r}")

    def carried(self) -> list[bytes]:
        """The fewest records of which a fold gives this one."""
        tables = msgspec.json.encode(_Stored(format=FORMAT, kind="tables", next=self.next_table))
        return [tables, *(encode_entry(entry) for _, entry in sorted(self.entries.items()))]

    @property
    def crowded(self) -> bool:
        """Whether so many records are outdated that writing `carried` is worth it."""
        return self._records > 2 * len(self.entries) + _ROOM

    def users(self, region: int) -> list[str]:
        """The queues of a region, sorted."""
        return sorted(name for name, entry in self.entries.items() if entry.region == region)


def _entry(record: _Stored) -> QueueEntry:
    known = {name: value for name, value in record.settings.items() if name in NAMES}  # a later headwater of this format may have more
    try:
        settings = read_settings(known, EffectiveSettings())
    except BadInput as error:
        raise _damaged(str(error)) from error
    return QueueEntry(
        name=record.name,
        region=record.region,
        table=record.table,
        version=record.version,
        settings=settings,
        declaration=record.declaration,
        declared=record.declared,
        created=record.created,
        changed=record.changed,
    )


def _damaged(why: str) -> Damaged:
    return Damaged(f"A record of the catalogue of queues cannot be read: {why}.", hint="Look at it with `headwater wal scan queue/0`.")
