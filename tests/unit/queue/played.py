"""Plays steps on a fold and on the model, and compares both after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.core.errors import Conflict, NotFound
from headwater.queue.checks import checked_row
from headwater.queue.columns import FREE
from headwater.queue.decisions import Decisions
from headwater.queue.fold import QueueFold
from headwater.queue.replay import replay
from headwater.queue.row import NewRow, Row
from headwater.queue.row_view import row_at
from headwater.queue.schedule import schedule_of
from headwater.queue.settings import QueueSettings
from headwater.queue.values import FailedClaim
from headwater.testing.queue_model import ModelRow, QueueModel

T = Callable[[Decisions], Any]


def state(fold: QueueFold) -> dict[str, Any]:
    """Everything that a fold says of its rows."""
    slots = [slot for slot in range(len(fold.columns)) if fold.columns.states[slot] != FREE]
    return {
        "rows": {slot: (row_at(fold, slot), fold.home(slot)) for slot in slots},
        "tokens": dict(fold.claims.by_token),
        "deaths": dict(fold.deaths),
        "keys": dict(fold.by_key),
        "follow-ups": dict(fold.follow_ups),
        "paused": bool(fold.paused),
        "answers": {name: known for name, known in fold.answers.items() if known.expires > fold.now},
        "sequence": fold.sequence,
        "bytes": fold.live_bytes,
        "first": fold.homes.pass_unneeded(),
        "counts": (fold.order.due, fold.order.later),
    }


class Played:
    """A queue without a log, beside the model of one."""

    def __init__(self, settings: QueueSettings, now: int = 1_000_000) -> None:
        self.now, self.settings, self.model = now, settings, QueueModel(settings)
        self.fold = QueueFold()
        self.fold.finish(now)
        self.decisions = Decisions(self.fold, settings)
        self.records: list[bytes] = []
        self.states: list[dict[str, Any]] = []
        self.claims: list[tuple[str, ModelRow]] = []
        self.numbers: dict[int, int] = {}  # ids of the queue, by numbers of the model
        self.ended: list[str] = []

    def record(self, decide: T) -> Any:
        """Make a record."""
        self.decisions.begin(self.now)
        try:
            return decide(self.decisions)
        finally:
            value = self.decisions.end()
            if value is not None:
                self.records.append(value[1:])
                self.fold.order.promote(self.now)
                self.states.append(state(self.fold))

    def step(self, name: str, *given: Any) -> None:
        """Do the same to both, then compare."""
        if self.decisions.overdue(self.now):
            self.record(lambda decisions: decisions.advance(1000))
        self.model.advance(self.now)
        getattr(self, "_" + name.replace("-", "_"))(*given)
        self.compare()

    def compare(self) -> None:
        fold = self.fold
        assert sorted(fold.columns.free) == [slot for slot in range(len(fold.columns)) if fold.columns.states[slot] == FREE]
        fold.order.promote(self.now)
        waiting = {(key, False): row_at(fold, slot) for key, slot in fold.by_key.items()}
        waiting |= {(key, True): row_at(fold, slot) for key, slot in fold.follow_ups.items()}
        assert {place: _shown(row) for place, row in waiting.items()} == {
            place: _model_shown(row) for place, row in self.model.rows.items()
        }
        for key, slot in fold.by_key.items():  # rows that have come by themselves: those of a dead row's schedule
            self.numbers.setdefault(self.model.rows[key, False].number, fold.columns.ids[slot])
        dead = {id: _shown(row_at(fold, death.slot))[:7] for id, death in fold.deaths.items()}
        assert dead == {self.numbers[number]: _model_shown(row)[:7] for number, row in self.model.dead.items()}
        assert bool(fold.paused) == self.model.paused
        rows = [row for (_, held), row in self.model.rows.items() if row.status == "W" and not held]
        assert (fold.order.due, fold.order.later) == (
            sum(row.process <= self.now for row in rows),
            sum(row.process > self.now for row in rows),
        )

    def folded(self, first: int, last: int | None = None) -> QueueFold:
        """The fold of the records from a sequence on."""
        fold = QueueFold(first)
        for sequence, payload in enumerate(self.records[first - 1 : last], first):
            replay(fold, sequence, payload)
        fold.finish(self.now)
        return fold

    def check_cuts(self) -> None:
        """The fold of every cut of the log, from its beginning and from the first record that was needed then, is what lived."""
        for last, lived in enumerate(self.states, 1):
            for first in {1, lived["first"]}:
                fold = self.folded(first, last)
                fold.order.promote(self.now)
                assert state(fold) == lived | {"counts": (fold.order.due, fold.order.later)}  # those depend on the time

    # -- steps ----------------------------------------------------------------------------------------------------------

    def _put(self, rows: list[dict[str, Any]]) -> None:
        checked = []
        for row in rows:
            dated = {name: self.now + date for name, date in row.items() if name.endswith("_date")}
            checked.append(checked_row(NewRow(**{**row, **dated}), self.settings, self.now))
        puts = self.record(lambda decisions: [decisions.put(new) for new in checked])
        for new, put in zip(checked, puts, strict=True):
            row = _model_row(new.key, new.data, new.priority, new.insertion, new.process, new.expiration, new.lane)
            row.every = (schedule_of(new.schedule).every or -1) if new.schedule else 0
            outcome = self.model.put(row, self.now, dated=new.dated)
            assert put.outcome == outcome
            if outcome in ("inserted", "follow-up"):
                self.numbers[self.model.rows[new.key, outcome == "follow-up"].number] = put.id

    def _claim(self, n: int, lease: int, group: str) -> None:
        claims = self.record(lambda decisions: [] if self.fold.paused else decisions.claim(n, lease, group, "w"))
        for claim in claims:
            rows = {row.key: row for row in self.model.claimable(self.now, group)}
            assert claim.row.key in rows
            assert claim.lease_until == self.now + lease
            row = rows[claim.row.key]
            row.status, row.until, row.group = "P", self.now + lease, group
            self.claims.append((claim.token, row))
        assert len(claims) == n or not self.model.claimable(self.now, group)

    def _taken(self, place: int) -> tuple[str, ModelRow, bool] | None:
        """A token that was given out, its row, and whether it still counts."""
        if place >= len(self.claims):
            return None
        token, row = self.claims[place]
        return token, row, token in self.fold.claims.by_token

    def _ended(self, how: str, place: int, decide: Callable[[Decisions, str], list[str]], delay: int | None) -> None:
        if (taken := self._taken(place)) is None:
            return
        token, row, counts = taken
        assert counts == (row.status == "P" and self.model.rows.get((row.key, False)) is row and self._newest(token))
        assert self.record(lambda decisions: decide(decisions, token)) == ([] if counts else [token])
        if counts:
            del self.claims[place]
            self.ended.append(token)
            self.model.end(row, how, self.now, delay)

    def _newest(self, token: str) -> bool:
        """Whether the claim of a token is the last one of its row."""
        row = dict(self.claims)[token]
        return [other for other, claimed in self.claims if claimed is row][-1] == token

    def _done(self, place: int, delay: int | None) -> None:
        self._ended("done", place, lambda decisions, token: decisions.done([token]), delay)

    def _released(self, place: int, delay: int | None) -> None:
        self._ended("released", place, lambda decisions, token: decisions.release([token], delay), delay)

    def _failed(self, place: int, delay: int | None) -> None:
        self._ended("failed", place, lambda decisions, token: decisions.fail([FailedClaim(token, "why", delay)]), delay or 0)

    def _given_up(self, place: int, delay: int | None) -> None:
        self._ended("given-up", place, lambda decisions, token: decisions.fail([FailedClaim(token, "why", give_up=True)]), delay)

    def _extend(self, place: int, lease: int) -> None:
        if (taken := self._taken(place)) is not None:
            token, row, counts = taken
            assert self.record(lambda decisions: decisions.extend([token], lease)) == ([] if counts else [token])
            if counts:
                row.until = self.now + lease

    def _stale(self) -> None:
        tokens = [*self.ended[-2:], "", "1", "x-y-z", "0-0"]
        before = state(self.fold)
        assert self.record(lambda decisions: decisions.done(tokens) + decisions.extend(tokens, 5)) == tokens + list(dict.fromkeys(tokens))
        assert state(self.fold) == before

    def _cancel(self, key: bytes) -> None:
        row = self.model.rows.get((key, False))
        if row is None or row.status == "P":
            with pytest.raises(NotFound if row is None else Conflict):
                self.record(lambda decisions: decisions.cancel(key))
        else:
            assert self.record(lambda decisions: decisions.cancel(key)).key == key
            del self.model.rows[key, False]

    def _dead(self, place: int) -> tuple[int, ModelRow] | None:
        numbers = list(self.model.dead)
        return (self.numbers[numbers[place]], self.model.dead.pop(numbers[place])) if place < len(numbers) else None

    def _retry(self, place: int) -> None:
        if (dead := self._dead(place)) is not None:
            id, row = dead
            put = self.record(lambda decisions: decisions.retry(id))
            expiration = row.expiration if row.expiration > self.now else 0
            again = _model_row(row.key, row.data, row.priority, row.update, self.now, expiration, row.lane)
            assert put.outcome == self.model.put(again, self.now)
            if put.outcome in ("inserted", "follow-up"):
                self.numbers[self.model.rows[row.key, put.outcome == "follow-up"].number] = put.id

    def _drop(self, place: int) -> None:
        if (dead := self._dead(place)) is not None:
            self.record(lambda decisions: decisions.drop([dead[0]]))

    def _pause(self) -> None:
        self.record(Decisions.pause)
        self.model.paused = True

    def _resume(self) -> None:
        self.record(Decisions.resume)
        self.model.paused = False

    def _carry(self) -> None:
        slots = [slot for slot in range(len(self.fold.columns)) if self.fold.columns.states[slot] != FREE]
        self.record(lambda decisions: decisions.carry(slots, 10_000, before=self.fold.sequence - 1))

    def _cut(self) -> None:
        """Restart from the first record that is needed."""
        tokens = dict(self.fold.claims.by_token)
        self.fold = self.folded(self.fold.homes.pass_unneeded())
        self.decisions = Decisions(self.fold, self.settings)
        assert self.fold.claims.by_token == tokens


def _model_row(key: bytes, data: bytes, priority: int, insertion: int, process: int, expiration: int, lane: bytes) -> ModelRow:
    dates = {"insertion": insertion, "process": process, "expiration": expiration, "update": insertion}
    row = ModelRow(key=key, data=data, priority=priority, **dates)
    row.lane = lane
    return row


def _shown(row: Row) -> tuple[Any, ...]:
    seen = (row.key, row.data, row.priority, row.insertion_date, row.expiration_date, (row.timeout_counter, row.failures), row.lane)
    return (*seen, row.process_date, row.status, row.lease_until, row.group, row.update_date, row.schedule)


def _model_shown(row: ModelRow) -> tuple[Any, ...]:
    seen = (row.key, row.data, row.priority, row.insertion, row.expiration, row.counters, row.lane)
    busy, schedule = row.status == "P", f"every {row.every}ms" if row.every > 0 else ""
    return (*seen, row.process, row.status, row.until if busy else 0, row.group if busy else "", row.update, schedule)
