"""What each call decides, in the cases that the table of the rules names."""

from __future__ import annotations

import pytest
from tests.unit.queue.decisions_ground import Ground
from tests.unit.queue.played import state

from headwater.core.errors import Conflict, NotFound
from headwater.core.units import Duration
from headwater.queue.body import place_in
from headwater.queue.row_view import row_at
from headwater.queue.values import FailedClaim

MIB = 1 << 20


def test_a_put_while_the_lease_is_over_merges_once_the_row_is_taken_back() -> None:
    ground = Ground()
    ground.put()
    ground.claim(lease=50)
    ground.now += 50
    assert not ground.decisions.overdue(ground.now)
    ground.now += 1
    assert ground.decisions.overdue(ground.now)
    ground.call("advance", 10)
    assert ground.row().timeout_counter == 1
    assert ground.put(data=b"2").outcome == "merged"
    assert ground.row().timeout_counter == 0


@pytest.mark.parametrize("most", [0, 2, 255])
def test_a_row_is_given_up_when_it_would_lose_more_leases_than_max_timeouts(most: int) -> None:
    ground = Ground(max_timeouts=most)
    ground.put()
    for lost in range(most + 1):
        assert ground.row().timeout_counter == lost
        ground.claim(lease=1)
        ground.now += 2
        ground.call("advance", 10)
    [(id, death)] = ground.fold.deaths.items()
    dead = row_at(ground.fold, death.slot)
    assert (death.reason, death.worker, dead.attempts, dead.timeout_counter) == (0, "w", most + 1, min(most + 1, 255))
    assert ([event.id for _, event in ground.decisions.died], b"k" in ground.fold.by_key) == ([id], False)


def test_a_row_is_given_up_when_it_has_failed_max_attempts_times_or_at_once() -> None:
    ground = Ground(max_attempts=2)
    ground.put()
    for error in ("first", "second"):
        assert ground.call("fail", [FailedClaim(ground.claim()[0], error)]) == []
    ground.put(b"other")
    ground.call("fail", [FailedClaim(ground.claim()[0], "never", give_up=True)])
    assert [(death.reason, death.error) for death in ground.fold.deaths.values()] == [(1, "second"), (2, "never")]


def test_a_failed_row_waits_and_a_released_one_keeps_its_date_or_waits() -> None:
    ground = Ground()
    ground.put()
    ground.call("fail", [FailedClaim(ground.claim()[0], "no", 30)])
    assert (ground.row().process_date, ground.claim()) == (ground.now + 30, [])
    ground.now += 30
    ground.call("release", ground.claim(), None)
    assert (ground.row().process_date, ground.row().failures, ground.row().timeout_counter) == (ground.now, 1, 0)
    ground.call("release", ground.claim(), 7)
    assert ground.row().process_date == ground.now + 7


def test_a_late_token_changes_nothing_and_extends_nothing() -> None:
    ground = Ground()
    ground.put()
    [token] = ground.claim(lease=10)
    ground.now += 11
    ground.call("advance", 10)
    [newer] = ground.claim()
    before = state(ground.fold)
    for call in (("done", [token]), ("extend", [token], 99), ("release", [token], None), ("fail", [FailedClaim(token)])):
        assert ground.call(*call) == [token]
    assert state(ground.fold) == before
    assert ground.call("done", [newer, newer]) == [newer]


def test_a_row_that_expires_while_it_is_processed_may_be_done_and_is_not_tried_again() -> None:
    for end in ("done", "lost", "fail", "release"):
        ground = Ground()
        ground.put(expiration_date=ground.now + 10)
        [token] = ground.claim(lease=50)
        ground.now += 20
        ground.call("advance", 10)
        assert ground.row().status == "P"
        if end == "lost":
            ground.now += 31
            ground.call("advance", 10)
        else:
            given = {"done": ([token],), "fail": ([FailedClaim(token)],), "release": ([token], None)}[end]
            assert ground.call(end, *given) == []
        assert (len(ground.fold), ground.decisions.totals.expired) == (0, int(end != "done"))


def test_a_row_that_expires_before_its_date_never_runs() -> None:
    ground = Ground()
    ground.put(delay=20, expiration_date=ground.now + 10)
    ground.now += 10
    ground.call("advance", 10)
    assert (len(ground.fold), ground.decisions.totals.expired) == (0, 1)


def test_a_slow_row_waits_while_its_group_has_another() -> None:
    ground = Ground()
    ground.put(b"slow", priority=200)
    ground.put(b"slower", priority=255)
    ground.put(b"fast", priority=199)
    [fast] = ground.claim(5)
    assert ground.claim(5) == []
    assert len(ground.claim(1, group="other")) == 1
    ground.call("done", [fast])
    assert len(ground.claim(5)) == 1


def test_the_row_of_a_key_is_cancelled_unless_it_is_processed() -> None:
    ground = Ground()
    ground.put()
    assert ground.call("cancel", b"k").key == b"k"
    with pytest.raises(NotFound, match="'k'"):
        ground.call("cancel", b"k")
    ground.put()
    ground.claim()
    with pytest.raises(Conflict, match="processed"):
        ground.call("cancel", b"k")


def test_a_dead_row_that_is_put_again_begins_anew_and_yields_to_newer_puts() -> None:
    ground = Ground(max_attempts=1)
    for newer in (False, True):
        put = ground.put(b"a", b"old", priority=7, expiration_date=ground.now + 10, lane=b"l")
        ground.call("fail", [FailedClaim(ground.claim()[0], "no")])
        ground.now += 20
        if newer:
            ground.put(b"a", b"new")
        outcome = ground.call("retry", put.id).outcome
        row = ground.row(b"a")
        assert (outcome, row.data, ground.fold.deaths) == (("stale", b"new", {}) if newer else ("inserted", b"old", {}))
        if not newer:
            assert (row.priority, row.lane, row.expiration_date, row.failures, row.error) == (7, b"l", 0, 0, "")
            ground.call("cancel", b"a")


def test_pausing_and_resuming_twice_writes_once() -> None:
    ground = Ground()
    for call in ("pause", "pause", "resume", "resume"):
        ground.call(call)
    assert (len(ground.records), ground.fold.paused) == (2, 0)


def test_rows_take_up_large_follow_ups_by_the_places_of_their_data() -> None:
    ground = Ground()
    for number in range(8):
        ground.put(b"%d" % number)
    ground.claim(8)
    for number in range(8):
        ground.put(b"%d" % number, bytes(MIB), form=1)
    ground.now += 51
    begun = len(ground.records)
    while ground.call("advance", 100):
        pass
    assert sum(len(value) for value in ground.records[begun:]) < 2000  # the places of the follow-ups' data
    assert ([ground.row(b"%d" % number).timeout_counter for number in range(8)], ground.fold.follow_ups) == ([0] * 8, {})
    assert state(ground.replayed()) == state(ground.fold)


def test_a_row_that_fills_a_record_comes_back_and_is_carried_alone() -> None:
    ground, sizes = Ground(), {b"small": 900 * 1024, b"large": 9 * MIB, b"last": 1000}
    for key in sizes:
        ground.put(key)
    ground.claim(3)
    for key, size in sizes.items():
        ground.put(key, bytes(size), form=1)
    ground.now += 51
    begun = len(ground.records)
    while ground.call("advance", 100):
        pass
    assert [len(value) // 1024 for value in ground.records[begun:]] == [1]  # with the places of the large ones
    slots = [ground.fold.by_key[key] for key in sizes]
    data = {place_in(ground.fold.columns.bodies[slot]): bytes(sizes[key]) for key, slot in zip(sizes, slots[:2], strict=False)}
    for left in (slots, slots[1:], slots[2:]):
        ground.call("carry", left, MIB, before=0, data=data)
    assert [len(value) // MIB for value in ground.records[begun + 1 :]] == [0, 9, 0]
    assert [ground.row(key).timeout_counter for key in sizes] == [0, 0, 0]
    assert state(ground.replayed()) == state(ground.fold)


def test_answers_are_carried_slice_by_slice_the_oldest_first_and_never_beyond_their_time() -> None:
    ground = Ground(lease=Duration(1))
    for number in range(100):
        ground.now += 1
        ground.call("answered", ground.now + 50, f"{number}", bytes(16), [])
    first, begun = ground.fold.homes.pass_unneeded(), len(ground.records)
    while ground.fold.homes.pass_unneeded() <= begun:
        ground.call("carry", [], 500, before=begun)
        assert ground.fold.homes.pass_unneeded() > first
        first = ground.fold.homes.first
    assert max(len(value) for value in ground.records[begun:]) < 1000
    assert [name for name, _ in ground.fold.answers] == [f"{number}" for number in range(50, 100)]
    assert state(ground.replayed()) == state(ground.fold)


def test_rows_that_wait_for_many_are_carried_by_several_records() -> None:
    ground = Ground()
    ids = tuple(ground.put(b"%d" % number).id for number in range(1000))
    for key in (b"x", b"y"):
        ground.put(key, after=ids)
    slots = [ground.fold.by_key[key] for key in (b"x", b"y")]
    ground.call("carry", slots, 10_000, before=0)
    assert [ground.fold.home(slot) == ground.fold.sequence for slot in slots] == [True, False]
