from __future__ import annotations

import pytest
from tests.unit.queue.decisions_ground import Ground

from headwater.core.units import Duration
from headwater.queue import finished
from headwater.queue.finished import KeptResult
from headwater.queue.values import FailedClaim, RowResult

HOUR = 3_600_000


def test_a_result_lies_in_the_record_of_its_done_row() -> None:
    ground = Ground()
    put = ground.put()
    [token] = ground.claim()
    assert ground.call("done", [token, "stale"], {token: RowResult(b"7")}) == ["stale"]
    assert len(ground.records) == 3
    for fold in (ground.fold, ground.replayed()):
        assert fold.finished.results[put.id] == KeptResult(ground.now + HOUR, 0, b"7", 3)
        assert fold.homes.pass_unneeded() == 3
        assert not len(fold)


def test_a_result_is_forgotten_by_the_time_of_the_records() -> None:
    ground = Ground()
    ground.put()
    [token] = ground.claim()
    ground.call("done", [token], {token: RowResult(b"7")})
    ground.now += HOUR
    ground.put(b"other")
    for fold in (ground.fold, ground.replayed()):
        assert not len(fold.finished)
        assert fold.homes.pass_unneeded() == 4


def test_a_queue_that_keeps_no_results_writes_none() -> None:
    ground = Ground(results=Duration(0))
    ground.put()
    [token] = ground.claim()
    ground.call("done", [token], {token: RowResult(b"7")})
    assert not len(ground.fold.finished)
    assert len(ground.records[-1]) < 40


def test_a_row_that_took_up_its_follow_up_has_the_result_of_both() -> None:
    ground = Ground()
    first = ground.put(data=b"1")
    [token] = ground.claim()
    second = ground.put(data=b"2")
    assert second.outcome == "follow-up"
    ground.call("fail", [FailedClaim(token)])
    for fold in (ground.fold, ground.replayed()):
        assert list(fold.columns.absorbed) == [second.id]
    [token] = ground.claim()
    ground.call("done", [token], {token: RowResult(b"7")})
    for fold in (ground.fold, ground.replayed()):
        assert list(fold.finished.results) == [first.id, second.id]
        assert not fold.columns.absorbed


def test_a_key_is_ignored_for_as_long_as_its_put_says() -> None:
    ground = Ground()
    first = ground.put(unique_for=1000)
    [token] = ground.claim()
    ground.call("done", [token])
    ground.now += 499
    ignored = ground.put(unique_for=500)
    assert (ignored.outcome, ignored.id, len(ground.records)) == ("ignored", first.id, 3)
    ground.now += 1
    assert ground.put(unique_for=1000).outcome == "ignored"
    assert ground.decisions.totals.ignored == 2
    assert ground.replayed().finished.keys == ground.fold.finished.keys
    assert ground.put(unique_for=500).outcome == "inserted"  # it lasts no longer than the put asks for
    [token] = ground.claim()
    ground.call("done", [token])
    assert ground.put().outcome == "inserted"  # it does not ask


def test_a_row_that_did_not_have_it_is_not_remembered_unless_the_queue_says_so() -> None:
    ground = Ground()
    ground.put()
    [token] = ground.claim()
    ground.call("done", [token])
    assert ground.put(unique_for=1000).outcome == "inserted"
    ground = Ground(unique_for=Duration(1000))
    ground.put()
    [token] = ground.claim()
    ground.call("done", [token])
    assert ground.put().outcome == "ignored"
    assert ground.put(unique_for=0).outcome == "inserted"
    ground.now += 1000
    assert ground.put(b"other").outcome == "inserted"
    assert not len(ground.fold.finished)


def test_the_longest_unique_for_of_merged_puts_counts() -> None:
    ground = Ground()
    for lasts in (500, 1000, 0):
        ground.put(unique_for=lasts)
    [token] = ground.claim()
    ground.call("done", [token])
    ground.now += 999
    assert ground.put(unique_for=5000).outcome == "ignored"


def test_a_row_that_waits_or_is_processed_is_merged_as_ever() -> None:
    ground = Ground()
    assert [ground.put(unique_for=1000).outcome for _ in range(2)] == ["inserted", "merged"]
    [token] = ground.claim()
    assert [ground.put(unique_for=1000).outcome for _ in range(2)] == ["follow-up", "merged"]
    ground.call("done", [token])
    assert ground.put(unique_for=1000).outcome == "merged"


def test_a_dead_row_is_retried_although_its_key_was_done() -> None:
    ground = Ground()
    ground.put(unique_for=1000)
    [token] = ground.claim()
    ground.call("fail", [FailedClaim(token, give_up=True)])
    [dead] = ground.fold.deaths
    ground.put(unique_for=1000)
    [token] = ground.claim()
    ground.call("done", [token])
    assert ground.call("retry", dead).outcome == "inserted"


def test_carried_results_and_keys_free_the_records_before() -> None:
    ground = Ground()
    for number in range(6):
        ground.put(b"%d" % number, unique_for=HOUR)
        [token] = ground.claim()
        ground.call("done", [token], {token: RowResult(b"x" * 1000)})
    before = {id: kept[:3] for id, kept in ground.fold.finished.results.items()}
    last, slices = ground.fold.sequence, 0
    while ground.fold.finished.oldest_home <= last:
        ground.call("carry_finished", 2000, before=last)
        slices += 1
    assert slices > 2
    for fold in (ground.fold, ground.replayed()):
        assert {id: kept[:3] for id, kept in fold.finished.results.items()} == before
        assert len(fold.finished.keys) == 6
        assert fold.homes.pass_unneeded() == last + 1


def test_results_beyond_the_memory_for_them_are_forgotten_by_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished, "MOST_BYTES", 3000)
    ground = Ground()
    for number in range(20):
        ground.put(b"%d" % number)
        [token] = ground.claim()
        ground.call("done", [token], {token: RowResult(b"x" * 1000)})
    assert len(ground.fold.finished.results) == 2
    monkeypatch.setattr(finished, "MOST_BYTES", 1 << 30)
    assert ground.replayed().finished.results == ground.fold.finished.results


def test_only_the_ends_of_watched_rows_are_told() -> None:
    ground = Ground()
    puts = [ground.put(b"%d" % number) for number in range(3)]
    ground.decisions.watched = {puts[1].id, puts[2].id}
    tokens = ground.claim(2)
    ground.call("done", tokens)
    ground.call("cancel", b"2")
    assert list(ground.decisions.ended) == [(5, puts[1].id, "done"), (6, puts[2].id, "cancelled")]


def test_the_end_of_a_row_that_is_cancelled_with_another_is_told() -> None:
    ground = Ground()
    first = ground.put(b"first")
    second = ground.put(b"second", after=(first.id,), after_dead="cancel")
    ground.decisions.watched = {second.id}
    ground.call("cancel", b"first")
    ground.call("advance", 10)
    assert [(id, how) for _, id, how in ground.decisions.ended] == [(second.id, "cancelled")]
