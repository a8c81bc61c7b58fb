from __future__ import annotations

import pytest
from tests.unit.queue.decisions_ground import Ground

from headwater.core.errors import NotFound
from headwater.queue import selection
from headwater.queue.selection import chosen_dead, dropped_dead, found_dead, found_row, retried
from headwater.queue.statistics import counts_of
from headwater.queue.values import FailedClaim


def dead(count: int) -> Ground:
    ground = Ground()
    for number in range(count):
        ground.put(b"%d" % number)
    ground.call("fail", [FailedClaim(token, give_up=True) for token in ground.claim(count)])
    return ground


def test_a_row_is_found_by_its_key_and_by_its_id() -> None:
    ground = Ground()
    put = ground.put(b"a")
    assert [row.key for key in (b"a", put.id) for row in found_row(key, ground.decisions)] == [b"a", b"a"]
    assert (found_row(b"b", ground.decisions), found_row(7, ground.decisions)) == ([], [])


def test_dead_rows_are_chosen_by_ids_or_a_filter_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_DEAD_AT_ONCE", 3)
    ground = dead(12)
    ids = list(ground.fold.deaths)
    assert chosen_dead(ids, ground.decisions) == [ids[:3], ids[3:6], ids[6:9], ids[9:]]
    assert chosen_dead([ids[5], ids[5]], ground.decisions) == [[ids[5]]]
    assert found_dead(b"", "", ids[1], ids[-1], ground.decisions) == ([ids[2:5]], ids[4])
    assert found_dead(b"", "", ids[-4], ids[-2], ground.decisions) == ([ids[-3:-1]], ids[-1])
    assert found_dead(b"1", "", -1, ids[-1], ground.decisions) == ([[ids[1], *ids[10:]]], ids[-1])
    assert found_dead(b"", "timeouts", -1, ids[-1], ground.decisions) == ([], ids[-1])
    with pytest.raises(NotFound):
        chosen_dead([1], ground.decisions)


def test_dead_rows_that_are_gone_meanwhile_are_passed_over() -> None:
    ground = dead(3)
    first, second, third = ground.fold.deaths
    ground.decisions.begin(ground.now)
    assert dropped_dead([first, 1], ground.decisions) == 1
    assert [put.outcome for put in retried([first, second], ground.decisions)] == ["inserted"]
    ground.decisions.end()
    counts = counts_of(ground.decisions)
    assert (counts.due, counts.dead, list(ground.fold.deaths)) == (1, 1, [third])


def test_a_row_that_waits_for_many_others_is_counted() -> None:
    ground = dead(3)
    first, second, third = ground.fold.deaths
    ids = [ground.put(b"row %d" % number).id for number in range(15_000)]
    ground.put(b"0", after=tuple(ids))
    assert chosen_dead(list(ground.fold.deaths), ground.decisions) == [[first], [second, third]]
