"""Cells of Spark tables."""

from __future__ import annotations

import pyarrow as pa

from headwater.journal.change import EventRow
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.head import Head
from headwater.journal.spark_cells import TIME, columns, event_cells, head_cells


def test_an_event_and_a_head_by_their_columns() -> None:
    row = EventRow(
        seq_nr=3, timestamp=7, partition=1, offset=9, tags=("a",), metadata='{"header":{"data":{"h":1}},"payload":{"data":{"by":"me"}}}',
        payload=Payload(PayloadKind.TEXT, b"x"), headers=(("k", "v"),),
    )  # fmt: skip
    cells = event_cells("id", row)
    assert (cells["id"], cells["seq_nr"], cells["payload"], cells["payload_type"]) == ("id", 3, b"x", "text")
    assert event_cells("id", EventRow(1, 0, 0, 0))["payload_type"] is None
    head = Head(partition=1, offset=5, segment_size=3, seq_nr=2, delete_to=4, created=0, updated=0)
    assert (head_cells("id", head)["seq_nr"], head_cells("id", head)["delete_to"], head_cells("id", head)["record_id"]) == (4, 4, None)


def test_times_are_milliseconds() -> None:
    schema = pa.schema([pa.field("at", TIME), pa.field("n", pa.int64())])
    made = columns(schema, [{"at": 1500, "n": 1}], ["at"])
    assert list(made) == ["at"]
    assert made["at"][0].as_py().timestamp() == 1.5
