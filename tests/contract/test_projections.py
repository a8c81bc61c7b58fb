"""Projections held to what they promise: any split into processes, with deaths, stops and take-overs at any step, makes the same read
model: the fold of the topic, nothing twice, each journal in its order."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.journal.ground import Ground, ground_at, random_records
from tests.unit.journal.projection_ground import GivenShares, ReadModel, fold, in_order, run_of

from headwater.core.errors import DiskFull
from headwater.journal.discovery import JournalTopic
from headwater.journal.projection import Projection
from headwater.journal.projection_records import DeadVerb, ProjectionLog
from headwater.journal.projection_requests import DecideDeadEvent, ResetProjection
from headwater.journal.projection_run import ProjectionRun
from headwater.journal.projection_status import dead_events, decide_dead_event, reset_projection
from headwater.testing.clock import ManualClock


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ground_at(tmp_path / "data") as made:
        yield made


class FailingConnection(sqlite3.Connection):
    """Fails at a call of `execute`, `commit` or `rollback` that a test has chosen, counted over all connections."""

    fails_at, calls = -1, 0

    @classmethod
    def count(cls) -> None:
        cls.calls += 1
        if cls.calls == cls.fails_at:
            raise sqlite3.OperationalError("disk I/O error")

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self.count()
        return super().execute(*arguments)

    def commit(self) -> None:
        self.count()
        super().commit()

    def rollback(self) -> None:
        self.count()
        super().rollback()


class UnsafeModel(ReadModel):
    def connect(self) -> sqlite3.Connection:
        before, FailingConnection.fails_at = FailingConnection.fails_at, -1
        try:
            return super().connect()
        finally:
            FailingConnection.fails_at = before


def appended_history(ground: Ground, random: Random, count: int) -> None:
    for partition, ids in ((0, "abc"), (1, "def")):
        ground.append(*random_records(random, random.randrange(1, count), ids=ids), partition=partition)


def decide_some(ground: Ground, topic: JournalTopic, random: Random, verb: DeadVerb) -> list[tuple[str, int, int]]:
    """Decide about one dead event of the projection."""
    dead = [one for one in dead_events(ground.log, topic, "seen") if one.state == "failed"]
    if not dead:
        return []
    one = random.choice(dead)
    request = DecideDeadEvent(topic=topic.name, name="seen", partition=one.partition, offset=one.offset, number=one.number)
    decide_dead_event(ground.log, topic, request, verb, "")
    return [(one.id, one.number, one.offset)]


@pytest.mark.parametrize("seed", range(25))
def test_any_split_with_deaths_and_take_overs(ground: Ground, tmp_path: Path, seed: int) -> None:
    random, topic, model = Random(seed), ground.topic(), ReadModel(tmp_path / "model.db")
    clock = ground.clock
    assert isinstance(clock, ManualClock)
    bad = random.choice([0.0, 0.0, 0.2])
    model.fails = lambda event: random.random() < bad
    projection = model.projection(on_error="park", batch=random.choice([1, 4, 50]), attempts=random.choice([1, 3]))
    runs: list[tuple[ProjectionRun, GivenShares]] = []
    for _ in range(60):
        step = random.random()
        if step < 0.2:
            appended_history(ground, random, 8)
        elif step < 0.35:
            runs.append((run_of(ground, projection), GivenShares(random.choice([[0], [1], [0, 1]]))))  # also two owners of one partition
        elif step < 0.45 and runs:
            runs.pop(random.randrange(len(runs)))  # dies: it releases nothing
        elif step < 0.5 and runs:
            reset_projection(ground.log, topic, ResetProjection(topic=topic.name, name="seen"), "") if runs[0][0]._owned else None
        elif step < 0.55 and bad and runs and runs[0][0]._owned:
            decide_some(ground, topic, random, "retry")
        elif runs:
            run, shares = random.choice(runs)
            run._turn(shares)
            clock.advance(random.choice([0.0, 1.0, 10.0]))
    bad = 0.0
    run_of(ground, projection).run(once=True)
    while decide_some(ground, topic, random, "retry"):
        run_of(ground, projection).run(once=True)
    rows = model.rows()
    assert Counter(rows) == fold(ground.log)
    assert in_order(rows)


@pytest.mark.parametrize("on_error", ["stop", "park"])
def test_each_call_of_the_database_fails_once(tmp_path: Path, on_error: Any) -> None:
    nth = 0
    while True:
        nth += 1
        with ground_at(tmp_path / f"data{nth}") as ground:
            ground.topic()
            model = UnsafeModel(tmp_path / f"model{nth}.db")
            original = sqlite3.connect

            def connect(path: Any = model.path, original: Any = original) -> sqlite3.Connection:
                return original(path, factory=FailingConnection)  # type: ignore[no-any-return]

            model.connect().close()
            bad = {("a", 2)} if on_error == "park" else set()
            model.fails = lambda event, bad=bad: (event.id, event.seq_nr) in bad  # type: ignore[misc]
            projection = Projection("bank", "seen", model.handle, connect=connect, on_error=on_error, batch=3, attempts=1)
            random = Random(7)
            ground.append(*random_records(random, 6, ids="ab"), partition=0)
            ground.append(*random_records(random, 6, ids="cd"), partition=1)
            FailingConnection.fails_at, FailingConnection.calls = nth, 0
            run, shares, clock = run_of(ground, projection), GivenShares([0, 1]), ground.clock
            assert isinstance(clock, ManualClock)
            for _ in range(30):
                run._turn(shares)
                clock.advance(61.0)
            over = FailingConnection.calls < nth
            FailingConnection.fails_at, bad_now = -1, bad.copy()
            bad.clear()
            topic = ground.topic()
            for _ in range(10):
                if not decide_some(ground, topic, random, "retry"):
                    break
                run_of(ground, projection).run(once=True)
            assert Counter(model.rows()) == fold(ground.log), (nth, bad_now)
            assert in_order(model.rows())
        if over:
            break
    assert nth > 30


def test_each_record_of_a_position_fails_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions that are records: no event is left out, and parked events stay parked, whichever write of the log fails."""
    append = ProjectionLog.append
    calls, nth, injecting, reached = 0, 0, True, True

    def failing(records: ProjectionLog, *given: Any) -> list[int]:
        nonlocal calls
        calls += 1
        if injecting and calls == nth:
            raise DiskFull("The disk is full.", hint="Make room.")
        return append(records, *given)

    monkeypatch.setattr(ProjectionLog, "append", failing)
    while reached:
        nth, calls, injecting = nth + 1, 0, True
        with ground_at(tmp_path / f"data{nth}") as ground:
            topic = ground.topic()
            ground.append(*random_records(Random(3), 12, ids="ab"), partition=0)
            seen: list[tuple[str, int, int]] = []

            def handle(event: Any, seen: list[tuple[str, int, int]] = seen) -> None:
                if event.id == "a":
                    raise ValueError("no")
                seen.append((event.id, event.seq_nr, event.offset))

            projection = Projection("bank", "seen", handle, on_error="park", attempts=1, batch=2)
            run, shares, clock = run_of(ground, projection), GivenShares([0, 1]), ground.clock
            assert isinstance(clock, ManualClock)
            for _ in range(25):
                run._turn(shares)
                clock.advance(5.0)
            every = fold(ground.log)
            dead = {(one.id, one.number, one.offset) for one in dead_events(ground.log, topic, "seen")}
            assert set(seen) | dead == set(every)
            assert not dead.intersection(seen)
            reached, injecting, before = calls >= nth, False, len(seen)
            run_of(ground, projection).run(once=True)
            assert len(seen) == before
    assert nth > 5
