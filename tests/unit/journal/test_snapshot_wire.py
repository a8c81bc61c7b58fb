from __future__ import annotations

import uuid

import msgspec
import pytest

from headwater.core.errors import UnreadableRecord
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.snapshot import Snapshot, SnapshotCriteria, SnapshotDeletion
from headwater.journal.snapshot_wire import HEADER, JournalLife, deletion_record, read_snapshot, save_record
from headwater.log.record import Record

LIFE = JournalLife("g1", uuid.UUID(int=7), 12)


def placed(record: Record, offset: int = 3) -> Record:
    return msgspec.structs.replace(record, offset=offset, timestamp=9)


@pytest.mark.parametrize(
    "payload", [Payload(PayloadKind.JSON, b"{}"), Payload(PayloadKind.TEXT, "ä".encode()), Payload(PayloadKind.BINARY, b"\xff")]
)
def test_a_save_is_read_as_it_was_written(payload: Payload) -> None:
    record = placed(save_record("alice", 5, payload, LIFE, ("host", "1.0")))
    assert record.key == b"alice"
    assert read_snapshot(record, "g1") == ("alice", Snapshot(5, 9, 3, 12, payload.kind, LIFE.record_id, "host", "1.0", payload))
    without = read_snapshot(msgspec.structs.replace(record, value=None), "g1", payload=False)
    assert without is not None
    assert without[1] == Snapshot(5, 9, 3, 12, payload.kind, LIFE.record_id, "host", "1.0")


def test_a_deletion_is_read_as_it_was_written() -> None:
    criteria = SnapshotCriteria(min_seq_nr=1, max_timestamp=8)
    record = placed(deletion_record("alice", criteria, JournalLife("g1", None, 4)))
    assert record.value is None
    assert read_snapshot(record, "g1") == ("alice", SnapshotDeletion(criteria, 3, 4, None))


def test_records_of_others_and_of_earlier_journals_are_passed_over() -> None:
    record = placed(save_record("alice", 5, Payload(PayloadKind.JSON, b"1"), LIFE))
    assert read_snapshot(record, "g2") is None
    for other in (
        msgspec.structs.replace(record, headers=()),
        msgspec.structs.replace(record, key=None),
        msgspec.structs.replace(record, timestamp=None),
    ):
        assert read_snapshot(other, "g1") is None


SAVE = b'{"kind":"save","journal":"g1","at":1,"seq_nr":1,"payload_type":"text"}'


@pytest.mark.parametrize(
    ("header", "value", "key"),
    [
        (b"{no json", b"x", b"a"),
        (b'{"kind":"other","journal":"g1","at":1}', b"x", b"a"),
        (SAVE.replace(b'"seq_nr":1', b'"seq_nr":0'), b"x", b"a"),
        (SAVE.replace(b'"at":1', b'"at":-1'), b"x", b"a"),
        (SAVE.replace(b'"text"', b'"xml"'), b"x", b"a"),
        (SAVE, None, b"a"),
        (SAVE, b"\xff", b"a"),
        (SAVE, b"x", b"\xff"),
        (None, b"x", b"a"),
    ],
)
def test_what_cannot_be_decoded_names_its_offset(header: bytes | None, value: bytes | None, key: bytes) -> None:
    with pytest.raises(UnreadableRecord, match="offset 3") as raised:
        read_snapshot(Record(key, value, ((HEADER, header),), 9, offset=3), "g1")
    assert raised.value.offset == 3
