"""What puts decide, in the cases that the table of the rules names."""

from __future__ import annotations

from tests.unit.queue.decisions_ground import Ground

from headwater.queue.values import FailedClaim, Put


def test_a_merge_keeps_the_id_and_has_the_counters_begin_anew_only_for_other_data() -> None:
    ground = Ground()
    put = ground.put(priority=50)
    ground.call("fail", [FailedClaim(ground.claim()[0], "no")])
    ground.claim()
    ground.now += 51
    ground.call("advance", 10)
    assert (ground.row().timeout_counter, ground.row().failures, ground.row().attempts, ground.row().error) == (1, 1, 2, "no")
    assert ground.put(priority=60) == Put(put.id, "merged", ground.now)
    assert (ground.row().timeout_counter, ground.row().failures, ground.row().error, ground.row().priority) == (1, 1, "no", 50)
    ground.put(data=b"2")
    assert (ground.row().timeout_counter, ground.row().failures, ground.row().attempts, ground.row().error) == (0, 0, 2, "")
    ground.put(data=b"2", form=1)
    assert (ground.row().form, ground.row().insertion_date, ground.row().update_date) == (1, 1_000_000, ground.now)


def test_more_urgency_does_not_bring_a_row_before_its_date() -> None:
    ground = Ground()
    ground.put(delay=100, priority=100)
    ground.put(delay=10, priority=0)
    assert (ground.row().priority, ground.row().process_date, ground.claim()) == (0, 1_000_100, [])
    ground.now += 100
    assert len(ground.claim()) == 1


def test_an_older_put_is_stale_for_a_waiting_a_processed_and_a_held_row() -> None:
    ground = Ground()
    ground.put(insertion_date=ground.now - 10)
    assert ground.put(insertion_date=ground.now - 11).outcome == "stale"
    ground.claim()
    assert ground.put(insertion_date=ground.now - 11).outcome == "stale"
    assert ground.put(data=b"2").outcome == "follow-up"
    assert ground.put(insertion_date=ground.now - 1).outcome == "stale"
    assert len(ground.records) == 3
