"""Decides what becomes of rows that are done: they go, or wait for their next run; their results and keys are kept for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from headwater.queue import records
from headwater.queue.body import key_of
from headwater.queue.bulk import done_many
from headwater.queue.columns import NO_EXTRAS, Extras
from headwater.queue.data_place import LARGE
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.finished import SAME, KeptResult
from headwater.queue.fold import QueueFold
from headwater.queue.put_decisions import PutDecisions
from headwater.queue.records import SlotId, encode_rows
from headwater.queue.recurrence import end_run
from headwater.queue.values import RowResult

End = KeptResult | Literal["done", "dead", "cancelled", "expired"] | int
"""How a row has ended: with a result, without one, or taken up by the row of an id."""


class FinishDecisions(PutDecisions):
    """Decides for one queue what becomes of its done rows. `begin`, then calls, then `end`."""

    def __init__(self, fold: QueueFold, settings: EffectiveSettings, *, large: int = LARGE) -> None:
        super().__init__(fold, settings, large=large)
        self.watched: Collection[int] = ()
        """The ids of rows for whose end somebody waits."""
        self.ended: deque[tuple[int, int, End]] = deque()
        """How such rows have ended: by which record, which row, how. Whoever tells it removes it."""

    def done(self, tokens: Sequence[str], results: Mapping[str, RowResult] | None = None) -> list[str]:
        """Remove rows that are processed, and keep the results that are given for their tokens; return the tokens that no longer count."""
        fold, by_token, stale = self.fold, self.fold.claims.by_token, list[str]()
        plain = len(tokens) > 1 and not (results or self.remembers or self.watched)
        rows = done_many(fold, tokens) if plain else []
        self.totals.done += len(rows)
        for token in () if rows else tokens:
            slot = by_token.get(token)
            if slot is None:
                stale.append(token)
                continue
            self.totals.done += 1
            extras = fold.columns.extras.get(slot, NO_EXTRAS) if fold.columns.extras else NO_EXTRAS
            id, key = fold.columns.ids[slot], key_of(fold.columns.bodies[slot])
            if extras.recurs:
                self._parts.extend(end_run(fold, slot, self._now))
            else:
                rows.append((slot, id))
                fold.done(slot)
            if self.remembers or extras.unique_for:
                self._remember(key, id, max(extras.unique_for, int(self.settings.unique_for)))
            result = results.get(token) if results else None
            if result is not None and self.settings.results:
                self._keep(id, extras, result)
            elif id in self.watched:
                self._end(id, "done")
            if extras.recurs and self._full():
                self._done(rows)
                rows = []
                self.on_full()
        self._done(rows)
        if results and (surplus := fold.finished.surplus()):
            self._parts.append(encode_rows(records.FORGET, [(0, id) for id in surplus]))
            fold.finished.forget(surplus)
        return stale

    def _done(self, rows: list[SlotId]) -> None:
        if rows:
            self._parts.append(encode_rows(records.DONE, rows))

    def _keep(self, id: int, extras: Extras, result: RowResult) -> None:
        expires = self._now + self.settings.results
        self._write(id, expires, result.form, result.data)
        for absorbed in extras.absorbed:
            self._write(absorbed, expires, SAME, id.to_bytes(8))
        self._end(id, self.fold.finished.results[id])

    def _write(self, id: int, expires: int, form: int, data: bytes) -> int:
        """Keep a result; return how many bytes the record has of it."""
        part = records.encode_result(id, expires, form, data)
        self._parts.append(part)
        self.fold.finished.keep(id, expires, form, data)
        return len(part)

    def _remember(self, key: bytes, id: int, lasts: int) -> None:
        known = self.fold.finished.keys.get(key)
        until = max(self._now + lasts, known.until if known is not None else 0)
        self._parts.append(records.encode_unique(key, id, self._now, until))
        self.fold.finished.remember(key, id, self._now, until)

    def _end(self, id: int, how: End) -> None:
        """A row has ended: tell those who wait for it, once that is durable."""
        if id in self.watched:
            self.ended.append((self.fold.sequence, id, how))

    def carry_finished(self, most_bytes: int, *, before: int) -> None:
        """Write results and keys again whose homes are up to the sequence `before`; up to `most_bytes`, or one that is larger."""
        finished, size = self.fold.finished, 0
        while finished.results and (result := next(iter(finished.results.items())))[1].home <= before:
            if size and size + len(result[1].data) > most_bytes:
                return
            size += self._write(result[0], *result[1][:3])
        while finished.keys and (known := next(iter(finished.keys.items())))[1].home <= before and size <= most_bytes:
            part = records.encode_unique(known[0], *known[1][:3])
            self._parts.append(part)
            finished.remember(known[0], *known[1][:3])
            size += len(part)
