"""Heads: folded from actions, the same for every way of splitting them, and equal to the model."""

from __future__ import annotations

import uuid
from datetime import date
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.histories import Step, action_record, histories, modelled

from headwater.journal.action import Append, Delete, Mark, Purge
from headwater.journal.head import EMPTY, Expiry, Head, HeadFold, applied, fold_of, record_id


def folds(history: list[Step], id: str = "alice", start: int = 0) -> list[HeadFold]:
    return [
        fold_of(action_record(step, start + offset), step.expire_after if isinstance(step.action, Append) else None)
        for offset, step in enumerate(history)
        if step.id == id
    ]


def joined(parts: list[HeadFold]) -> HeadFold:
    return reduce(HeadFold.then, parts, EMPTY)


def head(fold: HeadFold, stored: Head | None = None) -> Head | None:
    return applied(fold, stored, partition=3, generation="g", segment_size=10)


def alice(*actions: Append | Delete | Purge | Mark) -> Head | None:
    return head(joined(folds([Step("alice", action) for action in actions])))


@given(histories, histories, histories)
def test_joining_is_associative_and_nothing_changes_it_by_being_empty(one: list[Step], two: list[Step], three: list[Step]) -> None:
    a, b, c = joined(folds(one)), joined(folds(two, start=len(one))), joined(folds(three, start=len(one) + len(two)))
    assert a.then(b).then(c) == a.then(b.then(c))
    assert a.then(EMPTY) == EMPTY.then(a) == a


@given(histories, st.data())
def test_heads_equal_the_model_for_every_split(history: list[Step], data: st.DataObject) -> None:
    model = modelled(history).journals
    for id in ("alice", "bob"):
        whole = head(joined(folds(history, id)))
        expected = model.get(id)
        if expected is None:
            assert whole is None
        else:
            assert whole == Head(
                partition=3,
                offset=expected.offset,
                segment_size=10,
                seq_nr=expected.seq_nr,
                delete_to=expected.delete_to or None,
                created=expected.first.timestamp,
                updated=expected.timestamp,
                expire_after=expected.expire_after,
                expire_on=Expiry(expected.expire_after, expected.appended).on,
                record_id=record_id("g", 3, expected.first.offset),
                origin=expected.first.action.origin,
            )
        parts = folds(history, id)
        for cut in range(len(parts) + 1):
            assert head(joined(parts[cut:]), head(joined(parts[:cut]))) == whole
        cuts = sorted(data.draw(st.lists(st.integers(0, len(parts)), max_size=5)))
        stored: Head | None = None
        for start, end in zip([0, *cuts], [*cuts, len(parts)], strict=True):
            stored = head(joined(parts[start:end]), stored)
        assert stored == whole


def test_a_first_append_that_begins_later_counts_what_lies_before_as_deleted() -> None:
    first = alice(Append(5, 7))
    assert first is not None
    assert (first.seq_nr, first.delete_to, first.last) == (7, 4, 7)
    first = alice(Append(1, 2))
    assert first is not None
    assert first.delete_to is None


def test_a_delete_is_capped_by_what_is_there_and_never_goes_back() -> None:
    capped = alice(Append(1, 2), Delete(10), Append(3, 3))
    assert capped is not None
    assert (capped.seq_nr, capped.delete_to) == (3, 2)
    smaller = alice(Append(1, 20), Delete(10), Delete(2))
    assert smaller is not None
    assert smaller.delete_to == 10


def test_a_delete_and_a_purge_of_what_is_not_there_do_nothing() -> None:
    assert alice(Delete(5)) is None
    assert alice(Purge()) is None
    after = alice(Delete(5), Append(1, 6))
    assert after is not None
    assert after.delete_to is None


def test_a_purge_begins_a_new_life() -> None:
    before, after = alice(Append(1, 5)), alice(Append(1, 5), Purge(), Append(1, 1))
    assert before is not None
    assert after is not None
    assert after.seq_nr == 1
    assert after.record_id != before.record_id
    assert after.record_id == record_id("g", 3, 2)


def test_an_append_with_a_lower_number_keeps_the_highest() -> None:
    lower = alice(Append(1, 5), Append(3, 3))
    assert lower is not None
    assert lower.seq_nr == 5


def test_marks_change_nothing() -> None:
    assert alice(Mark("x")) is None
    assert alice(Append(1, 1), Mark("x")) == alice(Append(1, 1))


def test_the_newest_append_decides_when_a_journal_expires() -> None:
    given_then_removed = folds([Step("alice", Append(1, 1), 60_000), Step("alice", Append(2, 2))])
    removed = head(joined(given_then_removed))
    assert removed is not None
    assert (removed.expire_after, removed.expire_on) == (None, None)
    stored = head(given_then_removed[0])
    assert stored is not None
    assert stored.expire_after == 60_000
    assert head(given_then_removed[1], stored) == removed


def test_the_day_of_expiry_is_in_utc() -> None:
    noted = 1_576_059_010_000  # 2019-12-11T10:10:10Z
    assert Expiry(86_400_000, noted).on == date(2019, 12, 12)
    assert Expiry(60_000, noted).on == date(2019, 12, 11)
    assert Expiry(None, noted).on is None
    assert Expiry(1 << 62, noted).on == date.max


def test_an_older_head_whose_delete_lies_above_its_number_is_numbered_behind_both() -> None:
    old = Head(partition=0, offset=1, segment_size=10, seq_nr=300, delete_to=400, created=0, updated=0)
    assert (old.last, old.deleted) == (400, 400)
    after = head(fold_of(action_record(Step("alice", Delete(200)), 9)), old)
    assert after is not None
    assert after.delete_to == 400


def test_the_id_of_a_life_depends_on_its_place_alone() -> None:
    assert record_id("g", 0, 7) == uuid.uuid5(uuid.NAMESPACE_OID, "g/0/7")
    assert len({record_id("g", 0, 7), record_id("g", 1, 7), record_id("g", 0, 8), record_id("h", 0, 7)}) == 4
