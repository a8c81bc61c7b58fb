"""What every target promises: all or nothing, and nothing after another process has taken over."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.journal.ground import TOPIC, Ground

from headwater.core.errors import Fenced
from headwater.journal.projection_records import DeadEvent, ProjectionLog, ProjectionProgress
from headwater.journal.projection_target import AsyncCalls, HandlerFailed, ProjectionTarget, RecordTarget
from headwater.journal.sqlite_target import SqliteTarget

DEAD = DeadEvent(offset=3, number=1, id="a", error="x", attempts=2, at=5)


@pytest.fixture(params=["records", "sqlite"])
def targets(request: pytest.FixtureRequest, ground: Ground, tmp_path: Path) -> Iterator[list[ProjectionTarget]]:
    """Two targets of one projection, as two processes have them."""
    made: list[ProjectionTarget] = []
    for _ in range(2):
        if request.param == "records":
            made.append(RecordTarget("p", ProjectionLog(ground.log, TOPIC)))
            continue
        opened = SqliteTarget(TOPIC, "p", lambda: None, AsyncCalls())
        opened.open(sqlite3.connect(tmp_path / "x.db"))
        made.append(opened)
    yield made
    for target in made:
        target.close()


def test_a_taken_partition_is_fenced(targets: list[ProjectionTarget]) -> None:
    one, two = targets
    state, dead = one.take(0, "g")
    assert (state.place, state.generation, state.decision, dead) == ("", "g", -1, [])
    one.apply(msgspec.structs.replace(state, place="1"))
    other, _ = two.take(0, "g")
    assert other.epoch > state.epoch
    called: list[Any] = []
    with pytest.raises(Fenced):
        one.apply(msgspec.structs.replace(state, place="2"), called.append)
    assert called == []
    two.apply(other)
    one.take(1, "g")  # another partition is another's
    two.apply(other)


def test_a_failing_handler_leaves_nothing(targets: list[ProjectionTarget]) -> None:
    target = targets[0]
    state, _ = target.take(0, "g")

    def work(connection: Any) -> None:
        raise KeyError("x")

    with pytest.raises(HandlerFailed) as failed:
        target.apply(msgspec.structs.replace(state, place="9"), work)
    assert isinstance(failed.value.error, KeyError)
    assert target.take(0, "g")[0].place == ""
    with pytest.raises(HandlerFailed):
        target.restart(1, "g", 5, work)
    assert target.take(0, "g")[0].decision == -1


def test_a_restart_fences_everybody(targets: list[ProjectionTarget]) -> None:
    one, two = targets
    states = [one.take(number, "g")[0] for number in range(2)]
    two.restart(2, "h", 7, None)
    for state in states:
        with pytest.raises(Fenced):
            one.apply(state)
    state, _ = one.take(0, "h")
    assert (state.place, state.decision, state.generation) == ("", 7, "h")


def test_dead_events_are_kept(ground: Ground, tmp_path: Path) -> None:
    target = SqliteTarget(TOPIC, "p", lambda: None, AsyncCalls())
    target.open(sqlite3.connect(tmp_path / "x.db"))
    state, _ = target.take(0, "g")
    target.apply(state, parked=[DEAD, msgspec.structs.replace(DEAD, number=2, waits=True)])
    again = msgspec.structs.replace(DEAD, attempts=3, error="y\x01")
    target.apply(state, parked=[again], settled=[(3, 2)])
    assert target.take(0, "g")[1] == [again]
    target.close()
    records = ProjectionLog(ground.log, TOPIC)
    plain = RecordTarget("q", records)
    state, _ = plain.take(0, "g")
    records.append([ProjectionProgress(name="q", generation="g", partition=0, epoch=state.epoch, place="4", parked=(DEAD,))])
    assert plain.take(0, "g")[1] == [DEAD]


def test_what_is_awaited() -> None:
    async def answer() -> int:
        return 7

    calls = AsyncCalls()
    assert (calls(answer()), calls(answer()), calls(8)) == (7, 7, 8)
    calls.close()
