"""How many rows a queue may still claim, where its settings limit them to so many within a period.

Part of the fold: the records of claims say when rows were claimed, so that a queue which is opened again goes on where it was.
"""

from __future__ import annotations

from collections import deque

from headwater.queue.date_heap import NEVER


class ClaimRate:
    """The claims of the last period, by their records. Without a rate it knows none."""

    def __init__(self) -> None:
        self.rate = self._period = 0
        self._starts: deque[tuple[int, int, int]] = deque()  # of each record: its date, its sequence, how many rows it has claimed
        self._count = 0

    def use(self, rate: int, period: int) -> None:
        """Let so many rows be claimed within a period of so many milliseconds; 0: any number."""
        self.rate, self._period = rate, period
        if not rate:
            self._starts.clear()
            self._count = 0

    def note(self, now: int, sequence: int, rows: int) -> None:
        """A record has claimed rows. What no later claim asks for is forgotten."""
        if not self.rate:
            return
        self._starts.append((now, sequence, rows))
        self._count += rows
        self.forget(now)
        while self._count - self._starts[0][2] >= self.rate:  # those behind it are as many as the rate allows
            self._count -= self._starts.popleft()[2]

    def allowed(self, now: int) -> int:
        """How many rows may be claimed now. There is a rate."""
        if self._starts and self._starts[-1][0] > now:  # somebody has set the clock back: they count as of now
            self._starts = deque((min(date, now), sequence, rows) for date, sequence, rows in self._starts)
        self.forget(now)
        return max(0, self.rate - self._count)

    def next_allowed(self) -> int:
        """When another row may be claimed, where none may now; else `NEVER`."""
        over = self._count - self.rate
        for date, _, rows in self._starts if self.rate and over >= 0 else ():
            over -= rows
            if over < 0:
                return date + self._period
        return NEVER

    @property
    def first(self) -> int:
        """The sequence of the first record that counts; `NEVER`: none does."""
        return self._starts[0][1] if self._starts else NEVER

    @property
    def ends(self) -> int:
        """When that record counts no longer; `NEVER`: there is none."""
        return self._starts[0][0] + self._period if self._starts else NEVER

    def forget(self, now: int) -> None:
        """Forget the claims whose period is over."""
        while self._starts and self._starts[0][0] <= now - self._period:
            self._count -= self._starts.popleft()[2]
