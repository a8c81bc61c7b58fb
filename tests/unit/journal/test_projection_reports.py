"""When the progress of a partition is written."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.journal.ground import TOPIC, Ground

from headwater.core.errors import HeadwaterError
from headwater.journal.projection_records import DeadEvent, ProjectionLog
from headwater.journal.projection_reports import ProgressWriter
from headwater.journal.projection_target import ProjectionState, TargetUnavailable
from headwater.testing.clock import ManualClock

STATE = ProjectionState(partition=0, generation="g", epoch=1)


def at(place: str, **more: object) -> ProjectionState:
    return msgspec.structs.replace(STATE, place=place, **more)


def count(records: ProjectionLog, ground: Ground) -> int:
    records.look()
    return ground.log.bounds(records.control, 0).end


def test_progress_alone_is_written_at_its_pace(ground: Ground) -> None:
    records, clock = ProjectionLog(ground.log, TOPIC), ground.clock
    assert isinstance(clock, ManualClock)
    writer = ProgressWriter("p", records, "sqlite", clock)
    writer.whole(STATE, [])
    assert count(records, ground) == 1
    for place in ("1", "2", "3"):
        writer.note(at(place), (), ())
        writer.flush(at(place), None, None)
    assert count(records, ground) == 1
    clock.advance(5)
    writer.flush(at("3"), None, None)
    writer.flush(at("3"), None, None, now=True)
    assert (count(records, ground), records.report("p").partition(0).place) == (2, "3")
    writer.flush(at("3"), None, HeadwaterError("Why.", hint="What to do."), now=True)
    assert count(records, ground) == 3
    assert records.report("p").partition(0).error == "Why. What to do."


def test_dead_events_and_decisions_are_written_at_once(ground: Ground) -> None:
    records = ProjectionLog(ground.log, TOPIC)
    writer = ProgressWriter("p", records, "records", ground.clock)
    writer.whole(STATE, [])
    dead = [DeadEvent(offset=offset, number=1, id="a", error="x") for offset in range(2500)]
    writer.note(at("9"), dead, ())
    assert count(records, ground) == 3  # no record becomes too large
    assert len(records.report("p").partition(0).dead) == 2500
    writer.note(at("9"), (), [(7, 1)])
    assert len(records.report("p").partition(0).dead) == 2500
    assert count(records, ground) == 4
    assert len(records.report("p").partition(0).dead) == 2499
    writer.note(at("9", decision=2), (), ())
    assert count(records, ground) == 5


def test_a_log_that_cannot_be_written_is_told(ground: Ground) -> None:
    records = ProjectionLog(ground.log, TOPIC)
    writer = ProgressWriter("p", records, "sqlite", ground.clock)
    ground.log.close()
    with pytest.raises(TargetUnavailable):
        writer.whole(STATE, [])
