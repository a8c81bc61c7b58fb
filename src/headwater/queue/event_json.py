"""Events of a queue as JSON."""

from __future__ import annotations

from headwater.log.json_form import show_bytes
from headwater.queue import answers
from headwater.queue.json_form import show_date
from headwater.queue.values import QueueCounts, QueueEvent


def show_event(event: QueueEvent) -> answers.ShownEvent:
    return answers.ShownEvent(
        kind=event.kind,
        date=show_date(event.date) or "",
        position=event.position,
        id=event.id,
        key=show_bytes(event.key, "text") if event.key else "",
        reason=event.reason,
        count=event.count,
        counts=None if event.counts is None else _shown_counts(event.counts, event.date),
    )


def _shown_counts(counts: QueueCounts, now: int) -> answers.EventCounts:
    return answers.EventCounts(
        rows=answers.RowCounts(**counts.rows._asdict()),
        rates=answers.EventRates(**counts.rates._asdict()),
        due_lag_seconds=max(0, now - counts.oldest_due) / 1000 if counts.oldest_due else 0.0,
        paused=counts.paused,
        waiting_claims=counts.waiting_claims,
    )
