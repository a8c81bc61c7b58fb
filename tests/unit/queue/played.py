"""Plays steps on a fold and on the model, and compares both after each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from headwater.core.errors import BadInput, Conflict, NotFound
from headwater.queue.after_check import check_after
from headwater.queue.body import fields, key_of
from headwater.queue.checks import CheckedRow, checked_row
from headwater.queue.columns import FREE, NO_EXTRAS
from headwater.queue.data_place import LARGE, DataPlace, length_of
from headwater.queue.decisions import Decisions
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.replay import replay
from headwater.queue.results import find_result
from headwater.queue.row import NewRow, Row
from headwater.queue.row_view import row_at
from headwater.queue.schedule import schedule_of
from headwater.queue.values import FailedClaim, RowResult
from headwater.testing.queue_model import ModelRow
from headwater.testing.queue_model_after import WaitingModel

T = Callable[[Decisions], Any]


def state(fold: QueueFold) -> dict[str, Any]:
    """Everything that a fold says of its rows."""
    slots = [slot for slot in range(len(fold.columns)) if fold.columns.states[slot] != FREE]
    return {
        "rows": {slot: (_placed(fold, slot), fold.home(slot), fold.oldest_home(slot)) for slot in slots},
        "tokens": dict(fold.claims.by_token),
        "deaths": dict(fold.deaths),
        "keys": {key_of(fold.columns.bodies[slot]): slot for slot in fold.by_key.values()},
        "follow-ups": dict(fold.follow_ups),
        "paused": bool(fold.paused),
        "answers": {name: known for name, known in fold.answers if known.expires > fold.now},
        "results": {id: kept for id, kept in fold.finished.results.items() if kept.expires > fold.now},
        "done keys": {key: known for key, known in fold.finished.keys.items() if known.until > fold.now},
        "absorbed": dict(fold.columns.absorbed),
        "sequence": fold.sequence,
        "bytes": (fold.live_bytes, fold.data.bytes, fold.columns.extras.bytes, fold.deaths.bytes, fold.columns.waits.edges),
        "first": fold.homes.pass_unneeded(),
        "counts": (fold.order.due, fold.order.later),
        "waits": (
            {slot: set(ids) for slot, ids in fold.columns.waits.after.items()},
            {id: set(slots) for id, slots in fold.columns.waits.waiters.items()},
            set(fold.columns.waits.cancels),
        ),
        "blocked": fold.order.blocked,
    }


def _placed(fold: QueueFold, slot: int) -> Row:
    """A row, with the place of its data where these are on the log, whether they are kept in memory, too, or not."""
    return replace(row_at(fold, slot), data=fields(fold.columns.bodies[slot]).data)


def _poor_hash(key: bytes) -> int:
    """Of a long key: all have the same."""
    return 7


class Played:
    """A queue without a log, beside the model of one."""

    def __init__(self, settings: EffectiveSettings, now: int = 1_000_000, *, large: int = LARGE) -> None:
        self.large = large
        self.now, self.settings, self.model = now, settings, WaitingModel(settings)
        self.fold = QueueFold(hash=_poor_hash)
        self.fold.finish(now)
        self.decisions = Decisions(self.fold, settings, large=large)
        self.records: list[bytes] = []
        self.states: list[dict[str, Any]] = []
        self.claims: list[tuple[str, ModelRow]] = []
        self.numbers: dict[int, int] = {}  # ids of the queue, by numbers of the model
        self.ended: list[str] = []
        self.results: dict[int, RowResult] = {}
        self.ids: dict[bytes, int] = {}  # of the rows that were done last, by key

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
        if self.decisions.doomed:
            self.record(lambda decisions: decisions.advance(1000))
        self.model.advance(self.now)
        self.compare()

    def compare(self) -> None:
        fold = self.fold
        assert sorted(fold.columns.free) == [slot for slot in range(len(fold.columns)) if fold.columns.states[slot] == FREE]
        fold.order.promote(self.now)
        assert fold.data.kept.size <= self.settings.memory
        assert fold.data.bytes == sum(length_of(row.data) for row in self._large_rows().values())
        keys = {key_of(fold.columns.bodies[slot]): slot for slot in fold.by_key.values()}
        waiting = {(key, False): self.row(slot) for key, slot in keys.items()}
        waiting |= {(key, True): self.row(slot) for key, slot in fold.follow_ups.items()}
        assert {place: _shown(row) for place, row in waiting.items()} == {
            (key, later): _model_shown(row) for key, rows in self.model.rows.items() for later, row in enumerate(rows)
        }
        assert all(fold.by_key.find(key) == slot for key, slot in keys.items())
        for key, slot in keys.items():  # rows that have come by themselves: those of a dead row's schedule
            self.numbers.setdefault(self.model.rows[key][0].number, fold.columns.ids[slot])
        dead = {id: _shown(self.row(death.slot))[:7] for id, death in fold.deaths.items()}
        assert dead == {self.numbers[number]: _model_shown(row)[:7] for number, row in self.model.dead.items()}
        assert bool(fold.paused) == self.model.paused
        for key, those in self.model.rows.items():
            for later, one in enumerate(those):
                assert waiting[key, bool(later)].after == tuple(sorted(self.numbers[number] for number in self.model.waits_for(one)))
        if fold.columns.by_id is not None:
            assert fold.columns.by_id == {fold.columns.ids[slot]: slot for slot, state in enumerate(fold.columns.states) if state != FREE}
        rows = [rows[0] for rows in self.model.rows.values() if rows and rows[0].status == "W"]
        assert fold.order.blocked == sum(bool(self.model.waits_for(row)) for row in rows)
        rows = [row for row in rows if not self.model.waits_for(row)]
        assert (fold.order.due, fold.order.later) == (
            sum(row.process <= self.now for row in rows),
            sum(row.process > self.now for row in rows),
        )

    def row(self, slot: int) -> Row:
        """A row with its data, wherever these are."""
        row = row_at(self.fold, slot)
        return replace(row, data=self.data(row.data)) if type(row.data) is DataPlace else row

    def data(self, place: DataPlace) -> bytes:
        assert place.sequence >= self.fold.homes.pass_unneeded(), "the record of the data is not needed"
        data = place.cut(self.records[place.sequence - 1])
        assert data is not None
        return data

    def _large_rows(self) -> dict[int, Row]:
        """Rows whose data are on the log, with the places of these."""
        slots = [slot for slot in range(len(self.fold.columns)) if self.fold.columns.states[slot] != FREE]
        rows = {slot: _placed(self.fold, slot) for slot in slots}
        return {slot: row for slot, row in rows.items() if type(row.data) is DataPlace}

    def folded(self, first: int, last: int | None = None) -> QueueFold:
        """The fold of the records from a sequence on."""
        fold = QueueFold(first, hash=_poor_hash)
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
        ids = [id for _, id in sorted(self.numbers.items())]
        for row in rows:
            row = row | {"after": tuple(ids[place] for place in row.get("after", ()) if -len(ids) <= place < len(ids))}
            dated = {name: self.now + date for name, date in row.items() if name.endswith("_date")}
            checked.append(checked_row(NewRow(**{**row, **dated}), self.settings, self.now))
        if not self.fits(checked):
            return
        puts = self.record(lambda decisions: [decisions.put(new) for new in checked])
        for new, put in zip(checked, puts, strict=True):
            row = _model_row(new.key, new.data, new.priority, new.insertion, new.process, new.expiration, new.lane)
            row.every = (schedule_of(new.schedule).every or -1) if new.schedule else 0
            row.unique_for = new.unique_for
            row.after = frozenset(number for number, id in self.numbers.items() if id in new.after)
            row.after_dead = new.after_dead if new.after else ""
            outcome = self.model.put(row, self.now, dated=new.dated, own=new.own, within=new.within)
            assert put.outcome == outcome
            if outcome == "ignored":
                assert put.id == self.ids[new.key]
            if outcome in ("inserted", "follow-up"):
                self.numbers[self.model.rows[new.key][-1].number] = put.id

    def fits(self, checked: list[CheckedRow]) -> bool:
        """Whether the rows may be put: not where one of them would wait for itself."""
        self.decisions.begin(self.now)
        try:
            check_after(self.fold, checked)
            refused = False
        except BadInput:
            refused = True
        finally:
            self.decisions.end()
        if len(checked) == 1:
            [new] = checked
            target = next((row for row in reversed(self.model.rows.get(new.key, ())) if row.status == "W"), None)
            cycle = target is not None and (new.own or new.insertion >= target.update)
            if cycle and target is not None:
                before = self.model.waiters(target.number)
                given = frozenset(number for number, id in self.numbers.items() if id in new.after)
                cycle = not before.isdisjoint(self.model.heirs(given))
            assert refused == cycle
        return not refused

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
        assert counts == (row.status == "P" and self.model.rows[row.key][0] is row and self._newest(token))
        assert self.record(lambda decisions: decide(decisions, token)) == ([] if counts else [token])
        if counts:
            del self.claims[place]
            self.ended.append(token)
            self.model.end(row, how, self.now, delay)
            self.model.advance(self.now)

    def _newest(self, token: str) -> bool:
        """Whether the claim of a token is the last one of its row."""
        row = dict(self.claims)[token]
        return [other for other, claimed in self.claims if claimed is row][-1] == token

    def _done(self, place: int, delay: int | None) -> None:
        results: dict[str, RowResult] = {}

        def done(decisions: Decisions, token: str) -> list[str]:
            slot = self.fold.claims.by_token.get(token)
            if slot is not None:
                id = self.ids[key_of(self.fold.columns.bodies[slot])] = self.fold.columns.ids[slot]
                if delay is not None:
                    results[token] = self.results[id] = RowResult(b"%d" % delay)
                    self.results |= dict.fromkeys(self.fold.columns.extras.get(slot, NO_EXTRAS).absorbed, results[token])
            return decisions.done([token], results)

        self._ended("done", place, done, delay)
        for id, result in self.results.items():
            with suppress(NotFound, Conflict):
                found = find_result(self.fold, id, self.now)
                assert isinstance(found, int) or found.data == result.data

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
        row = next(iter(self.model.rows.get(key, ())), None)
        if row is None or row.status == "P":
            with pytest.raises(NotFound if row is None else Conflict):
                self.record(lambda decisions: decisions.cancel(key))
        else:
            assert self.record(lambda decisions: decisions.cancel(key)).key == key
            self.model.cancel(row)

    def _dead(self, place: int) -> tuple[int, ModelRow] | None:
        numbers = list(self.model.dead)
        return (self.numbers[numbers[place]], self.model.dead.pop(numbers[place])) if place < len(numbers) else None

    def _retry(self, place: int) -> None:
        if (dead := self._dead(place)) is not None:
            id, row = dead
            put = self.record(lambda decisions: decisions.retry(id))
            expiration = row.expiration if row.expiration > self.now else 0
            again = _model_row(row.key, row.data, row.priority, row.update, self.now, expiration, row.lane)
            again.unique_for = row.unique_for
            self.model.dead[row.number] = row
            assert put.outcome == self.model.put(again, self.now)
            self.model.follow(row.number, self.model.rows[row.key][-1])
            del self.model.dead[row.number]
            if put.outcome in ("inserted", "follow-up"):
                self.numbers[self.model.rows[row.key][-1].number] = put.id

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
        places = [row.data for row in self._large_rows().values() if type(row.data) is DataPlace]
        data = {place: self.data(place) for place in places}
        self.record(lambda decisions: decisions.carry(slots, 10_000, before=self.fold.sequence - 1, data=data))
        self.record(lambda decisions: decisions.carry_finished(10_000, before=self.fold.sequence - 1))
        assert not self.fold.data.homes

    def _cut(self) -> None:
        """Restart from the first record that is needed."""
        tokens = dict(self.fold.claims.by_token)
        self.fold = self.folded(self.fold.homes.pass_unneeded())
        self.decisions = Decisions(self.fold, self.settings, large=self.large)
        assert self.fold.claims.by_token == tokens


def _model_row(key: bytes, data: bytes, priority: int, insertion: int, process: int, expiration: int, lane: bytes) -> ModelRow:
    dates = {"insertion": insertion, "process": process, "expiration": expiration, "update": insertion}
    row = ModelRow(key=key, data=data, priority=priority, **dates)
    row.lane, row.after, row.after_dead, row.tried = lane, frozenset(), "", False
    row.absorbed = ()
    return row


def _shown(row: Row) -> tuple[Any, ...]:
    seen = (row.key, row.data, row.priority, row.insertion_date, row.expiration_date, (row.timeout_counter, row.failures), row.lane)
    return (*seen, row.process_date, row.status, row.lease_until, row.group, row.update_date, row.schedule)


def _model_shown(row: ModelRow) -> tuple[Any, ...]:
    seen = (row.key, row.data, row.priority, row.insertion, row.expiration, row.counters, row.lane)
    busy, schedule = row.status == "P", f"every {row.every}ms" if row.every > 0 else ""
    return (*seen, row.process, row.status, row.until if busy else 0, row.group if busy else "", row.update, schedule)
