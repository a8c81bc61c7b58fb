"""Records of a topic of journals as messages: one for each event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from headwater.adaptors.journal.adaptor import IDS
from headwater.adaptors.pieces import decoded_any
from headwater.core.errors import UnreadableRecord
from headwater.journal.append_rows import event_rows
from headwater.journal.change import EventRow
from headwater.journal.event import PayloadKind
from headwater.journal.followed import OpenEvent
from headwater.journal.metadata import EMPTY_COLUMN, read_metadata_column
from headwater.log.record import Record
from headwater.pipeline import values
from headwater.pipeline.message import DEFAULT_ID, Message, Mode
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.values import Decimals

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventMessages:
    """Makes the messages of records. `namespace`: of all of them; None: the id of each journal. `left_out` tells, by partition and offset,
    whether an unreadable record is quarantined. `opens`: decrypts an event; None for an erased one, which is left out. Its errors are told,
    and are no fault of a message."""

    def __init__(
        self,
        namespace: str | None,
        *,
        chosen: Namespaces,
        tags: Collection[str],
        decimals: Decimals,
        left_out: Callable[[int, int], bool],
        opens: OpenEvent,
    ) -> None:
        self._opens = opens
        self._namespace, self._chosen, self._tags = namespace, chosen, frozenset(tags)
        self._decimals, self._left_out = decimals, left_out

    def messages(self, partition: int, records: Sequence[Record]) -> tuple[list[Message], dict[int, str]]:
        """The messages, and why those that stand for an unreadable record cannot be read, by their index."""
        messages: list[Message] = []
        bad: dict[int, str] = {}
        for record in records:
            if record.key is None:
                continue
            try:
                rows = event_rows(record, partition)
            except UnreadableRecord as error:
                if not self._left_out(partition, record.offset or 0):
                    bad[len(messages)] = error.message
                    messages.append(self._unreadable(partition, record))
                continue
            id = record.key.decode(errors="backslashreplace")
            if self._namespace is None and id not in self._chosen:
                continue
            wanted = [self._opens(id, row) for row in rows if not self._tags or not self._tags.isdisjoint(row.tags)]
            for row in wanted:
                if row is not None:
                    message, wrong = self._message(id, row)
                    if wrong:
                        bad[len(messages)] = f"Event {row.seq_nr} of {id}: {wrong}"
                    messages.append(message)
        return messages, bad

    def _message(self, id: str, row: EventRow) -> tuple[Message, str]:
        """The message of an event, and why it cannot be read as `decimals` says; empty where it can."""
        payload, wrong = self._payload(row)
        data: dict[str, Any] = {"id": id, "seq_nr": row.seq_nr, "payload": payload, "tags": list(row.tags)}
        data |= {"timestamp": values.extended(_moment(row.timestamp)), "partition": row.partition, "offset": row.offset}
        metadata = header = None
        if row.metadata != EMPTY_COLUMN:
            both = read_metadata_column(row.metadata)
            texts = both.payload.data, both.header
            read = [(None, "") if text is None else decoded_any(text, self._decimals) for text in texts]
            (metadata, _), (header, _) = read
            wrong = next((why for why in (wrong, *(why for _, why in read)) if why), "")
        more = {
            "origin": row.origin, "version": row.version, "metadata": metadata, "header_metadata": header,
            "headers": dict(row.headers) or None,
        }  # fmt: skip
        data |= {name: value for name, value in more.items() if value is not None}
        if self._namespace is not None:
            return Message(self._namespace, data, timestamp=row.timestamp, mode=Mode.SYNC, id_fields=IDS), wrong
        return Message(id, {DEFAULT_ID[0]: row.seq_nr, **data}, timestamp=row.timestamp, mode=Mode.SYNC), wrong

    def _payload(self, row: EventRow) -> tuple[Any, str]:
        payload = row.payload
        if payload is None:
            return None, ""
        if payload.kind is PayloadKind.JSON:
            return decoded_any(payload.data, self._decimals)
        return payload.data.decode() if payload.kind is PayloadKind.TEXT else values.extended(payload.data), ""

    def _unreadable(self, partition: int, record: Record) -> Message:
        id = (record.key or b"").decode(errors="backslashreplace")
        data = {"id": id, "partition": partition, "offset": record.offset, "value": values.extended(record.value)}
        ids = IDS if self._namespace is not None else DEFAULT_ID
        return Message(self._namespace or id, data, timestamp=record.timestamp or 0, mode=Mode.SYNC, id_fields=ids)


def _moment(timestamp: int) -> Any:
    try:
        return _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:  # beyond the calendar
        return timestamp


def quarantined(records: Sequence[Record], generation: str) -> set[tuple[int, int]]:
    """The partition and offset of every record that the records of a control topic leave out."""
    from headwater.journal.control import Quarantine, Replay, decision_of

    places: set[tuple[int, int]] = set()
    for record in records:
        decision = decision_of(record)
        if isinstance(decision, Quarantine | Replay) and decision.generation == generation:
            place = decision.partition, decision.offset
            places = places | {place} if isinstance(decision, Quarantine) else places - {place}
    return places


def position_of(generation: str, at: dict[str, list[int]]) -> Any:
    """A position as JSON: as `TopicPartitionReader` has that of each partition."""
    return msgspec.to_builtins({"generation": generation, "at": at})
