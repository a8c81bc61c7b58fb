"""The contract of journal stores: what each action leaves, for each segment size, and how journals lie in their tables."""

from __future__ import annotations

import pytest

from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.head import record_id
from headwater.journal.key_actions import PartitionActions
from headwater.journal.store import PartitionStore
from headwater.testing.journal_store_ground import (
    BEGAN,
    History,
    JournalStoreGround,
    OpenJournalStore,
    head_of,
    numbers,
    partition,
    rows_of,
    state,
)


def applied(copy: PartitionStore, history: History) -> None:
    """Everything that the store does not have yet."""
    assert copy.apply(history.change(copy.pointer().offset + 1))


class JournalStoreActions(JournalStoreGround):
    """Append, Delete, Purge and Mark on journals that are there and that are not."""

    # -- Append -----------------------------------------------------------------------------------------------

    def test_the_first_append_makes_a_head_and_later_ones_move_it(self, sized: PartitionStore, history: History) -> None:
        history.append("a", 1)
        applied(sized, history)
        assert state(sized, "a") == (1, None, [1])
        history.append("a", 2, 3)
        applied(sized, history)
        assert state(sized, "a") == (3, None, [1, 2, 3])

    def test_a_journal_that_begins_later_counts_what_is_before_as_deleted(self, sized: PartitionStore, history: History) -> None:
        history.append("a", 5, 6, 7)
        applied(sized, history)
        assert state(sized, "a") == (7, 4, [5, 6, 7])

    def test_a_gap_hides_nothing(self, sized: PartitionStore, history: History) -> None:
        history.append("a", 1, 2, 3)
        history.append("a", 10)
        history.append("a", 4_000)
        applied(sized, history)
        assert state(sized, "a") == (4_000, None, [1, 2, 3, 10, 4_000])
        assert numbers(sized, "a", 4) == [10, 4_000]
        assert numbers(sized, "a", 4, 10) == [10]

    def test_numbers_far_apart_are_read_deleted_and_purged(self, sized: PartitionStore, history: History) -> None:
        """Nobody goes through the segments between: that would take years."""
        history.append("a", 1)
        applied(sized, history)
        history.append("a", 1 << 62)
        history.append("a", 1 << 40)  # a fork in the midst
        applied(sized, history)
        assert state(sized, "a") == (1 << 62, None, [1, 1 << 40, 1 << 62])
        history.append("a", (1 << 62) + 1)
        history.delete("a", 1 << 61)
        applied(sized, history)
        assert state(sized, "a") == ((1 << 62) + 1, 1 << 61, [1 << 62, (1 << 62) + 1])
        history.append("b", 1)
        history.append("b", 1 << 61)
        history.delete("b", 1 << 61)
        history.append("c", 1)
        applied(sized, history)
        assert state(sized, "b") == (1 << 61, 1 << 61, [])
        history.append("c", 1 << 62)
        history.delete("c", 1 << 62)
        history.purge("a")
        history.purge("b")
        applied(sized, history)
        assert state(sized, "c") == (1 << 62, 1 << 62, [])
        assert (state(sized, "a"), state(sized, "b")) == (None, None)
        sized.clear()
        assert state(sized, "c") is None

    def test_rows_of_one_number_all_come_by_their_offsets_and_the_highest_number_counts(
        self, sized: PartitionStore, history: History
    ) -> None:
        history.append("a", 1, 2, 3, 4, 5)
        history.append("a", 3)
        applied(sized, history)
        history.append("a", 3)
        applied(sized, history)
        assert [(row.seq_nr, row.offset) for row in rows_of(sized, "a", 3, 4)] == [(3, 0), (3, 1), (3, 2), (4, 0)]
        head = head_of(sized, "a")
        assert head is not None
        assert (head.seq_nr, head.offset) == (5, 2)
        assert [row.offset for row in rows_of(sized, "a", batch=1)] == [0, 0, 0, 1, 2, 0, 0]

    @pytest.mark.parametrize("together", [True, False], ids=["one change", "many changes"])
    def test_events_of_one_number_and_one_millisecond_all_stay(self, sized: PartitionStore, history: History, together: bool) -> None:
        for number, (first, time) in enumerate([(1, BEGAN), (2, BEGAN), (2, BEGAN), (2, BEGAN + 1), (2, BEGAN)]):
            history.append("a", first, first + 1, timestamp=time, payload=b"%d" % number)
            if not together:
                applied(sized, history)
        if together:
            applied(sized, history)
        rows = rows_of(sized, "a")
        seconds = [(row.offset, row.timestamp - BEGAN, row.payload and row.payload.data) for row in rows if row.seq_nr == 2]
        assert seconds == [(0, 0, b"0"), (1, 0, b"1"), (2, 0, b"2"), (3, 1, b"3"), (4, 0, b"4")]
        assert all(row.headers == ((("name", "value"),) if row.offset % 2 else ()) for row in rows)
        assert [row.offset for row in rows if row.seq_nr == 3] == [1, 2, 3, 4]

    def test_events_below_what_is_deleted_do_not_come_back(self, sized: PartitionStore, history: History) -> None:
        history.append("a", 1, 2, 3, 4)
        history.delete("a", 3)
        applied(sized, history)
        history.append("a", 2, 3, 4, 5)
        applied(sized, history)
        assert [(row.seq_nr, row.offset) for row in rows_of(sized, "a")] == [(4, 0), (4, 2), (5, 2)]
        assert head_of(sized, "a").delete_to == 3  # type: ignore[union-attr]

    # -- Delete -----------------------------------------------------------------------------------------------

    def test_delete_hides_and_keeps_the_number(self, sized: PartitionStore, history: History) -> None:
        history.append("a", 1, 2, 3, 4, 5)
        applied(sized, history)
        history.delete("a", 2)
        applied(sized, history)
        assert state(sized, "a") == (5, 2, [3, 4, 5])
        head = head_of(sized, "a")
        assert head is not None
        assert (head.offset, head.updated) == (1, BEGAN + 1000)

    def test_delete_is_capped_by_the_last_number_and_a_second_one_moves_the_offset_alone(
        self, sized: PartitionStore, history: History
    ) -> None:
        history.append("a", 1, 2, 3)
        history.delete("a", MAX_SEQ_NR)
        applied(sized, history)
        assert state(sized, "a") == (3, 3, [])
        history.delete("a", 3)
        applied(sized, history)
        assert state(sized, "a") == (3, 3, [])
        assert head_of(sized, "a").offset == 2  # type: ignore[union-attr]
        history.append("a", 4)
        applied(sized, history)
        assert state(sized, "a") == (4, 3, [4])

    def test_a_smaller_delete_later_takes_nothing_back(self, sized: PartitionStore, history: History) -> None:
        history.append("a", *range(1, 21))
        history.delete("a", 10)
        applied(sized, history)
        history.delete("a", 2)
        applied(sized, history)
        assert state(sized, "a") == (20, 10, list(range(11, 21)))

    def test_delete_of_an_unknown_journal_does_nothing(self, sized: PartitionStore, history: History) -> None:
        history.delete("a", 5)
        applied(sized, history)
        assert state(sized, "a") is None
        assert sized.pointer().offset == 0
        history.append("a", 6)
        applied(sized, history)
        assert state(sized, "a") == (6, 5, [6])

    # -- Purge ------------------------------------------------------------------------------------------------

    def test_purge_removes_head_and_rows(self, sized: PartitionStore, history: History) -> None:
        history.append("a", *range(1, 20))
        history.append("b", 1)
        applied(sized, history)
        history.purge("a")
        applied(sized, history)
        assert state(sized, "a") is None
        assert state(sized, "b") == (1, None, [1])
        with sized.view() as view:
            assert view.ids() == ["b"]
        history.append("a", 1)
        applied(sized, history)
        assert state(sized, "a") == (1, None, [1])
        assert head_of(sized, "a").record_id == record_id("g1", 0, 3)  # type: ignore[union-attr]

    @pytest.mark.parametrize("cut", [1, 2, 3, None])
    def test_a_journal_that_is_purged_and_begun_anew_shows_the_new_events_alone(
        self, sized: PartitionStore, history: History, cut: int | None
    ) -> None:
        history.append("a", 1, 2, 3, 4, 5)
        history.purge("a")
        history.append("a", 1)
        history.append("a", 2)
        for change in history.split([] if cut is None else [cut]):
            assert sized.apply(change)
        assert [(row.seq_nr, row.offset, row.record_id) for row in rows_of(sized, "a")] == [
            (1, 2, record_id("g1", 0, 2)),
            (2, 3, record_id("g1", 0, 2)),
        ]
        assert head_of(sized, "a").seq_nr == 2  # type: ignore[union-attr]

    def test_purge_of_an_unknown_journal_does_nothing(self, sized: PartitionStore, history: History) -> None:
        history.purge("a")
        history.mark("a")
        applied(sized, history)
        assert state(sized, "a") is None
        assert sized.pointer().offset == 1

    def test_purge_removes_what_lies_in_many_segments(self, another: OpenJournalStore, history: History) -> None:
        copy = partition(another(2), history.topic)
        history.append("a", *range(1, 21))
        history.append("a", 100)
        history.delete("a", 7)
        applied(copy, history)
        history.purge("a")
        history.append("a", *range(1, 4))
        applied(copy, history)
        assert state(copy, "a") == (3, None, [1, 2, 3])
        assert {row.offset for row in rows_of(copy, "a")} == {4}

    # -- how journals lie in their tables ---------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("last", "delete_to", "segment_size", "expected"),
        [
            (3, None, 5, (3, None, [1, 2, 3])),
            (5, None, 3, (5, None, [1, 2, 3, 4, 5])),
            (5, 2, 3, (5, 2, [3, 4, 5])),
            (5, 5, 3, (5, 5, [])),
        ],
    )
    def test_journals_as_they_can_be_stored(
        self,
        another: OpenJournalStore,
        history: History,
        last: int,
        delete_to: int | None,
        segment_size: int,
        expected: tuple[int, int | None, list[int]],
    ) -> None:
        """With snapshots and without: a ring of snapshots lies in a table of its own and changes neither heads nor rows."""
        copy = partition(another(segment_size), history.topic)
        history.append("A", *range(1, last + 1))
        if delete_to is not None:
            history.delete("A", delete_to)
        applied(copy, history)
        assert state(copy, "A") == expected
        assert head_of(copy, "A").segment_size == segment_size  # type: ignore[union-attr]

    def test_a_journal_keeps_the_segment_size_that_it_began_with(self, another: OpenJournalStore, history: History) -> None:
        history.append("a", *range(1, 8))
        applied(partition(another(2), history.topic), history)
        wide = partition(another(5), history.topic)
        history.append("a", *range(8, 15))
        history.append("b", *range(1, 15))
        applied(wide, history)
        history.delete("a", 9)
        history.delete("b", 9)
        applied(partition(another(3), history.topic), history)
        for id, size in (("a", 2), ("b", 5)):
            assert state(wide, id) == (14, 9, [10, 11, 12, 13, 14])
            assert head_of(wide, id).segment_size == size  # type: ignore[union-attr]
        history.purge("a")
        history.append("a", 1)
        applied(wide, history)
        assert state(wide, "a") == (1, None, [1])
        assert head_of(wide, "a").segment_size == 5  # type: ignore[union-attr]

    # -- call by call -----------------------------------------------------------------------------------------

    def test_actions_by_key_return_whether_something_changed(self, copy: PartitionStore, history: History) -> None:
        actions = PartitionActions(copy)
        a = actions.key("a")
        history.append("a", 1, 2, 3)
        rows = history.rows[0]
        assert actions.offsets.get() is None
        assert not a.delete(2, offset=0, timestamp=BEGAN)  # there is no such journal
        assert not a.purge(offset=1, timestamp=BEGAN)
        assert actions.offsets.get() == 1
        assert a.append(rows, offset=2, timestamp=BEGAN)
        assert not a.append(rows, offset=2, timestamp=BEGAN)
        assert state(copy, "a") == (3, None, [1, 2, 3])
        assert a.delete(2, offset=5, timestamp=BEGAN)
        assert not a.delete(3, offset=4, timestamp=BEGAN)  # it is applied already
        assert state(copy, "a") == (3, 2, [3])
        assert a.delete(1, offset=6, timestamp=BEGAN)  # the offset moves
        assert state(copy, "a") == (3, 2, [3])
        assert actions.offsets.set(9)
        assert not actions.offsets.set(8)
        assert actions.offsets.get() == 9
        assert not a.purge(offset=9, timestamp=BEGAN)
        assert a.purge(offset=10, timestamp=BEGAN)
        assert not a.purge(offset=10, timestamp=BEGAN)
        assert not a.purge(offset=11, timestamp=BEGAN)
        assert state(copy, "a") is None
