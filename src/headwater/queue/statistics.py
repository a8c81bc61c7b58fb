"""What a queue holds, and what has happened since it was opened, as numbers."""

from __future__ import annotations

from headwater.queue.date_heap import NEVER
from headwater.queue.decisions import Decisions
from headwater.queue.values import Counts, QueueStatistics


def counts_of(decisions: Decisions) -> Counts:
    """Rows by state, where everything that is due by now counts as due already."""
    fold = decisions.fold
    return Counts(fold.order.due, fold.order.later, len(fold.follow_ups) + fold.order.blocked, len(fold.claims), len(fold.deaths))


def statistics_of(decisions: Decisions, waiting_claims: int, waiting_results: int, now: int) -> QueueStatistics:
    """The numbers of an open queue at a date. What is under way is counted."""
    order, homes, finished = decisions.fold.order, decisions.fold.homes, decisions.fold.finished
    order.promote(now)
    oldest = order.oldest_due()
    return QueueStatistics(
        counts=counts_of(decisions),
        paused=bool(decisions.fold.paused),
        waiting_claims=waiting_claims,
        waiting_results=waiting_results,
        oldest_due=0 if oldest == NEVER else oldest,
        log_records=homes.records,
        log_bytes=homes.bytes,
        results=len(finished.results),
        result_bytes=finished.result_bytes,
        done_keys=len(finished.keys),
        answers=len(decisions.fold.answers),
        answer_bytes=decisions.fold.answers.size,
        **{name: getattr(decisions.totals, name) for name in decisions.totals.__slots__},
    )
