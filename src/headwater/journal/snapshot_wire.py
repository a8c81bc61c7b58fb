"""Snapshots as records of the topic `snapshot-<topic>`.

The key is the journal's id. The header `headwater.snapshot` says, as JSON, what the record does; the value of a save is the payload as it
is, so whoever looks for snapshots reads no payload.

    kind      save, or delete
    journal   the generation of the journals' topic; records of another generation count for nothing
    life      the journal's record_id
    at        the end of the journal's partition when its life was looked up
"""

from __future__ import annotations

import uuid
from typing import Annotated, Literal

import msgspec

from headwater.core.errors import UnreadableRecord
from headwater.journal.event import KIND_NAMES, Payload, PayloadKind, SeqNr
from headwater.journal.names import key_of
from headwater.journal.snapshot import Snapshot, SnapshotAction, SnapshotCriteria, SnapshotDeletion
from headwater.journal.unreadable import at_offset, unreadable
from headwater.log.record import Header, Record

HEADER = "headwater.snapshot"
_KINDS = {name: kind for kind, name in KIND_NAMES.items()}
_Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Action(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    journal: str
    at: _Offset
    life: uuid.UUID | None = None
    origin: str | None = None
    version: str | None = None


class _Save(_Action, frozen=True, kw_only=True, tag="save"):
    seq_nr: SeqNr
    payload_type: Literal["binary", "json", "text"]


class _Delete(_Action, frozen=True, kw_only=True, tag="delete"):
    min_seq_nr: SeqNr | None = None
    max_seq_nr: SeqNr | None = None
    min_timestamp: _Offset | None = None
    max_timestamp: _Offset | None = None


_header = msgspec.json.Decoder(_Save | _Delete)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class JournalLife(msgspec.Struct, frozen=True):
    """The life of a journal that a snapshot belongs to, and where that was looked up."""

    generation: str
    record_id: uuid.UUID | None
    at: int


def save_record(
    id: str,
    seq_nr: int,
    payload: Payload,
    life: JournalLife,
    by: tuple[str | None, str | None] = (None, None),
    *,
    timestamp: int | None = None,
) -> Record:
    """The record that saves a snapshot."""
    header = _Save(
        journal=life.generation, at=life.at, life=life.record_id, origin=by[0], version=by[1], seq_nr=seq_nr,
        payload_type=KIND_NAMES[payload.kind],  # type: ignore[arg-type]
    )  # fmt: skip
    return Record(key_of(id), payload.data, ((HEADER, msgspec.json.encode(header)),), timestamp)


def deletion_record(
    id: str,
    criteria: SnapshotCriteria,
    life: JournalLife,
    by: tuple[str | None, str | None] = (None, None),
    *,
    timestamp: int | None = None,
) -> Record:
    """The record that deletes snapshots."""
    header = _Delete(
        journal=life.generation, at=life.at, life=life.record_id, origin=by[0], version=by[1],
        **msgspec.structs.asdict(criteria),
    )  # fmt: skip
    return Record(key_of(id), None, ((HEADER, msgspec.json.encode(header)),), timestamp)


def read_snapshot(record: Record, generation: str, *, payload: bool = True) -> tuple[str, SnapshotAction] | None:
    """The id and the action of a record; None: it is none of ours, or of another generation of the journals' topic.

    `payload`: False leaves it out, and takes a record whose value was not read. Passed over are records without key, timestamp or header.
    Errors: `UnreadableRecord`, with the offset.
    """
    header = header_of(record.headers)
    if header is None or record.key is None or record.timestamp is None or record.timestamp < 0:
        return None
    offset = -1 if record.offset is None else record.offset
    try:
        return _read(record, header, generation, offset, payload)
    except UnreadableRecord as error:
        raise at_offset(error, offset) from error


def header_of(headers: tuple[Header, ...] | list[Header]) -> bytes | None:
    """The header of a snapshot; None where there is none. Of several, the first counts."""
    return next((value or b"" for name, value in headers if name == HEADER), None)


def _read(record: Record, header: bytes, generation: str, offset: int, with_payload: bool) -> tuple[str, SnapshotAction] | None:
    assert record.key is not None
    assert record.timestamp is not None
    try:
        fields = _header.decode(header)
        id = record.key.decode()
    except _UNREADABLE as error:
        raise unreadable(f"Its header {HEADER} or its key cannot be decoded: {error}.") from error
    if fields.journal != generation:
        return None
    if isinstance(fields, _Delete):
        criteria = SnapshotCriteria(
            min_seq_nr=fields.min_seq_nr,
            max_seq_nr=fields.max_seq_nr,
            min_timestamp=fields.min_timestamp,
            max_timestamp=fields.max_timestamp,
        )
        return id, SnapshotDeletion(criteria, offset, fields.at, fields.life)
    kind = _KINDS[fields.payload_type]
    payload = _payload(kind, record.value) if with_payload else None
    return id, Snapshot(fields.seq_nr, record.timestamp, offset, fields.at, kind, fields.life, fields.origin, fields.version, payload)


def _payload(kind: PayloadKind, value: bytes | None) -> Payload:
    if value is None:
        raise unreadable("It saves a snapshot and has no value.")
    if kind is not PayloadKind.BINARY and not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError as error:
            raise unreadable(f"Its payload is no UTF-8: {error}.") from error
    return Payload(kind, value)
