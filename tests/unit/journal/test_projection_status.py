"""What anybody can see of projections."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended
from tests.unit.journal.projection_ground import ReadModel, run_of

from headwater.core.errors import NotFound
from headwater.journal import projection_status as status
from headwater.journal.projection_requests import DeadEventPlace, DecideDeadEvent, ResetProjection


def test_status(ground: Ground, tmp_path: Path) -> None:
    topic, model = ground.topic(), ReadModel(tmp_path / "model.db")
    assert status.list_projections(ground.log, topic) == []
    with pytest.raises(NotFound, match="no projection seen") as none:
        status.show_projection(ground.log, topic, "seen")
    assert "projection run" in none.value.hint
    ground.append(appended("a", 1), appended("a", 2), appended("b", 1))
    model.fails = lambda event: event.id == "a"
    run_of(ground, model.projection(on_error="park")).run(once=True)
    ground.append(appended("b", 2), partition=0)
    shown = status.show_projection(ground.log, topic, "seen")
    assert (shown.lag, shown.dead, shown.standing, shown.on_error) == (1, 2, 0, "park")
    assert [(one.offset, one.end, one.lag, one.dead) for one in shown.partitions] == [(3, 4, 1, 2), (0, 0, 0, 0)]
    with pytest.raises(NotFound, match="no projection other") as several:
        status.dead_events(ground.log, topic, "other")
    assert "seen" in several.value.hint


def test_dead_events_are_shown_with_what_they_hold(ground: Ground, tmp_path: Path) -> None:
    topic, model = ground.topic(), ReadModel(tmp_path / "model.db")
    ground.append(appended("a", 1), appended("a", 2))
    model.fails = lambda event: True
    run_of(ground, model.projection(on_error="park")).run(once=True)
    place = DeadEventPlace(topic=TOPIC, name="seen", partition=0, offset=0, number=1)
    shown = status.show_dead_event(ground.log, topic, place, lambda id, row: row)
    assert shown.event is not None
    assert (shown.event["payload"], shown.state, shown.error) == ("a 1", "failed", "ValueError: no a 1")
    wrong = DecideDeadEvent(topic=TOPIC, name="seen", partition=1, offset=0, number=1)
    with pytest.raises(NotFound, match="no dead event 1 at offset 0 of partition 1"):
        status.decide_dead_event(ground.log, topic, wrong, "drop", "")
    end = ground.log.bounds(f"control-{TOPIC}", 0).end
    dry = DecideDeadEvent(topic=TOPIC, name="seen", partition=0, offset=0, number=1, dry_run=True)
    assert status.decide_dead_event(ground.log, topic, dry, "drop", "").dry_run
    assert status.reset_projection(ground.log, topic, ResetProjection(topic=TOPIC, name="seen", dry_run=True), "").dead == 2
    assert ground.log.bounds(f"control-{TOPIC}", 0).end == end
    ground.loop().catch_up()
    ground.log.delete_before(TOPIC, 0, 2, part="journal")
    assert status.show_dead_event(ground.log, topic, place, lambda id, row: row).event is None
