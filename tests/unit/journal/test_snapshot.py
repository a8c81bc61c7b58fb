from __future__ import annotations

import uuid

import pytest

from headwater.core.errors import BadBounds, BadInput
from headwater.journal.event import PayloadKind
from headwater.journal.head import Head
from headwater.journal.snapshot import EMPTY_RING, SLOTS, Ring, Snapshot, SnapshotCriteria, SnapshotDeletion, living, purged_slots

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


def saved(seq_nr: int, offset: int, *, at: int = 5, life: uuid.UUID | None = FIRST, timestamp: int = 0) -> Snapshot:
    return Snapshot(seq_nr, timestamp, offset, at, PayloadKind.JSON, life)


def held(ring: Ring) -> dict[int, int]:
    return {slot: one.seq_nr for slot, one in ring.slots.items()}


def test_a_ring_takes_the_same_number_then_a_free_slot_then_the_oldest() -> None:
    ring = EMPTY_RING.then([saved(number, number) for number in range(1, SLOTS + 1)])
    assert held(ring) == {slot: slot + 1 for slot in range(SLOTS)}
    ring = ring.then([saved(3, 20), saved(50, 21), saved(1, 22)])
    assert (held(ring)[2], ring.slots[2].offset, held(ring)[0], held(ring)[1]) == (3, 20, 50, 1)
    assert ring.applied == 22


def test_the_oldest_of_one_number_goes_by_time() -> None:
    slots = {slot: saved(7 if slot < 2 else 9, slot, timestamp=10 - slot) for slot in range(SLOTS)}
    assert held(Ring(slots).then([saved(8, 30)]))[1] == 8


def test_what_is_applied_is_passed_over() -> None:
    ring = Ring({0: saved(1, 4)}, 4)
    assert ring.then([saved(9, 3), saved(2, 5)]).of(FIRST) == [(1, saved(2, 5)), (0, saved(1, 4))]


def test_a_newer_life_empties_the_ring_and_an_older_one_is_left_out() -> None:
    ring = EMPTY_RING.then([saved(1, 0), saved(2, 1), saved(1, 2, at=9, life=SECOND), saved(3, 3, at=6)])
    assert held(ring) == {0: 1}
    assert [one.record_id for _, one in ring.of(SECOND)] == [SECOND]
    assert ring.of(FIRST) == []


def test_deletions_take_those_of_their_life_that_match() -> None:
    ring = EMPTY_RING.then([saved(1, 0, timestamp=10), saved(2, 1, timestamp=20), saved(3, 2, timestamp=30)])
    assert held(ring.then([SnapshotDeletion(SnapshotCriteria(min_seq_nr=2, max_timestamp=20), 3, 5, FIRST)])) == {0: 1, 2: 3}
    assert held(ring.then([SnapshotDeletion(SnapshotCriteria(), 3, 5, SECOND)])) == {0: 1, 1: 2, 2: 3}
    assert held(ring.then([SnapshotDeletion(SnapshotCriteria(), 3, 5, FIRST)])) == {}


def test_an_ended_life_is_known_by_the_pointer_and_the_head() -> None:
    head = Head(0, 7, 10, 3, None, 0, 0, record_id=SECOND)
    actions = [saved(1, 0), saved(1, 1, at=8, life=SECOND), saved(1, 2, at=20)]
    assert living(actions, 7, lambda: head) == actions[1:]
    assert living(actions, 7, lambda: None) == actions[2:]
    assert living(actions, 3, lambda: pytest.fail("nothing is to be looked up")) == actions


def test_a_purge_takes_what_was_saved_before_it() -> None:
    assert purged_slots({0: saved(1, 0, at=5), 1: saved(2, 1, at=6)}, 5) == [0]


@pytest.mark.parametrize(
    ("criteria", "error"),
    [
        (SnapshotCriteria(min_seq_nr=0), BadInput),
        (SnapshotCriteria(max_seq_nr=True), BadInput),
        (SnapshotCriteria(min_timestamp=-1), BadInput),
        (SnapshotCriteria(max_timestamp="now"), BadInput),  # type: ignore[arg-type]
        (SnapshotCriteria(min_seq_nr=3, max_seq_nr=2), BadBounds),
        (SnapshotCriteria(min_timestamp=3, max_timestamp=2), BadBounds),
    ],
)
def test_criteria_that_cannot_be_meant_are_refused(criteria: SnapshotCriteria, error: type[Exception]) -> None:
    with pytest.raises(error):
        criteria.check()
    assert SnapshotCriteria().all
    assert not criteria.all
