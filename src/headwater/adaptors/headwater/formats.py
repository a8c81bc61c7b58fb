"""Records as messages, and messages as records.

Formats of our own are `json`, `bytes` and `message`. Every part that registers a table for `spark.read.format("headwater")`, under the
entry point group `headwater.spark.tables`, registers a format of its scheme's name with it: rows of the table `SCHEME:TOPIC` are documents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.adaptors.converting_writer import identity_of, key_of
from headwater.adaptors.pieces import decoded
from headwater.core.errors import BadConfig, BadInput, HeadwaterError
from headwater.log.layout import encode_headers
from headwater.log.record import Header, Record
from headwater.pipeline import values
from headwater.pipeline.message import Message, Mode, Op, identified
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.running.work import PROGRESS, UNREADABLE, CopyProgress
from headwater.pipeline.values import Decimals

if TYPE_CHECKING:
    from headwater.spark.tables import SparkTable

FORMATS = ("json", "bytes", "message")
TABLES = "headwater.spark.tables"  # the entry point group; its module is not imported for the name, because it loads numpy and Arrow
SENT = "pipeline"  # the header that a sink of a pipeline gives each record: who sent it
NAMESPACE, OFFSET, DATA = "namespace", "offset", "data"  # the other headers of such a record
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def known() -> list[str]:
    """The formats that a source knows."""
    return [*FORMATS, *sorted(entry_points(group=TABLES).names)]


class Decoder(ABC):
    """Decodes the records of one topic."""

    topic: str

    def __init__(self, topic: str, ids: tuple[str, ...]) -> None:
        self.topic, self._ids = topic, ids

    def messages(self, partition: int, records: Sequence[Record]) -> tuple[list[Message], dict[int, str]]:
        """The messages, and by index the errors of those that become poison records."""
        messages: list[Message] = []
        bad: dict[int, str] = {}
        for record in records:
            for message, wrong in self.decode(partition, record):
                if wrong:
                    bad[len(messages)] = f"Offset {record.offset} of {self.topic}, partition {partition}: {wrong}"
                messages.append(message)
        return messages, bad

    @abstractmethod
    def decode(self, partition: int, record: Record) -> Iterable[tuple[Message, str]]:
        """The messages of one record, each with its error, which may be empty."""


class JsonDecoder(Decoder):
    """A value is a document; a null value deletes the document whose id is the key."""

    def __init__(self, topic: str, ids: tuple[str, ...], decimals: Decimals = "decimal") -> None:
        super().__init__(topic, ids)
        self._decimals = decimals

    def decode(self, partition: int, record: Record) -> Iterable[tuple[Message, str]]:
        headers = dict(record.headers) if record.headers else {}
        op, wrong = Op.INSERT, ""
        if record.value is None:
            op, data = Op.DELETE, identified(record.key, headers.get(DATA), self._ids)
            wrong = "" if data else "It has neither a value nor a key that is an id."
        else:
            if record.op == Op.UPDATE and SENT in headers:  # other producers may use the number for something else
                op = Op.UPDATE
            data, wrong = decoded(record.value, decimals=self._decimals)
            if not wrong and record.key is not None and not any(name in data for name in self._ids):
                for name, value in identified(record.key, None, self._ids).items():
                    data.setdefault(name, value)  # a key of several fields may contradict one that the value has
        yield Message(self.topic, data, op, record.timestamp or 0, Mode.SYNC, id_fields=self._ids), wrong


class BytesDecoder(Decoder):
    """The record itself as a document, the same as a row of Spark's table `topic:NAME`."""

    def decode(self, partition: int, record: Record) -> Iterable[tuple[Message, str]]:
        timestamp = record.timestamp or 0
        moment: Any = timestamp
        with suppress(OverflowError):  # beyond the calendar
            moment = _EPOCH + timedelta(milliseconds=timestamp)
        data = {
            "partition": partition,
            "offset": record.offset,
            "timestamp": moment,
            "key": record.key,
            "value": record.value,
            "headers": [{"name": name, "value": value} for name, value in record.headers],
            "mode": record.mode,
            "op": record.op,
        }
        yield Message(self.topic, values.extended(data), Op.INSERT, timestamp, Mode.SYNC, id_fields=self._ids), ""


class MessageDecoder(Decoder):
    """The messages of another pipeline's log, as its source gave them."""

    def __init__(self, topic: str, by_namespace: dict[str, tuple[str, ...]], chosen: Namespaces, generation: str) -> None:
        super().__init__(topic, ("_id",))
        self._by_namespace, self._chosen, self._generation = by_namespace, chosen, generation

    def decode(self, partition: int, record: Record) -> Iterable[tuple[Message, str]]:
        headers = dict(record.headers) if record.headers else {}
        self._refuse_circle(headers.get(PROGRESS))
        if record.mode == Mode.COMPLETE or record.op >= Op.NOOP:
            return
        namespace = (record.key or b"").decode("utf-8", "backslashreplace")
        if namespace not in self._chosen:
            return
        reason = headers.get(UNREADABLE)
        data, wrong = decoded(record.value or b"")
        if reason is not None:
            wrong = reason.decode("utf-8", "backslashreplace")
        ids = self._by_namespace.get(namespace, self._ids)
        yield Message(namespace, data, Op(record.op), record.timestamp or 0, Mode.SYNC, id_fields=ids), wrong

    def _refuse_circle(self, progress: bytes | None) -> None:
        """Errors: `BadConfig` where the record's progress names this topic: its pipeline reads what it writes."""
        if progress is None:
            return
        position = msgspec.json.decode(progress, type=CopyProgress).position
        if isinstance(position, dict) and position.get("generation") == self._generation:
            raise BadConfig(f"{self.topic} is the log of a pipeline that reads it: it would never end.", hint="Read another topic.")


class TableDecoder(Decoder):
    """The rows of a table that a part has registered."""

    def __init__(self, table: SparkTable, name: str, ids: tuple[str, ...]) -> None:
        super().__init__(table.topic, ids)
        self._table, self._name = table, name

    def messages(self, partition: int, records: Sequence[Record]) -> tuple[list[Message], dict[int, str]]:
        try:
            return [self._message(row) for row in self._rows(partition, records)], {}
        except Exception:  # one record is unreadable: decode one at a time to find it
            return super().messages(partition, records)

    def decode(self, partition: int, record: Record) -> Iterable[tuple[Message, str]]:
        try:
            return [(self._message(row), "") for row in self._rows(partition, [record])]
        except Exception as error:  # raised by a part's code
            why = error.message if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}"
            text = (record.value or b"").decode("utf-8", "backslashreplace")
            return [(self._message({"value": text}), why)]

    def _message(self, row: dict[str, Any]) -> Message:
        return Message(self._name, values.extended(row), Op.INSERT, 0, Mode.SYNC, id_fields=self._ids)

    def _rows(self, partition: int, records: Sequence[Record]) -> list[dict[str, Any]]:
        import pyarrow as pa

        from headwater.log.arrow import SCHEMA

        plain = [msgspec.structs.asdict(record) for record in records]
        for row, record in zip(plain, records, strict=True):
            row["headers"] = encode_headers(record.headers) if record.headers else None
            row["timestamp"] = record.timestamp or 0
        columns = [pa.array([row[field.name] for row in plain], field.type) for field in SCHEMA]
        table = self._table.rows(partition, pa.RecordBatch.from_arrays(columns, schema=SCHEMA), self._table.schema.names)
        fields = [(field.name, table[field.name].cast(field.type).to_pylist()) for field in self._table.schema]
        names = [name for name, _ in fields]
        return [dict(zip(names, row, strict=True)) for row in zip(*(column for _, column in fields), strict=True)]


def topic_of(format: str, topic: str) -> str:
    """The topic to read: the named one, or the topic of a part's table."""
    return topic if format in FORMATS else table_of(format, topic).topic


def table_of(format: str, topic: str) -> SparkTable:
    """The registered table of a format. Errors: `BadConfig` for an unknown format."""
    if format not in entry_points(group=TABLES).names:
        raise BadConfig(f"headwater() knows no format {format!r}.", hint=f"Use one of {', '.join(known())}.")
    from headwater.spark.tables import find_table

    return find_table(f"{format}:{topic}", {})


# -- writing ------------------------------------------------------------------------------------------------


def as_json(message: Message, sender: str) -> Record:
    """The record of a document. Errors: `BadInput`."""
    identity = identity_of(message, "A topic", needed=(Op.DELETE,))
    headers: list[Header] = [(SENT, sender.encode()), (NAMESPACE, message.namespace.encode()), (OFFSET, b"%d" % message.offset)]
    value: bytes | None = values.encode(message.data)
    if message.op is Op.DELETE:
        headers.append((DATA, values.encode({name: message.data[name] for name in message.id_fields})))
        value = None
    return Record(key_of(identity), value, tuple(headers), message.timestamp or None, op=int(message.op))


def as_bytes(message: Message) -> Record:
    """The record that a document of the format `bytes` describes. Errors: `BadInput`."""
    data = message.data
    if message.op not in (Op.INSERT, Op.UPDATE) or "value" not in data:
        raise BadInput(
            "The document is no record: it lacks a value.", hint='format="bytes" writes what it has read: key, value and headers.'
        )
    headers = data.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(header, dict) and isinstance(header.get("name"), str) for header in headers):
        raise BadInput("The record's headers are no list of names and values.", hint='Write them as [{"name": ..., "value": ...}].')
    return Record(
        _raw(data.get("key"), "key"),
        _raw(data["value"], "value"),
        tuple((header["name"], _raw(header.get("value"), "header")) for header in headers),
        _stamp(data.get("timestamp")),
        _small(data.get("mode"), 3),
        _small(data.get("op"), 7),
    )


def _raw(value: Any, field: str) -> bytes | None:
    native = values.native(value)
    if native is None or isinstance(native, bytes):
        return native
    if isinstance(native, str):
        return native.encode()
    raise BadInput(f"The record's {field} is neither bytes nor text.", hint='Write bytes as {"$binary": {"base64": ...}}.')


def _stamp(value: Any) -> int | None:
    native = values.native(value)
    if isinstance(native, datetime):
        return (native - _EPOCH) // timedelta(milliseconds=1)
    return native if isinstance(native, int) and not isinstance(native, bool) else None


def _small(value: Any, most: int) -> int:
    return value if isinstance(value, int) and 0 <= value <= most else 0
