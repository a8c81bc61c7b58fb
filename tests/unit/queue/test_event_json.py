from __future__ import annotations

from headwater.queue.event_json import show_event
from headwater.queue.values import QueueEvent


def test_a_death_is_told_with_its_row_and_why() -> None:
    shown = show_event(QueueEvent("dead", 1000, 7, b"k", "attempts"))
    assert (shown.kind, shown.id, shown.key, shown.reason, shown.date) == ("dead", 7, "k", "attempts", "1970-01-01T00:00:01.000Z")
