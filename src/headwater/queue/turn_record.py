"""The record that the short calls of one turn of the event loop share: many callers at once cost one record, not one each.

A turn is short, and the record has one time: it ends with the turn, with the millisecond, before any other record begins, and when it is
full. Each of its calls changes the fold when it is made, and is answered when the record is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headwater.queue.queue_log import QueueLog
from headwater.queue.records import HEADER, encode_header
from headwater.queue.shared_calls import SharedCalls
from headwater.queue.waiting import WaitingClaims

MOST_CALLS = 128
"""That one record has: as all keys and data in it are short, it fits into every log."""
_CLOSED = -1  # the time of no record


class TurnRecord:
    """Belongs to the event loop of its queue."""

    def __init__(self, log: QueueLog, waiting: WaitingClaims, wake: Callable[[], None]) -> None:
        """`wake`: serves the claims that wait, at the next turn."""
        self._log, self._waiting, self._wake = log, waiting, wake
        self._call_soon = asyncio.get_running_loop().call_soon
        self._scheduled = False  # `_turn_over` is
        self.now = _CLOSED
        """The time of the record that is open."""
        self.claims = False
        """Whether the first due row may be claimed without a look at anything else, as long as the record is open."""
        self.parts: list[bytes] = []
        """Of the open record. Whoever adds a change adds a future and an answer."""
        self.futures: list[asyncio.Future[Any]] = []
        self.answers: list[Any] = []

    def begin(self, now: int) -> bool:
        """Begin a record, and end the one that is open. False: something is to be done first; then none is open."""
        self.end()
        log = self._log
        decisions = log.decisions
        if log.broken or decisions.overdue(now):
            return False
        fold = decisions.fold
        fold.begin(now)
        self.now, self.parts, self.futures, self.answers = now, [encode_header(*HEADER, now)], [], []
        order = fold.order
        self.claims = not (
            fold.paused
            or fold.follow_ups
            or order.lanes.by_name
            or decisions.limited
            or self._waiting.claims
            or order.future.earliest <= now
        )
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn_over)
        if self._waiting.claims:
            self._wake()
        return True

    def end(self) -> None:
        """Write the record that is open, where it has a change."""
        if self.now == _CLOSED:
            return
        self.now = _CLOSED
        fold = self._log.decisions.fold
        if not self.futures:
            fold.abandon()
            return
        value = b"".join(self.parts)
        fold.end(len(value))
        self._log.append_for(value, SharedCalls(self.futures, self.answers))

    def _turn_over(self) -> None:
        self._scheduled = False
        self.end()
        self._log.region.start()  # not before: those who come within the turn would wait for another sync
