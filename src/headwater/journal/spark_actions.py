"""The records of a topic of journals as a table of Spark: `view=actions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.core.config import load
from headwater.core.errors import UnreadableRecord
from headwater.journal.action import Append, Delete, Mark
from headwater.journal.names import topic_of
from headwater.journal.settings import JOURNAL_SECTION
from headwater.journal.spark_cells import HEADERS, OPTIONS, TIME, columns
from headwater.journal.spark_part import EventChoice
from headwater.journal.topics import JournalTopics
from headwater.journal.wire import read_record
from headwater.log import Log
from headwater.log.layout import decode_headers
from headwater.log.record import Record
from headwater.spark.tables import SparkTable


class JournalActions(SparkTable):
    """Every record of the log: Appends, Deletes, Purges and Marks, and those that cannot be decoded."""

    schema = pa.schema(
        [
            pa.field("id", pa.string()),
            pa.field("action", pa.string(), nullable=False),
            pa.field("first", pa.int64()),
            pa.field("last", pa.int64()),
            pa.field("to", pa.int64()),
            pa.field("mark", pa.string()),
            pa.field("timestamp", TIME, nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("origin", pa.string()),
            pa.field("version", pa.string()),
            pa.field("header_metadata", pa.string()),
            pa.field("headers", HEADERS, nullable=False),
            pa.field("problem", pa.string(), nullable=False),
        ]
    )
    options = OPTIONS

    def __init__(self, name: str, choice: EventChoice) -> None:
        self._name, self._id = name, choice.id
        self.topic = topic_of(name, JOURNAL_SECTION.of(load().settings).prefixes)

    def check(self, log: Log) -> None:
        JournalTopics(log, JOURNAL_SECTION.of(load().settings)).find(self._name)

    def rows(self, partition: int, batch: pa.RecordBatch, wanted: Sequence[str]) -> Mapping[str, pa.Array]:
        cell_rows: list[dict[str, Any]] = []
        source_columns = (batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value", "headers"))
        for offset, timestamp, key, value, block in zip(*source_columns, strict=True):
            headers = () if block is None else tuple(decode_headers(block))
            if self._id is None or key == self._id.encode():
                cells = _action_cells(Record(key, value, headers, timestamp, offset=offset))
                if cells is not None:
                    cell_rows.append({**cells, "partition": partition, "offset": offset, "timestamp": timestamp})
        return columns(self.schema, cell_rows, wanted)


def _action_cells(record: Record) -> dict[str, Any] | None:
    """A record by the names of the columns; None for one that is no action, such as a claim on Kafka."""
    cells: dict[str, Any] = dict.fromkeys(JournalActions.schema.names)
    cells |= {"headers": (), "problem": ""}
    try:
        action_record = read_record(record)
    except UnreadableRecord as error:
        id = None if record.key is None else record.key.decode(errors="replace")
        return {**cells, "id": id, "action": "unreadable", "problem": error.message}
    if action_record is None:
        return None
    action = action_record.action
    cells |= {"id": action_record.id, "action": type(action).__name__.lower(), "headers": action_record.headers}
    cells |= {"origin": action.origin, "version": action.version}
    if isinstance(action, Append):
        cells |= {"first": action.first, "last": action.last}
        cells["header_metadata"] = None if action.metadata is None else action.metadata.decode()
    elif isinstance(action, Delete):
        cells["to"] = action.to
    elif isinstance(action, Mark):
        cells["mark"] = action.id
    return cells
