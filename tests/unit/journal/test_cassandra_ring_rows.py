from __future__ import annotations

import uuid

import pytest
from tests.unit.journal.cassandra_tables import RecordingTables

from headwater.core.errors import Damaged
from headwater.journal.cassandra_ring_rows import purge_writes, slot_values, stored_ring
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.snapshot import Snapshot
from headwater.store import Row

LIFE = uuid.UUID(int=1)


def row(slot: int | None, seq_nr: int | None = 1, at: int = 4, kind: str = "json", time: int = 99) -> Row:
    return (8, slot, seq_nr, 5, 7, at, kind, LIFE, "host", "1.0", time, 2)


def test_a_ring_is_read_with_what_is_applied_and_when_it_was_written() -> None:
    ring, written, owner = stored_ring([row(0), row(3, 2)])
    assert (ring.applied, sorted(ring.slots), written, owner) == (8, [0, 3], {0: 99, 3: 99}, 2)
    assert ring.slots[3] == Snapshot(2, 5, 7, 4, PayloadKind.JSON, LIFE, "host", "1.0")
    empty, _, _ = stored_ring([row(None, None)])
    assert (empty.slots, empty.applied) == ({}, 8)
    assert stored_ring([]).ring.applied == -1
    with pytest.raises(Damaged, match="xml"):
        stored_ring([row(0, kind="xml")])


def test_a_slot_overwrites_every_column() -> None:
    one = Snapshot(2, 5, 7, 4, PayloadKind.BINARY, None, None, None, Payload(PayloadKind.BINARY, b"x"))
    assert slot_values("t", "a", 3, one, 50) == ("a", "t", 3, 2, 5, None, None, None, 7, 4, "binary", None, b"x", 50)


def test_a_purge_deletes_slots_at_the_time_of_their_write() -> None:
    tables = RecordingTables()
    tables.answers["ring", ("a", "t")] = [row(0, at=4, time=11), row(1, at=9, time=12)]
    assert list(purge_writes(tables, "t", {"a": 4, "b": 9})) == [("batch", ("delete_snapshot", 11, "a", "t", 0))]
