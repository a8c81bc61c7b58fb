"""What has happened in a queue since it was opened, counted."""

from __future__ import annotations


class Totals:
    """Counts of rows."""

    __slots__ = (
        *("cancelled", "claims", "died", "done", "expired", "failed", "failed_notices"),
        *("ignored", "merges", "puts", "released", "timed_out", "told"),
    )

    def __init__(self) -> None:
        self.puts = self.merges = self.claims = self.done = self.failed = 0
        self.released = self.timed_out = self.died = self.expired = self.cancelled = self.told = self.failed_notices = self.ignored = 0
