"""The order in which a change is written to Cassandra, and with which times."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.journal.cassandra_tables import RecordingTables

from headwater.core.errors import Conflict, Damaged
from headwater.journal.cassandra_moved import moved_topic
from headwater.journal.cassandra_note import PartitionNote, decode_note, durable_key, encode_note, note_key
from headwater.journal.cassandra_partition import CassandraPartitionStore
from headwater.journal.cassandra_rows import BEFORE, before_of
from headwater.journal.cassandra_view import HEAD_SEGMENTS
from headwater.journal.change import PartitionChange
from headwater.journal.head import Head
from headwater.journal.places import places_of
from headwater.journal.store import head_segment
from headwater.testing.clock import ManualClock
from headwater.testing.journal_store_ground import History

KEY = note_key("t", 0)
SEGMENT = head_segment("a", HEAD_SEGMENTS)
BASE = 1_000_000


@pytest.fixture
def tables() -> RecordingTables:
    return RecordingTables()


def at(tables: RecordingTables, offset: int, *, base: int = BASE, begun: int = -1) -> None:
    """The partition stands at a pointer."""
    tables.answers[("pointer", ("t", 0))] = [(offset, 5, 6, 7)]
    tables.answers[("setting", (KEY,))] = [(encode_note(PartitionNote("g1", base, begun)),)]


def copy_of(tables: RecordingTables, clock: ManualClock | None = None) -> CassandraPartitionStore:
    return CassandraPartitionStore("t", 0, "g1", tables, clock=clock or ManualClock(), segment_size=3)


def head_at(seq_nr: int, delete_to: int) -> Head:
    return Head(partition=0, offset=1, segment_size=3, seq_nr=seq_nr, delete_to=delete_to, created=0, updated=0)


def stored_head(tables: RecordingTables, seq_nr: int, delete_to: int | None = None, *, properties: dict[str, str] | None = None) -> None:
    columns = (0, 1, 3, seq_nr, delete_to, 0, 0, None, None, None, None, properties)
    tables.answers[("head", ("t", SEGMENT, "a"))] = [columns]


def history(records: int) -> History:
    found = History("t")
    for _ in range(records):
        found.mark("x")
    return found


def test_append_writes_rows_then_the_head_then_the_pointer(tables: RecordingTables) -> None:
    at(tables, 1)
    records = history(2)
    records.append("a", 1, 2, 3, 4)
    assert copy_of(tables).apply(records.change(2))
    assert tables.steps() == [["set_note"], ["batch", "insert_row"], ["insert_head"], ["move_pointer"]]
    note, rows, head, pointer = tables.written
    assert note[0][-1] == BASE + 3
    assert decode_note(note[0][2]).begun == 3
    assert {row[-1] for row in (*rows[0][1:], rows[1])} == {BASE + 2}
    assert [row[3] for row in (*rows[0][1:], rows[1])] == [0, 0, 0, 1]  # segments of three
    assert head[0][-1] == BASE + 2
    assert pointer[0][1:3] == (BASE + 2, 2)


def test_delete_writes_the_head_then_the_rows_then_the_pointer(tables: RecordingTables) -> None:
    at(tables, 1)
    stored_head(tables, 9, 1)
    records = history(2)
    records.delete("a", 7)
    assert copy_of(tables).apply(records.change(2))
    assert tables.steps() == [["set_note"], ["insert_head"], ["delete_segment"] * 2 + ["delete_rows"], ["move_pointer"]]
    assert tables.written[2] == [
        ("delete_segment", BASE + 2, "a", "t", 0),
        ("delete_segment", BASE + 2, "a", "t", 1),
        ("delete_rows", BASE + 2, "a", "t", 2, 7),
    ]


def test_purge_hides_then_removes_segments_then_the_head(tables: RecordingTables) -> None:
    at(tables, 1)
    stored_head(tables, 7, 4)
    records = history(2)
    records.purge("a")
    assert copy_of(tables).apply(records.change(2))
    assert tables.steps() == [["set_note"], ["intend_purge"], ["delete_segment"] * 4, ["delete_head"], ["move_pointer"]]
    [[name, time, delete_to, seq_nr, key, before, *place]] = tables.written[1]
    assert (name, time, delete_to, seq_nr, key, place) == ("intend_purge", BASE + 2, 7, 7, BEFORE, ["t", SEGMENT, "a"])
    assert before == before_of(1, head_at(7, 4))
    assert [write[4] for write in tables.written[2]] == [0, 1, 2, 3]  # one more on either side
    assert tables.written[3] == [("delete_head", BASE + 2, "t", SEGMENT, "a")]


def test_a_purge_whose_process_died_removes_every_segment(tables: RecordingTables) -> None:
    at(tables, 1, begun=3)
    stored_head(tables, 16, 16, properties={BEFORE: before_of(1, head_at(16, 4))})
    records = history(2)
    records.purge("a")
    assert copy_of(tables).apply(records.change(2))
    assert tables.written[1][0][5] == before_of(1, head_at(16, 4))  # the same again
    assert [write[4] for write in tables.written[2]] == [0, 1, 2, 3, 4, 5, 6]


def test_a_life_that_begins_anew_is_written_behind_the_purge(tables: RecordingTables) -> None:
    at(tables, 1)
    stored_head(tables, 2)
    records = history(2)
    records.purge("a")
    records.append("a", 1)
    assert copy_of(tables).apply(records.change(2))
    assert tables.steps() == [["set_note"], ["intend_purge"], ["delete_segment"] * 2, ["insert_row"], ["insert_head"], ["move_pointer"]]
    assert {write[1] for write in tables.written[2]} == {BASE + 2}
    assert tables.written[3][0][-1] == tables.written[4][0][-1] == BASE + 3


def test_a_head_whose_delete_to_is_above_its_number_is_purged_there(tables: RecordingTables) -> None:
    at(tables, 1)
    stored_head(tables, 300, 400)
    records = history(2)
    records.purge("a")
    copy_of(tables).apply(records.change(2))
    assert tables.written[1][0][2:4] == (400, 400)
    assert [write[4] for write in tables.written[2]] == [132, 133, 134]


def test_marks_alone_write_the_pointer_alone(tables: RecordingTables) -> None:
    at(tables, 1)
    assert copy_of(tables).apply(history(3).change(2))
    assert tables.steps() == [["move_pointer"]]


def test_a_journal_that_is_not_there_costs_no_write(tables: RecordingTables) -> None:
    at(tables, 1)
    records = history(2)
    records.delete("a", 7)
    copy_of(tables).apply(records.change(2))
    assert tables.steps() == [["set_note"], ["move_pointer"]]


def test_the_first_takeover_notes_when_it_was(tables: RecordingTables) -> None:
    clock = ManualClock()
    now = clock.now_ms() * 1000
    tables.answers[("pointer", ("t", 0))] = [(899, 5, 6, now - 10_000_000)]
    assert copy_of(tables, clock).apply(PartitionChange("t", 0, "g1", 900, 905, epoch=2))
    [[note], [pointer]] = tables.written
    noted = decode_note(note[2])
    assert (noted.generation, noted.base, noted.epoch(904), noted.epoch(899)) == ("g1", now - 900, 2, 0)
    assert pointer[1] == now + 4


def test_a_clock_behind_that_of_the_earlier_writer_does_not_lose_writes(tables: RecordingTables) -> None:
    clock = ManualClock()
    written = clock.now_ms() * 1000 + 60_000_000
    tables.answers[("pointer", ("t", 0))] = [(9, 5, 6, written)]
    copy_of(tables, clock).apply(PartitionChange("t", 0, "g1", 10, 11))
    assert tables.written[-1][0][1] > written


def test_a_range_that_was_begun_is_finished_by_one_that_ends_there(tables: RecordingTables) -> None:
    at(tables, 1, begun=6)
    copy = copy_of(tables)
    assert copy.pointer().begun == 6
    for end in (5, 7):
        with pytest.raises(Conflict, match=r"up to offset 5 was begun") as refused:
            copy.apply(PartitionChange("t", 0, "g1", 2, end))
        assert "from 2 to 6" in refused.value.hint
    assert tables.written == []
    assert copy.apply(PartitionChange("t", 0, "g1", 2, 6))


def test_only_numbers_that_may_be_there_are_looked_for(tables: RecordingTables) -> None:
    at(tables, 1)
    stored_head(tables, 4)
    records = history(2)
    records.append("a", 3, 4, 5, timestamp=50)
    records.append("a", 6, timestamp=50)
    taken = ("row_keys", ("a", "t", 1, 3, 4))
    tables.answers[taken] = [(4, 50, 0, 1, None), (4, 49, 0, 1, None)]
    copy_of(tables).apply(records.change(2))
    assert [values[3] for values in tables.asked if values[0] == "row_keys"] == [0, 1]
    rows = [row for write in tables.written[1] for row in (write[1:] if write[0] == "batch" else [write])]
    assert sorted(row[4:6] for row in rows) == [(3, 50), (4, 51), (5, 50), (6, 50)]  # 4 has a row of that time


def test_large_batches_are_cut(tables: RecordingTables) -> None:
    at(tables, 1)
    records = history(2)
    records.append("a", *range(1, 4), payload=b'"%s"' % (b"x" * 40_000))
    copy_of(tables).apply(records.change(2))
    assert tables.steps()[1] == ["batch", "insert_row"]
    tables.written.clear()
    copy = CassandraPartitionStore("t", 0, "g1", tables, clock=ManualClock(), segment_size=1000)
    many = history(2)
    many.append("a", *range(1, 251))
    copy.apply(many.change(2))
    assert [len(batch) - 1 for batch in tables.written[1]] == [100, 100, 50]


def test_a_damaged_note_is_named(tables: RecordingTables) -> None:
    tables.answers[("setting", (KEY,))] = [("{",)]
    with pytest.raises(Damaged, match="t/0"):
        copy_of(tables).pointer()


def test_a_journal_that_moved_here_is_written_under_a_name_of_its_own(tables: RecordingTables) -> None:
    counts = (2, 4)
    id = next(name for name in map(str, range(100)) if places_of(name.encode(), counts) == (0, 2))
    stays = next(name for name in map(str, range(100)) if places_of(name.encode(), counts) == (1,))
    tables.answers[("pointer", ("t", 2))] = [(1, 5, 6, 7)]
    tables.answers[("setting", (note_key("t", 2),))] = [(encode_note(PartitionNote("g1", BASE)),)]
    records = History("t", 2)
    records.mark("x")
    records.mark("x")
    records.append(id, 3)
    records.append(stays, 1)
    copy = CassandraPartitionStore("t", 2, "g1", tables, clock=ManualClock(), segment_size=3)
    assert copy.apply(msgspec.structs.replace(records.change(2), counts=counts))
    assert decode_note(tables.written[0][0][2]).moved
    inserted = {(write[1], write[3]) for step in tables.written for write in step if write[0] == "insert_head"}
    assert (moved_topic("t", 2), id) in inserted
    assert ("t", id) not in inserted
    assert ("t", stays) in inserted
    assert [write[3] for step in tables.written for write in step if write[0] == "set_fold"] == [id]


def test_what_nodes_have_acknowledged_is_durable_one_turn_later(tables: RecordingTables) -> None:
    clock = ManualClock(wakes=False)
    copy = copy_of(tables, clock)
    assert copy.checkpoint().offset == -1
    key = durable_key("t", 0)

    def kept() -> None:
        [(_, _, value, _, _)] = [asked for asked in tables.asked[-1:] if asked[:2] == ("set_setting", key)]
        tables.answers[("setting", (key,))] = [(value,)]

    at(tables, 5)
    assert copy.checkpoint().offset == -1
    kept()
    at(tables, 9)
    clock.advance(59)
    assert copy.checkpoint().offset == -1
    clock.advance(1)
    assert copy.checkpoint().offset == 5
    kept()
    clock.advance(60)
    assert copy.checkpoint().offset == 9
    tables.answers[("setting", (key,))] = [("{",)]
    assert copy.checkpoint().offset == -1
