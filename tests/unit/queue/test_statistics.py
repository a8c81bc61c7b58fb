"""The numbers of a queue."""

from __future__ import annotations

from tests.unit.queue.played import Played

from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.statistics import counts_of, statistics_of
from headwater.queue.values import Counts


def test_numbers_are_those_of_the_date_that_is_asked_for() -> None:
    played = Played(EffectiveSettings())
    played.step("put", [{"key": b"a", "data": b"1"}, {"key": b"later", "data": b"1", "delay": 50}])
    found = statistics_of(played.decisions, 3, 0, played.now)
    assert (found.counts, found.puts, found.waiting_claims, found.oldest_due) == (Counts(1, 1, 0, 0, 0), 2, 3, played.now)
    assert statistics_of(played.decisions, 0, 0, played.now + 50).counts == counts_of(played.decisions) == Counts(2, 0, 0, 0, 0)
