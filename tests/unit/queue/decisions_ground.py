"""The ground of tests of decisions."""

from __future__ import annotations

from typing import Any

from headwater.queue.checks import checked_row
from headwater.queue.decisions import Decisions
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.replay import replay
from headwater.queue.row import NewRow, Row
from headwater.queue.row_view import row_at
from headwater.queue.values import Put


class Ground:
    """Decisions on a fold, at a time that tests move."""

    def __init__(self, **settings: Any) -> None:
        self.fold, self.now, self.records = QueueFold(), 1_000_000, list[bytes]()
        self.fold.finish(self.now)
        self.decisions = Decisions(self.fold, EffectiveSettings(**settings))

    def call(self, name: str, *given: Any, **named: Any) -> Any:
        """A call by its name, as one record."""
        self.decisions.begin(self.now)
        try:
            return getattr(self.decisions, name)(*given, **named)
        finally:
            value = self.decisions.end()
            if value is not None:
                self.records.append(value)

    def put(self, key: bytes = b"k", data: bytes = b"1", **given: Any) -> Put:
        put: Put = self.call("put", checked_row(NewRow(key=key, data=data, **given), self.decisions.settings, self.now))
        return put

    def claim(self, n: int = 1, lease: int = 50, group: str = "g") -> list[str]:
        return [claimed.token for claimed in self.call("claim", n, lease, group, "w")]

    def row(self, key: bytes = b"k") -> Row:
        return row_at(self.fold, self.fold.by_key[key])

    def replayed(self) -> QueueFold:
        fold = QueueFold()
        for sequence, value in enumerate(self.records, 1):
            replay(fold, sequence, value[1:])
        fold.finish(self.now)
        return fold
