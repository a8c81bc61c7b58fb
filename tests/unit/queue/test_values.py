"""Values of calls: every outcome and reason has its byte in a record; counts add up."""

from __future__ import annotations

from typing import get_args

from headwater.queue.records import OUTCOMES, REASONS
from headwater.queue.totals import Totals
from headwater.queue.values import Counts, FailedClaim, Outcome, Put, QueueStatistics, Reason


def test_every_outcome_and_every_reason_can_be_written() -> None:
    assert set(OUTCOMES) == set(get_args(Outcome))
    assert set(REASONS) == set(get_args(Reason))


def test_waiting_rows_are_due_or_to_come_or_held() -> None:
    assert Counts(due=1, future=20, held=300, processing=4000, dead=50_000).waiting == 321


def test_what_is_left_out() -> None:
    assert (Put(1, "inserted", 5).raised, Put(1, "inserted", 5).replayed) == (False, False)
    assert FailedClaim("t") == FailedClaim("t", "", None, False)


def test_statistics_have_every_total() -> None:
    assert set(Totals.__slots__) < set(QueueStatistics.__struct_fields__)
