"""What a view of a partition in Cassandra makes of rows and heads that changes overtake."""

from __future__ import annotations

import uuid

import pytest
from tests.unit.journal.cassandra_tables import RecordingTables

from headwater.core.errors import Conflict
from headwater.journal.cassandra_rows import BEFORE, before_of
from headwater.journal.cassandra_view import HEAD_SEGMENTS, OLDER_HEAD_SEGMENTS, CassandraPartitionView
from headwater.journal.change import Pointer
from headwater.journal.head import Head
from headwater.journal.store import head_segment
from headwater.store import Row

LIFE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
SEGMENT = head_segment("a", HEAD_SEGMENTS)


def head_row(
    offset: int, seq_nr: int, delete_to: int | None = None, *, before: str = "", partition: int = 0, life: uuid.UUID | None = LIFE
) -> Row:
    properties = {BEFORE: before} if before else None
    return (partition, offset, 3, seq_nr, delete_to, 0, 0, None, None, life, None, properties)


def row(seq_nr: int, offset: int, *, timestamp: int = 0, partition: int = 0, life: uuid.UUID | None = LIFE) -> Row:
    return (seq_nr, timestamp, partition, offset, None, None, life, None, None, None, None, None, None)


def view_of(tables: RecordingTables, offset: int = 10, *, begun: int = -1, clearing: bool = False) -> CassandraPartitionView:
    return CassandraPartitionView(tables, "t", 0, Pointer(offset, begun=begun), clearing=clearing)


def stored(tables: RecordingTables, columns: Row | None) -> None:
    tables.answers[("head", ("t", SEGMENT, "a"))] = [] if columns is None else [columns]


def numbers(view: CassandraPartitionView, head: Head, start: int = 1) -> list[tuple[int, int]]:
    return [(row.seq_nr, row.offset) for rows in view.rows("a", head, start) for row in rows]


def test_older_heads_are_looked_for_where_there_may_be_some() -> None:
    tables = RecordingTables(older=True)
    newer, older = head_segment("journal ID", HEAD_SEGMENTS), head_segment("journal ID", OLDER_HEAD_SEGMENTS)
    assert (newer, older) == (5668, 68)
    tables.answers[("head", ("t", older, "journal ID"))] = [head_row(5, 1)]
    assert view_of(tables).head("journal ID") is not None
    assert tables.asked == [("head", "t", newer, "journal ID"), ("head", "t", older, "journal ID")]
    tables.older = False
    assert view_of(tables).head("journal ID") is None


def test_heads_of_other_partitions_and_of_a_copy_that_is_cleared_do_not_count() -> None:
    tables = RecordingTables()
    stored(tables, head_row(5, 1, partition=1))
    assert view_of(tables).head("a") is None
    stored(tables, head_row(5, 1))
    assert view_of(tables).head("a") is not None
    assert view_of(tables, clearing=True).head("a") is None
    tables.answers[("head_segments", ())] = [("t", SEGMENT), ("other", 4)]
    tables.answers[("segment_ids", ("t", SEGMENT))] = [("a", 0), ("b", 1)]
    assert view_of(tables).ids() == ["a"]
    assert view_of(tables, clearing=True).ids() == []


def test_rows_behind_the_pointer_and_of_other_lives_are_left_out() -> None:
    tables = RecordingTables()
    stored(tables, head_row(12, 4, before=before_of(10, Head(0, 9, 3, 3, None, 0, 0, record_id=LIFE))))
    view = view_of(tables, begun=15)
    head = view.head("a")
    assert head is not None
    assert (head.seq_nr, head.offset) == (3, 9)
    tables.answers[("rows", ("a", "t", 0, 1, 3))] = [
        row(1, 8, timestamp=2),
        row(2, 11, timestamp=1),
        row(2, 9, timestamp=2),
        row(2, 90, timestamp=3, partition=5),
        row(3, 9, life=OTHER),
        row(3, 9, life=None),
    ]
    assert numbers(view, head) == [(1, 8), (2, 90), (2, 9)]


def test_rows_of_one_number_are_ordered_over_pages() -> None:
    tables = RecordingTables()
    stored(tables, head_row(9, 3))
    view = view_of(tables)
    head = view.head("a")
    assert head is not None
    pages = [[row(1, 1), row(2, 7, timestamp=1)], [row(2, 3, timestamp=2), row(3, 8)], [row(3, 4)]]
    view._tables.requests.pages = lambda statement, values: iter(pages)  # type: ignore[method-assign]
    assert numbers(view, head) == [(1, 1), (2, 3), (2, 7), (3, 4), (3, 8)]


def test_every_segment_up_to_the_last_number_is_asked() -> None:
    tables = RecordingTables()
    stored(tables, head_row(9, 301, 4))
    view = view_of(tables)
    head = view.head("a")
    assert head is not None
    tables.answers[("rows", ("a", "t", 1, 5, 301))] = [row(5, 1)]
    tables.answers[("rows", ("a", "t", 100, 5, 301))] = [row(301, 2)]
    assert numbers(view, head) == [(5, 1), (301, 2)]
    assert [values[3] for values in tables.asked if values[0] == "rows"] == list(range(1, 101))


@pytest.mark.parametrize(
    ("now", "begun", "told"),
    [
        (head_row(9, 3), -1, False),
        (head_row(11, 5), -1, False),  # appended to
        (head_row(11, 3, 2), -1, True),
        (head_row(11, 3, 2), 12, False),  # the reader reads the log up to there, and finds the Delete
        (head_row(12, 3, 2), 12, True),
        (head_row(11, 1, life=OTHER), -1, True),
        (None, -1, True),
    ],
)
def test_a_read_that_a_delete_or_purge_overtakes_says_so(now: Row | None, begun: int, told: bool) -> None:
    tables = RecordingTables()
    stored(tables, head_row(9, 3))
    view = view_of(tables, begun=begun)
    head = view.head("a")
    assert head is not None
    tables.answers[("rows", ("a", "t", 0, 1, 3))] = [row(1, 1), row(2, 2), row(3, 3)]
    stored(tables, now)
    if told:
        with pytest.raises(Conflict):
            numbers(view, head)
    else:
        assert numbers(view, head) == [(1, 1), (2, 2), (3, 3)]
