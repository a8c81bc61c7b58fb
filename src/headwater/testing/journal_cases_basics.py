"""Cases 1 to 17 of journals: what is appended, deleted and purged is read so, at every stage of replication."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from headwater.core.errors import WrongExpected
from headwater.journal.action import Delete, Mark
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.wire import read_record
from headwater.testing.journal_cases_ground import (
    FORGETFUL,
    CaseJournals,
    JournalCasesGround,
    MakeJournals,
    label_of,
    raw_append,
    raw_delete,
)
from headwater.testing.log_ground import together

_GROUPS = ((), (1,), (2,), (1, 1), (1, 2), (2, 3), (1, 1, 1, 1, 1), (5,))
"""Events of each Append: nothing, up to five events in several groupings."""


def _appended(journals: CaseJournals, groups: tuple[int, ...], id: str = "a") -> int:
    last = 0
    for count in groups:
        journals.append(id, *range(last + 1, last + count + 1))
        last += count
    return last


class JournalBasicCases(JournalCasesGround):
    @pytest.mark.parametrize("groups", _GROUPS, ids=str)
    def test_1_and_2_events_are_read_in_any_grouping(self, journals: CaseJournals, groups: tuple[int, ...]) -> None:
        last = _appended(journals, groups)
        numbers = range(1, last + 1)
        journals.shows("a", numbers, last or None)
        journals.shows("a", numbers, last or None, stop=100)
        journals.shows("a", numbers[:2], last or None, stop=2)

    @pytest.mark.parametrize("groups", [(1,), (2, 3)], ids=str)
    def test_3_deleting_all_leaves_the_pointer(self, journals: CaseJournals, groups: tuple[int, ...]) -> None:
        last = _appended(journals, groups)
        journals.delete("a", last)
        journals.shows("a", [], last)

    @pytest.mark.parametrize("groups", [(1,), (2, 3)], ids=str)
    def test_4_a_delete_is_capped(self, journals: CaseJournals, groups: tuple[int, ...]) -> None:
        last = _appended(journals, groups)
        placed = journals.delete("a", MAX_SEQ_NR)
        assert placed is not None
        assert placed.to == last
        journals.shows("a", [], last)

    def test_4_a_delete_of_what_is_not_there_writes_nothing(self, journals: CaseJournals) -> None:
        assert journals.delete("a", MAX_SEQ_NR) is None
        assert journals.end() == 0
        journals.shows("a", [], None)

    @pytest.mark.parametrize("groups", [(1,), (2, 3), (5,)], ids=str)
    def test_5_deleting_the_first_leaves_the_others(self, journals: CaseJournals, groups: tuple[int, ...]) -> None:
        last = _appended(journals, groups)
        before = journals.end()
        placed = journals.delete("a", 1)
        assert placed is not None
        assert placed.offset == before  # no Mark is written before it
        record = read_record(journals.log.read(journals.topic.name, 0, before, limit=1)[0])
        assert record is not None
        assert record.action == Delete(1, "here", "1")
        journals.shows("a", range(2, last + 1), last)

    @pytest.mark.parametrize("groups", _GROUPS[:4], ids=str)
    def test_6_a_purge_leaves_nothing(self, journals: CaseJournals, groups: tuple[int, ...]) -> None:
        last = _appended(journals, groups)
        assert (journals.purge("a") is None) is (last == 0)
        journals.shows("a", [], None)

    def test_7_a_mark_changes_nothing(self, journals: CaseJournals) -> None:
        last = _appended(journals, (2, 1))
        journals.mark("a", "x")
        records = [read_record(record) for record in journals.log.read(journals.topic.name, 0, 0, limit=100)]
        marks = [record.action.id for record in records if record is not None and isinstance(record.action, Mark)]
        assert marks == ["x"] * (2 if journals.twice else 1)
        journals.shows("a", [1, 2, 3], last)
        journals.mark("b", "y")
        journals.shows("b", [], None)

    def test_8_a_read_begins_in_the_middle_of_a_record(self, journals: CaseJournals) -> None:
        _appended(journals, (2,))
        journals.shows("a", [2], 2, start=2)

    def test_9_a_read_from_the_last_possible_number_is_empty(self, journals: CaseJournals) -> None:
        _appended(journals, (1,))
        journals.shows("a", [], 1, start=MAX_SEQ_NR)
        journals.shows("a", [], 1, start=MAX_SEQ_NR, stop=MAX_SEQ_NR)

    def test_10_deletes_between_appends(self, journals: CaseJournals) -> None:
        journals.append("a", 1)
        journals.delete("a", 3)
        journals.append("a", 2, 3)
        journals.delete("a", 2)
        journals.append("a", 4)
        journals.shows("a", [3, 4], 4)
        journals.purge("a")
        journals.shows("a", [], None)

    def test_10_the_same_from_other_writers_whose_deletes_are_not_capped(self, journals: CaseJournals) -> None:
        journals.append("a", 1)
        journals.raw(raw_delete("a", 3))
        journals.append("a", 2, 3)
        journals.raw(raw_delete("a", 2))
        journals.append("a", 4)
        journals.shows("a", [3, 4], 4)

    def test_11_a_thousand_appends_of_which_half_are_copied(self, journals: CaseJournals) -> None:
        count = 1000
        if journals.exact and not journals.twice:
            for number in range(1, count + 1):
                journals.append("a", number)
        else:
            journals.raw_at_once(*(raw_append("a", number) for number in range(1, count + 1)))
        journals.replicate(journals.end() // 2)
        for limits in (None, FORGETFUL):
            rows = journals.rows("a", partition=journals.partition(limits=limits))
            assert [row.seq_nr for row in rows] == list(range(1, count + 1))

    def test_12_deletes_among_a_thousand_events(self, single: CaseJournals) -> None:
        for number in range(1, 1001, 10):
            single.append("a", *range(number, number + 10))
            if number < 500:
                single.delete("a", number)
        for end in (0, single.end() // 3, single.end()):
            single.replicate(end, records=7)
            for limits in (None, FORGETFUL):
                rows = single.rows("a", partition=single.partition(limits=limits))
                assert [row.seq_nr for row in rows] == list(range(492, 1001))

    def test_13_records_that_come_twice_show_once(self, make: MakeJournals) -> None:
        journals = make(twice=True)
        for number in range(1, 6):
            journals.append("a", number)
        assert journals.end() == 10
        journals.shows("a", range(1, 6), 5)

    def test_14_a_read_begins_behind_what_is_copied(self, single: CaseJournals) -> None:
        for number in range(1, 4):
            single.append("other", number)
            single.append("a", number)
        single.replicate(2)
        for start in range(1, 5):
            assert [row.seq_nr for row in single.rows("a", start)] == list(range(start, 4))
        single.shows("a", [3], 3, start=3)
        single.shows("a", [], 3, start=4)

    @pytest.mark.parametrize("deletes", [False, True], ids=["purge", "delete and purge"])
    def test_15_a_journal_that_begins_anew_shows_its_new_events_alone(self, journals: CaseJournals, deletes: bool) -> None:
        journals.append("a", 1, 2, label="old", metadata={"life": 1})
        if deletes:
            journals.delete("a", 2)
        journals.purge("a")
        journals.append("a", 1, label="new", metadata={"life": 2})
        journals.shows("a", [1], 1, labels=["new"])
        [row] = journals.rows("a")
        assert msgspec.json.decode(row.metadata)["payload"]["data"] == {"life": 2}
        assert label_of(row) == "new"

    def test_16_ten_writers_at_once_read_back_a_journal_each(self, make: MakeJournals) -> None:
        journals = make(partitions=2)
        writers = [journals.beside() for _ in range(10)]

        def write(id: int) -> None:
            for number in range(1, 4):
                writers[id].append(f"id-{id}", number, label=f"writer {id}")

        together(*(partial(write, id) for id in range(10)))
        for writer in writers:
            writer.close()
        for copied in (0, 0.5, 1):
            for place in range(2):
                journals.replicate(int(journals.end(place) * copied), partition=place)
            for id in range(10):
                rows = journals.rows(f"id-{id}")
                assert [(row.seq_nr, label_of(row)) for row in rows] == [(number, f"writer {id}") for number in range(1, 4)]

    def test_17_a_new_journal_of_a_long_topic_is_empty(self, single: CaseJournals) -> None:
        for number in range(1, 101, 10):
            single.append("long", *range(number, number + 10))
        for end in (0, 5, 10):
            single.replicate(end)
            for limits in (None, FORGETFUL):
                reader = single.partition(limits=limits)
                for _ in range(2):
                    assert single.rows("new", partition=reader) == []
                    assert reader.joined("new", single.end()).head is None

    def test_numbers_go_on_where_the_journal_ends(self, journals: CaseJournals) -> None:
        """Not in the cases of others: `expected` is exact at every stage."""
        if not journals.exact:
            pytest.skip("numbers are given here")
        journals.append("a", 1, expected=0)
        journals.replicate()
        journals.append("a", 2, 3, expected=1)
        journals.delete("a", 3)
        journals.append("a", 4, expected=3)
        for wrong in (0, 3, 5):
            with pytest.raises(WrongExpected, match="ends with event 4"):
                journals.append("a", 5, expected=wrong)
        journals.purge("a")
        journals.replicate()
        journals.append("a", 1, expected=0)
        journals.shows("a", [1], 1)
