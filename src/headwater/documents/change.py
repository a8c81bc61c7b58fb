"""Records of documents: each holds the results of one accepted write, so that folding them needs neither rules nor a clock."""

from __future__ import annotations

from typing import Literal

import msgspec

from headwater.core.errors import Damaged
from headwater.wire import json

Method = Literal["put", "patch", "delete"]
IndexState = Literal["building", "ready", "failed", "deleting"]
EMPTY = msgspec.Raw(b"")


class SortField(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One field of an index's order. `field_type` never changes the order: items of another type are counted."""

    field_name: str
    order: Literal["asc", "desc"] = "asc"
    field_type: Literal["text", "decimal"] = "text"


class IndexDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An index of a collection. `number`: unique in its collection for good, so that rows of a dropped index are never taken for its
    successor's."""

    id: str
    number: int
    sort_by: tuple[SortField, ...] = ()
    filter_by: str = ""
    materialize: bool = False
    state: IndexState = "building"
    error: str = ""
    built: str = ""
    """While it is built: items up to this id have their rows."""
    rows: int = 0
    """How many rows the building has made."""
    unlike: int = 0
    """Of these, rows of items with a value of another type than `field_type`."""


class ResourceChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a document, an item or a whole collection: its event, and the state after it.

    `revision`: of the document or collection after it, gapless. An item's own revision is that of its last change.
    """

    method: Method
    revision: int
    item: str = ""
    event: msgspec.Raw = EMPTY
    """The body of the event, as published; empty for a delete."""
    body: msgspec.Raw = EMPTY
    """The state after a patch; empty where it is the event's body (put), or where nothing is left (delete)."""
    created: bool = False
    """Nothing was there before."""
    expires: int = 0
    """When it is deleted by itself, in ms; 0: never."""
    obsolete: dict[int, bytes] = {}
    """Rows of indexes that the change removes: the number of an index, and the key of the row."""

    @property
    def state(self) -> bytes:
        """The body after the change; empty where nothing is left."""
        return bytes(self.body) or bytes(self.event)


class Idempotency(msgspec.Struct, frozen=True, omit_defaults=True):
    """The key that a client gave to its request, a digest of the request, and the status of its answer."""

    key: str
    digest: str
    status: int


class ChangeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one accepted write did to one document or collection: one change, or several that count together.

    Its key in the log is `uri`; its time is the record's. A record may also set the definition of an index, a view or a schema of its
    collection; such a record has no change and takes no revision.
    """

    uri: str
    generation: int = 1
    """Counts the lives of a collection: items of an earlier one never return."""
    changes: tuple[ResourceChange, ...] = ()
    last_id: str = ""
    """The greatest id that was generated for the collection, where this write generated one."""
    idempotency: Idempotency | None = None
    index: IndexDefinition | None = None
    """The index as it is from here on."""
    dropped_index: int = 0
    """The number of an index whose rows are gone: its definition goes, too."""
    ended_indexes: tuple[int, ...] = ()
    """The numbers of indexes that are being deleted from here on, because their collection is deleted."""
    settings: msgspec.Raw = EMPTY
    """The settings of the collection from here on (view, schema), as JSON."""
    source: str = ""
    """Of a view: the position of the change that it mirrors."""


def encode_record(record: ChangeRecord) -> bytes:
    """The value of a record."""
    return json.encode(record)


_decode = msgspec.json.Decoder(ChangeRecord).decode


def decode_record(value: bytes | None, where: str) -> ChangeRecord:
    """The record of a value. `where`: topic, partition and offset, for the error. Errors: `Damaged`."""
    try:
        return _decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"{where} is no record of documents: {error}.", hint="See it with `headwater log show`.") from error
