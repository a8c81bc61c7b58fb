"""A view of a partition into which journals have moved."""

from __future__ import annotations

import msgspec
from tests.unit.journal.cassandra_tables import RecordingTables

from headwater.journal.cassandra_grown_view import CassandraGrownView
from headwater.journal.cassandra_moved import FOLD, MovedFold, moved_topic
from headwater.journal.cassandra_view import HEAD_SEGMENTS
from headwater.journal.change import Pointer
from headwater.journal.head import EMPTY, HeadFold
from headwater.journal.store import head_segment
from headwater.store import Row

NEWER, FOLDS = moved_topic("t", 1), "headwater/fold/1/t"


def place(topic: str, id: str) -> tuple[str, int, str]:
    return topic, head_segment(id, HEAD_SEGMENTS), id


def head_row(partition: int, seq_nr: int) -> Row:
    return (partition, 5, 3, seq_nr, None, 0, 0, None, None, None, None, None)


def row(seq_nr: int, partition: int) -> Row:
    return (seq_nr, 0, partition, 5, None, None, None, None, None, None, None, None, None)


def ground() -> RecordingTables:
    """`old` moved here from partition 0, `own` was always here."""
    tables = RecordingTables()
    tables.answers[("head_segments", ())] = [("t", 1), (NEWER, 2), (FOLDS, 3)]
    tables.answers[("segment_ids", ("t", 1))] = [("old", 0), ("own", 1)]
    tables.answers[("segment_ids", (NEWER, 2))] = [("old", 1)]
    tables.answers[("segment_ids", (FOLDS, 3))] = [("old", 1), ("ahead", 1)]
    tables.answers[("head", place("t", "old"))] = [head_row(0, 2)]
    tables.answers[("head", place("t", "own"))] = [head_row(1, 1)]
    tables.answers[("head", place(NEWER, "old"))] = [head_row(1, 3)]
    tables.answers[("rows", ("old", NEWER, 0, 1, 3))] = [row(3, 1)]
    tables.answers[("rows", ("own", "t", 0, 1, 1))] = [row(1, 1)]
    for id, moved in (("old", MovedFold(HeadFold(seq_nr=3, offset=5))), ("ahead", MovedFold(HeadFold(seq_nr=1, offset=11), 10))):
        tables.answers[("fold", place(FOLDS, id))] = [({FOLD: msgspec.json.encode(moved).decode()},)]
    return tables


def view_of(tables: RecordingTables, *, clearing: bool = False) -> CassandraGrownView:
    return CassandraGrownView(tables, "t", 1, Pointer(10), clearing=clearing)


def test_journals_that_moved_here_are_shown_beside_the_others() -> None:
    view = view_of(ground())
    assert view.ids() == ["old", "own"]
    assert view.ids("old") == ["own"]
    assert [(id, head.seq_nr) for id, head in view.heads()] == [("old", 3), ("own", 1)]
    for id, numbers in (("old", [3]), ("own", [1])):
        head = view.head(id)
        assert head is not None
        assert [row.seq_nr for rows in view.rows(id, head, 1) for row in rows] == numbers
    assert view.head("none") is None


def test_folds_are_those_at_the_pointer() -> None:
    view = view_of(ground())
    assert view.moved("old").seq_nr == 3
    assert view.moved("ahead") == view.moved("own") == EMPTY
    assert [id for id, _ in view.all_moved()] == ["old"]


def test_a_copy_that_is_cleared_shows_nothing() -> None:
    view = view_of(ground(), clearing=True)
    assert (view.ids(), view.heads(), view.head("old"), view.moved("old"), view.all_moved()) == ([], [], None, EMPTY, [])
