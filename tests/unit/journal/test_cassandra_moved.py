"""Folds of journals that moved into a partition."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.journal.cassandra_tables import RecordingTables

from headwater.core.errors import Conflict, Damaged
from headwater.journal.cassandra_moved import FOLD, MovedFold, MovedFolds, moved_topic
from headwater.journal.cassandra_view import HEAD_SEGMENTS
from headwater.journal.head import EMPTY, HeadFold
from headwater.journal.store import head_segment
from headwater.testing.journal_store_ground import History

PLACE = ("headwater/fold/2/t", head_segment("a", HEAD_SEGMENTS), "a")


def test_a_fold_is_told_as_it_was_at_the_pointer() -> None:
    before, after = HeadFold(seq_nr=1, offset=3), HeadFold(seq_nr=2, offset=8)
    moved = MovedFold(after, 5, before)
    assert [moved.at(8), moved.at(9), moved.at(5)] == [after, after, before]
    with pytest.raises(Conflict):
        moved.at(4)
    with pytest.raises(Damaged, match="two processes"):
        moved.at(6)
    assert MovedFold(EMPTY).at(-1) == EMPTY
    assert moved_topic("t", 2) == "headwater/moved/2/t"


def test_a_change_that_is_written_twice_leaves_the_same_fold() -> None:
    tables, history = RecordingTables(), History("t", 2)
    history.append("a", 1, 2)
    history.delete("a", 1)
    history.mark("b")
    folds = MovedFolds(tables, "t", 2)
    folds.write(history.change(0, 1).journals, 100, -1)
    for _ in range(2):
        [[(name, *place, partition, properties, time)]] = tables.written[-1:]
        assert (name, tuple(place), partition) == ("set_fold", PLACE, 2)
        tables.answers[("fold", PLACE)] = [(properties,)]
        folds.write(history.change(1).journals, 100, 0)
        assert tables.written[-1][0][-1] == 101
    assert time == 101
    assert folds.at("a", 0) == history.change(0, 1).journals[0].fold
    assert folds.at("a", 2) == history.change(0).journals[0].fold
    assert folds.at("other", 2) == EMPTY


def test_folds_are_listed_and_removed() -> None:
    tables = RecordingTables()
    tables.answers[("head_segments", ())] = [("t", 1), (PLACE[0], 7)]
    tables.answers[("segment_ids", (PLACE[0], 7))] = [("a", 2), ("b", 2)]
    folds = MovedFolds(tables, "t", 2)
    assert folds.ids() == ["a", "b"]
    folds.clear(50)
    assert tables.written == [[("delete_head", 50, PLACE[0], 7, "a"), ("delete_head", 50, PLACE[0], 7, "b")]]
    folds.restore([("a", HeadFold(seq_nr=1, offset=3))], 100)
    assert tables.written[-1][0][-1] == 103
    assert msgspec.json.decode(tables.written[-1][0][-2][FOLD], type=MovedFold).at(3).seq_nr == 1


def test_a_damaged_fold_is_named() -> None:
    tables = RecordingTables()
    tables.answers[("fold", PLACE)] = [({FOLD: "{"},)]
    with pytest.raises(Damaged, match="headwater/fold/2/t"):
        MovedFolds(tables, "t", 2).at("a", 1)
