"""One partition of a projection: what stands, what is tried again, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended
from tests.unit.journal.projection_ground import GivenShares, ReadModel, run_of

from headwater.journal.projection_partition import ProjectionPartition
from headwater.journal.projection_records import DeadDecision, ProjectionLog
from headwater.journal.projection_run import ProjectionRun
from headwater.testing.clock import ManualClock


@pytest.fixture
def model(tmp_path: Path) -> ReadModel:
    return ReadModel(tmp_path / "model.db")


def taken(run: ProjectionRun) -> ProjectionPartition:
    run._turn(GivenShares([0]))
    return run._owned[0]


def test_an_event_that_stops_is_tried_after_growing_pauses(ground: Ground, model: ReadModel) -> None:
    ground.topic()
    ground.append(appended("a", 1))
    tries: list[int] = []
    model.fails = lambda event: not tries.append(event.seq_nr)
    run, clock = run_of(ground, model.projection(attempts=1)), ground.clock
    assert isinstance(clock, ManualClock)
    partition = taken(run)
    counts = []
    for _ in range(4):
        before = len(tries)
        run._turn(GivenShares([0]))
        counts.append(len(tries) - before)  # none before the pause is over
        clock.advance(60)
        run._turn(GivenShares([0]))
    assert counts == [0, 0, 0, 0]
    assert len(tries) == 6  # in the batch, by itself, and four times later
    assert partition.error is not None
    model.fails = lambda event: False
    clock.advance(60)
    run._turn(GivenShares([0]))
    assert (partition.error, [row[1] for row in model.rows()]) == (None, [1])


def test_a_retry_is_tried_at_once(ground: Ground, model: ReadModel) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1))
    model.fails = lambda event: True
    run = run_of(ground, model.projection())
    taken(run)
    model.fails = lambda event: False
    run._turn(GivenShares([0]))
    assert not model.rows()
    decision = DeadDecision(name="seen", generation=topic.generation, partition=0, offset=0, number=1, verb="retry")
    ProjectionLog(ground.log, TOPIC).append([decision])
    run._turn(GivenShares([0]))
    run._turn(GivenShares([0]))
    assert [row[1] for row in model.rows()] == [1]


def test_a_decision_about_an_event_that_is_not_dead_changes_nothing(ground: Ground, model: ReadModel) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1))
    records = ProjectionLog(ground.log, TOPIC)
    for verb in ("drop", "retry"):
        records.append([DeadDecision(name="seen", generation=topic.generation, partition=0, offset=7, number=1, verb=verb)])  # type: ignore[arg-type]
    run_of(ground, model.projection()).run(once=True)
    assert [row[1] for row in model.rows()] == [1]


def test_a_parked_event_whose_record_is_gone_stays_dead(ground: Ground, model: ReadModel) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("b", 1))
    model.fails = lambda event: event.id == "a"
    projection: Any = model.projection(on_error="park")
    run_of(ground, projection).run(once=True)
    ground.loop().catch_up()
    ground.log.delete_before(TOPIC, 0, 1, part="journal")
    model.fails = lambda event: False
    records = ProjectionLog(ground.log, TOPIC)
    retry = DeadDecision(name="seen", generation=topic.generation, partition=0, offset=0, number=1, verb="retry")
    records.append([retry])
    assert run_of(ground, projection).run(once=True).dead == 1
    records.look()
    (dead,) = records.report("seen").partition(0).dead.values()
    assert "has deleted its record" in dead.error
    records.append([retry])
    assert run_of(ground, model.projection(on_error="park", copied=True)).run(once=True).dead == 0
    assert sorted(row[0] for row in model.rows()) == ["a", "b"]


def test_any_error_text_can_be_kept(ground: Ground, model: ReadModel) -> None:
    ground.topic()
    ground.append(appended("a\0b", 1))

    def fails(event: Any) -> bool:
        raise ValueError("\0 \udcff " + "x" * 5000)

    model.fails = fails
    assert run_of(ground, model.projection(on_error="park")).run(once=True).dead == 1
    assert run_of(ground, model.projection(on_error="park")).run(once=True).dead == 1
