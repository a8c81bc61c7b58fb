"""Cases 27 to 33 and 46 to 52 of journals, the seven ways to store one, and what each action does to a store."""

from __future__ import annotations

from datetime import date

import pytest

from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.head import Head, record_id
from headwater.testing.journal_cases_ground import (
    CaseJournals,
    JournalCasesGround,
    MakeJournals,
    raw_append,
    raw_delete,
    raw_mark,
    raw_purge,
)

_DAY = 86_400_000
_SIZES = (2, 10_000, (1 << 31) - 1)


def _head(journals: CaseJournals, id: str = "a") -> Head:
    head = journals.head(id)
    assert head is not None
    return head


class JournalStoreCases(JournalCasesGround):
    @pytest.mark.parametrize("size", _SIZES)
    def test_27_a_journal_may_begin_with_any_number(self, make: MakeJournals, size: int) -> None:
        journals = make(segment_size=size)
        journals.raw(raw_append("a", 5, 6, 7))
        journals.shows("a", [5, 6, 7], 7)
        assert journals.state("a") == (7, 4, [5, 6, 7])

    @pytest.mark.parametrize("size", _SIZES)
    def test_28_a_delete_hides_and_takes_its_offset(self, make: MakeJournals, size: int) -> None:
        journals = make(segment_size=size)
        journals.append("a", *range(1, 8))
        journals.raw(raw_delete("a", 3))
        journals.shows("a", range(4, 8), 7)
        assert journals.state("a") == (7, 3, [4, 5, 6, 7])
        assert _head(journals).offset == 1

    def test_29_a_delete_that_comes_again_moves_the_offset_alone(self, single: CaseJournals) -> None:
        single.append("a", 1, 2, 3)
        single.raw(raw_delete("a", 3))
        single.replicate()
        before = _head(single)
        single.raw(raw_delete("a", 3))
        single.replicate()
        after = _head(single)
        assert (before.offset, after.offset) == (1, 2)
        assert (after.seq_nr, after.delete_to) == (before.seq_nr, before.delete_to) == (3, 3)
        single.shows("a", [], 3)

    def test_30_a_delete_of_an_unknown_journal_stores_nothing(self, journals: CaseJournals) -> None:
        journals.raw(raw_delete("a", 5))
        journals.shows("a", [], None)
        assert journals.head("a") is None
        journals.raw(raw_append("a", 6))
        journals.shows("a", [6], 6)
        state = journals.state("a")
        assert state is not None
        assert (*state[:2], set(state[2])) == (6, 5, {6})
        journals.raw(raw_delete("b", 5), raw_append("b", 1))
        journals.shows("b", [1], 1)

    def test_32_ids_are_listed_once(self, make: MakeJournals) -> None:
        journals = make(partitions=2)
        for id in ("a", "b", "c"):
            journals.append(id, 1)
            journals.append(id, 2)
        journals.purge("c")
        listed: list[str] = []
        for partition in range(2):
            journals.replicate(partition=partition)
            with journals.copy(partition).view() as view:
                listed += view.ids()
        assert sorted(listed) == ["a", "b"]
        assert journals.store.partition("journal-nobody", 0, "g", create=False) is None

    def test_33_topics_are_those_with_a_pointer(self, single: CaseJournals) -> None:
        name = single.topic.name
        assert single.copy().pointer().offset == -1
        single.append("a", 1)
        assert name not in single.store.topics()
        single.replicate()
        assert name in single.store.topics()
        assert single.copy().pointer().offset == 0

    # -- what replication applies -----------------------------------------------------------------------------

    @pytest.mark.parametrize("records", [1, 20_000], ids=["one by one", "at once"])
    def test_46_the_newest_append_says_when_a_journal_expires(self, make: MakeJournals, records: int) -> None:
        journals = make()
        journals.raw(raw_append("a", 1, expire_after=60_000, timestamp=0), raw_append("a", 2, expire_after=2 * _DAY, timestamp=1000))
        journals.replicate(records=records)
        head = _head(journals)
        assert (head.expire_after, head.expire_on) == (2 * _DAY, date(1970, 1, 3))
        rows = journals.rows("a")
        assert ["1 minute" in row.metadata or "60" in row.metadata for row in rows] == [True, False]
        journals.raw(raw_append("a", 3))
        journals.replicate(records=records)
        assert (_head(journals).expire_after, _head(journals).expire_on) == (None, None)

    def test_47_an_append_and_a_purge_together_leave_nothing(self, journals: CaseJournals) -> None:
        journals.append("a", 1)
        journals.replicate()
        journals.raw(raw_append("a", 2), raw_purge("a"))
        outcome = journals.replicate()
        assert (outcome.problem, outcome.journals) == (None, 1)
        assert journals.head("a") is None
        journals.shows("a", [], None)

    def test_48_what_is_copied_already_is_not_copied_again(self, single: CaseJournals) -> None:
        for number in (1, 2, 3, 4):
            single.raw(raw_append("a", number))
        single.replicate(3)
        assert single.replicate(2).records == 0
        assert single.state("a") == (3, None, [1, 2, 3])
        assert single.replicate(4).records == 1
        assert single.state("a") == (4, None, [1, 2, 3, 4])
        assert _head(single).offset == 3

    @pytest.mark.parametrize("action", [raw_append("a", 9), raw_delete("a", 2), raw_purge("a")], ids=["append", "delete", "purge"])
    def test_49_an_action_is_applied_once(self, single: CaseJournals, action: object) -> None:
        single.append("a", 1, 2, 3)
        single.raw(action)  # type: ignore[arg-type]
        single.replicate()
        before = single.digest()
        for end in (0, 1, 2):
            assert single.replicate(end).records == 0
        assert single.digest() == before
        if single.head("a") is None:
            single.raw(raw_purge("a"))
            single.replicate()
            assert single.head("a") is None

    def test_50_a_purge_removes_every_segment(self, make: MakeJournals) -> None:
        journals = make(segment_size=2)
        journals.append("a", *range(1, 20))
        journals.append("b", 1, 2, 3)
        journals.raw(raw_purge("a"))
        journals.replicate()
        assert journals.head("a") is None
        journals.raw(raw_append("a", 21))  # a journal of the same id finds no rows of the old one
        journals.replicate()
        assert journals.state("a") == (21, 20, [21])
        assert journals.state("b") == (3, None, [1, 2, 3])

    def test_51_deleting_everything_twice(self, single: CaseJournals) -> None:
        single.append("a", 1)
        single.raw(raw_delete("a", MAX_SEQ_NR))
        single.replicate()
        assert single.state("a") == (1, 1, [])
        single.raw(raw_delete("a", MAX_SEQ_NR))
        single.replicate()
        assert single.state("a") == (1, 1, [])
        assert _head(single).offset == 2
        single.shows("a", [], 1)

    def test_52_events_have_the_id_of_their_life(self, single: CaseJournals) -> None:
        single.append("a", 1)
        single.append("a", 2)
        single.replicate(1)
        life = record_id(single.topic.generation, 0, 0)
        assert _head(single).record_id == life
        single.replicate()
        with single.copy().view() as view:
            [rows] = list(view.rows("a", _head(single), 1))
        assert [row.record_id for row in rows] == [life, life]
        single.purge("a")
        single.append("a", 1)
        single.replicate()
        assert _head(single).record_id == record_id(single.topic.generation, 0, 3)

    # -- seven ways to store a journal --------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("size", "events", "delete_to", "saved", "left"),
        [
            (5, 3, None, (), [1, 2, 3]),
            (3, 5, None, (), [1, 2, 3, 4, 5]),
            (3, 5, 2, (), [3, 4, 5]),
            (3, 5, None, (5,), [1, 2, 3, 4, 5]),
            (3, 5, 5, (), []),
            (3, 5, 5, (5,), []),
            (3, 5, 5, (2, 5), []),
        ],
        ids=[
            "one segment",
            "two segments",
            "a part deleted",
            "a snapshot",
            "all deleted",
            "all deleted behind a snapshot",
            "all deleted behind two snapshots",
        ],
    )
    def test_what_a_store_keeps_of_a_journal(
        self, make: MakeJournals, size: int, events: int, delete_to: int | None, saved: tuple[int, ...], left: list[int]
    ) -> None:
        for step in (1, 2, 20_000):
            journals = make(segment_size=size)
            journals.append("a", *range(1, events + 1))
            for number in saved:
                journals.save("a", number)
            if delete_to:
                journals.delete("a", delete_to)
            journals.replicate(records=step)
            assert journals.state("a") == (events, delete_to, left)
            assert _head(journals).segment_size == size
            if saved:
                journals.replicate_snapshots()
                assert journals.slots("a") == dict(enumerate(saved))

    # -- what each action does ----------------------------------------------------------------------------------

    def test_a_mark_changes_nothing_in_the_store(self, journals: CaseJournals) -> None:
        journals.raw(raw_mark("a"))
        journals.replicate()
        assert journals.head("a") is None
        journals.append("a", 1)
        journals.replicate()
        before = _head(journals)
        journals.raw(raw_mark("a"))
        journals.replicate()
        assert _head(journals) == before

    def test_an_append_creates_the_head_and_then_raises_it(self, single: CaseJournals) -> None:
        single.append("a", 1, 2)
        single.replicate()
        assert single.state("a") == (2, None, [1, 2])
        created = _head(single).created
        single.append("a", 3)
        single.replicate()
        assert single.state("a") == (3, None, [1, 2, 3])
        assert _head(single).created == created

    def test_a_delete_moves_delete_to_and_removes_rows(self, single: CaseJournals) -> None:
        single.append("a", *range(1, 6))
        single.raw(raw_delete("a", 2))
        single.replicate()
        assert single.state("a") == (5, 2, [3, 4, 5])
        single.raw(raw_delete("a", 4), raw_delete("nobody", 4))
        single.replicate()
        assert single.state("a") == (5, 4, [5])
        assert single.head("nobody") is None

    def test_a_purge_removes_the_head_and_all_rows(self, single: CaseJournals) -> None:
        single.append("a", *range(1, 6))
        single.raw(raw_delete("a", 2), raw_purge("a"), raw_purge("nobody"))
        single.replicate()
        assert single.head("a") is None
        assert single.head("nobody") is None
        single.append("a", 1)
        single.replicate()
        assert single.state("a") == (1, None, [1])
