"""Pipelines as tables of Spark: `pipeline:NAME`, the messages of the pipeline's log as its sinks get them, before transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from headwater.core.clock import SystemClock
from headwater.core.errors import BadInput, Conflict, NotFound, UnknownPipeline
from headwater.log import Log
from headwater.log.layout import decode_headers
from headwater.pipeline import values
from headwater.pipeline.message import DEFAULT_ID, Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.running.record_batch import counts
from headwater.pipeline.running.work import IDS, UNREADABLE
from headwater.spark.batches import pieces
from headwater.spark.tables import PlannedTable

OPTIONS = {
    "namespace": "only messages of the namespaces that this regular expression matches",
    "startingOffset": "the first offset",
    "endingOffset": "the offset before which the messages end",
}
_TIME = pa.timestamp("ms", "UTC")
_SCAN = 16_384  # records of one batch
_OPS = {int(op): op.name.lower() for op in Op}
_MODES = {int(mode): mode.name.lower() for mode in Mode}
_ids = msgspec.json.Decoder(tuple[str, ...])


class LogPart(msgspec.Struct, frozen=True):
    """What one task reads: [start, end) of the messages of a log, and what is known of them. `generation`: of the topic."""

    start: int
    end: int
    generation: str
    ids: dict[str, tuple[str, ...]]
    claims: tuple[tuple[int, int], ...]
    lent: tuple[tuple[int, int], ...]


class PipelineTable(PlannedTable):
    """The messages of a pipeline that its log has when the read is planned, in the order of the log."""

    schema = pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("op", pa.string(), nullable=False),
            pa.field("namespace", pa.string(), nullable=False),
            pa.field("id", pa.string()),
            pa.field("data", pa.string()),
            pa.field("phase", pa.string(), nullable=False),
            pa.field("unreadable", pa.string()),
        ]
    )
    options = OPTIONS
    unstreamed = "which records of it count is known when a read is planned"

    def __init__(self, pipeline: str, *, namespaces: str = ".*", start: int = 0, end: int | None = None) -> None:
        self._pipeline, self._chosen, self._start, self._end = pipeline, Namespaces(namespaces), start, end
        self.instead = f"Use read instead of readStream, or stream the records: topic:{log_topic(pipeline)}."

    def check(self, log: Log) -> None:
        try:
            log.topic(log_topic(self._pipeline))
        except NotFound:
            raise UnknownPipeline(f"There is no pipeline {self._pipeline} here.", hint="See `headwater pipeline list`.") from None

    def plan(self, log: Log, split: int) -> list[LogPart]:
        topic = log_topic(self._pipeline)
        control = Control(log, self._pipeline, SystemClock())
        control.refresh()
        state, bounds = control.state, log.bounds(topic, 0)
        start, end = max(bounds.start, self._start), bounds.end if self._end is None else min(bounds.end, self._end)
        known = (
            log.topic(topic).generation,
            state.ids,
            state.run.claims if state.run is not None else (),
            state.reader.lent if state.reader is not None else (),
        )
        return [LogPart(at, min(end, at + split), *known) for at in range(start, end, split)]

    def rows(self, log: Log, part: LogPart, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        topic = log_topic(self._pipeline)
        if log.topic(topic).generation != part.generation:
            raise Conflict(f"The log of {self._pipeline} was deleted and made anew since the read was planned.", hint="Read it again.")
        for batch in log.scan(topic, 0, part.start, part.end, batch=_SCAN):
            for some in pieces(batch):
                rows = list(self._rows(some, part))
                yield {name: pa.array([_CELLS[name](row) for row in rows], _types[name]) for name in wanted}

    def _rows(self, batch: pa.RecordBatch, part: LogPart) -> Iterator[_Row]:
        names = "offset", "timestamp", "key", "value", "headers", "mode", "op"
        for offset, timestamp, key, value, block, mode, op in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
            namespace = None if key is None else bytes(key).decode()
            if namespace is None or mode == Mode.COMPLETE or op >= Op.NOOP or namespace not in self._chosen:
                continue  # no message: an owner's claim, or what a source says of its reading
            marked = dict(decode_headers(block)) if block else {}
            if marked and not counts(marked, offset, part.claims, part.lent):
                continue
            ids = _ids.decode(marked[IDS] or b"[]") if IDS in marked else part.ids.get(namespace, DEFAULT_ID)
            yield _Row(offset, timestamp, namespace, value or b"", mode, op, ids, marked.get(UNREADABLE))


class _Row(msgspec.Struct):
    """A record that is a message."""

    offset: int
    timestamp: int
    namespace: str
    value: bytes
    mode: int
    op: int
    ids: tuple[str, ...]
    wrong: bytes | None

    def id(self) -> str | None:
        """The message's id: text as it is, all else as JSON."""
        try:
            document_id = Message(self.namespace, values.decode(self.value), id_fields=self.ids).id
        except BadInput:
            return None
        return document_id if document_id is None or isinstance(document_id, str) else values.encode(document_id).decode()

    def data(self) -> str:
        """The document as JSON text with plain numbers; what is no JSON as the text that it is."""
        try:
            return values.encode(values.decode(self.value)).decode() if values.MARK in self.value else self.value.decode()
        except (BadInput, UnicodeDecodeError):
            return self.value.decode("utf-8", "backslashreplace")


_types = {field.name: _TIME if field.name == "timestamp" else field.type for field in PipelineTable.schema}
_CELLS: dict[str, Callable[[_Row], Any]] = {
    "offset": lambda row: row.offset,
    "timestamp": lambda row: row.timestamp,
    "op": lambda row: _OPS.get(row.op, str(row.op)),
    "namespace": lambda row: row.namespace,
    "id": _Row.id,
    "data": _Row.data,
    "phase": lambda row: _MODES.get(row.mode, str(row.mode)),
    "unreadable": lambda row: None if row.wrong is None else row.wrong.decode(),
}


def pipeline_table(name: str, options: Mapping[str, str]) -> PipelineTable:
    """The table of `pipeline:name`. Errors: `BadInput`."""
    folded = {option.lower(): value for option, value in options.items()}
    return PipelineTable(
        name,
        namespaces=folded.get("namespace", ".*"),
        start=_offset(folded, "startingOffset") or 0,
        end=_offset(folded, "endingOffset"),
    )


def _offset(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise BadInput(f"{name}={text!r} is no offset.", hint="Give a number, such as 0.")
    return int(text)
