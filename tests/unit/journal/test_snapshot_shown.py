from __future__ import annotations

import uuid
from decimal import Decimal

import msgspec
import pytest

from headwater.journal.answers import ShownSnapshot
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.snapshot import Snapshot
from headwater.journal.snapshot_shown import SnapshotRecord, show_snapshot, snapshot_record
from headwater.wire import json


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (Payload(PayloadKind.JSON, b'{"a": [1, null]}'), {"a": [1, None]}),
        (Payload(PayloadKind.JSON, b"1e400"), Decimal("1E+400")),
        (Payload(PayloadKind.TEXT, b"text"), "text"),
        (Payload(PayloadKind.BINARY, b"\xff\x00"), b"\xff\x00"),
        (None, None),
    ],
)
def test_a_snapshot_is_the_same_here_and_over_http(payload: Payload | None, value: object) -> None:
    kind = PayloadKind.JSON if payload is None else payload.kind
    shown = show_snapshot(Snapshot(3, 1000, 7, 9, kind, uuid.UUID(int=1), "host", "1.0", payload))
    expected = SnapshotRecord(3, value, 1000, "host", "1.0", str(uuid.UUID(int=1)))
    assert snapshot_record(shown) == expected
    if not isinstance(value, Decimal):
        assert snapshot_record(msgspec.json.decode(json.encode(shown), type=ShownSnapshot)) == expected
