"""The writes of journals, under whatever name the tables hold them."""

from __future__ import annotations

from itertools import islice

from tests.unit.journal.cassandra_tables import RecordingTables

from headwater.journal.cassandra_changes import CassandraChanges
from headwater.journal.cassandra_rows import Before, StoredHead
from headwater.journal.head import Head
from headwater.testing.journal_store_ground import History


def head_at(seq_nr: int, offset: int = 0) -> Head:
    return Head(partition=0, offset=offset, segment_size=3, seq_nr=seq_nr, delete_to=None, created=0, updated=0)


def test_only_the_journals_that_are_named_are_changed_and_under_the_name_that_is_given() -> None:
    tables, history = RecordingTables(), History("t")
    history.append("a", 1)
    history.append("b", 1)
    change = history.change()
    mine = [journal for journal in change.journals if journal.id == "b"]
    CassandraChanges(tables, "name", 0, 3).apply(change, mine, {}, base=100, pointer=-1, again=False, tally=None)
    assert tables.steps() == [["insert_row"], ["insert_head"]]
    assert [write[1:3] for write in tables.written[0]] == [("b", "name")]
    assert (tables.written[1][0][1], tables.written[1][0][3]) == ("name", "b")


def test_a_journal_goes_with_every_segment_that_its_head_names() -> None:
    tables = RecordingTables()
    writes = list(CassandraChanges(tables, "name", 0, 3).gone("a", StoredHead(head_at(7), 5), 9))
    assert [write[0] for write in writes] == ["delete_segment"] * 4 + ["delete_head"]
    assert [write[4] for write in writes[:4]] == [0, 1, 2, 3]
    assert writes[-1] == ("delete_head", 9, "name", 5, "a")


def test_a_journal_that_begins_with_a_high_number_goes_without_a_walk_through_all_before_it() -> None:
    tables, high = RecordingTables(), 3 << 60
    head = Head(partition=0, offset=9, segment_size=3, seq_nr=high, delete_to=high - 1, created=0, updated=0)
    changes = CassandraChanges(tables, "name", 0, 3)
    for stored, count in ((StoredHead(head, 5), 3), (StoredHead(head, 5, Before(4, 0, 3, high - 1, high - 8)), 5)):
        writes = list(islice(changes.gone("a", stored, 9), 100))
        assert [write[0] for write in writes] == ["delete_segment"] * count + ["delete_head"]
        assert writes[-2][4] == (high - 1) // 3 + 1


def test_a_journal_whose_deletion_is_unfinished_goes_with_the_rows_that_were_to_go() -> None:
    head = Head(partition=0, offset=9, segment_size=3, seq_nr=30, delete_to=29, created=0, updated=0)
    for before, first in ((Before(4, 0, 3, 30, None), 0), (Before(4, 0, 3, 30, 12), 2)):
        writes = list(CassandraChanges(RecordingTables(), "name", 0, 3).gone("a", StoredHead(head, 5, before), 9))
        assert [write[4] for write in writes[:-1]] == list(range(first, 11))
