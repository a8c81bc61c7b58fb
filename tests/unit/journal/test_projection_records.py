"""The fold of the records about projections."""

from __future__ import annotations

from tests.unit.journal.ground import TOPIC, Ground

from headwater.journal.control import ControlLog, Rebuild
from headwater.journal.projection_records import (
    DeadDecision,
    DeadEvent,
    ProjectionLog,
    ProjectionProgress,
    ProjectionRecord,
    ProjectionReport,
    ProjectionReset,
    ProjectionRestarted,
    ProjectionStarted,
    ProjectionTaken,
)


def started(keeps: str = "records") -> ProjectionStarted:
    return ProjectionStarted(name="p", generation="g", keeps=keeps, on_error="stop")  # type: ignore[arg-type]


def progress(epoch: int, place: str, **more: object) -> ProjectionProgress:
    return ProjectionProgress(name="p", generation="g", partition=0, epoch=epoch, place=place, **more)  # type: ignore[arg-type]


def folded(*records: ProjectionRecord) -> ProjectionReport:
    report = ProjectionReport("p", partitions={}, decisions=[])
    for offset, record in enumerate(records):
        report.then(record, offset, 1000 + offset)
    return report


def test_a_stale_epoch_does_not_count() -> None:
    taken = ProjectionTaken(name="p", generation="g", partition=0)
    report = folded(started(), taken, progress(1, "5"), taken, progress(1, "9"), progress(3, "6"))
    assert (report.partition(0).place, report.partition(0).epoch) == ("6", 3)
    assert report.partition(1).place == ""


def test_dead_events_come_and_go() -> None:
    one, two = (DeadEvent(offset=offset, number=1, id="a", error="x") for offset in (1, 2))
    report = folded(started(), progress(1, "5", parked=(one, two)), progress(1, "6", settled=((1, 1),)))
    assert list(report.partition(0).dead) == [(2, 1)]
    assert folded(started(), progress(1, "5", parked=(one, two)), progress(1, "6", parked=(one,), whole=True)).partition(0).dead == {
        (1, 1): one
    }


def test_decisions_are_kept_until_they_are_carried_out() -> None:
    decision = DeadDecision(name="p", generation="g", partition=0, offset=1, number=1, verb="drop")
    report = folded(started(), decision, decision)
    assert report.next_decision(0, -1) == (1, decision)
    assert report.next_decision(0, 1) == (2, decision)
    assert report.next_decision(1, -1) is None
    assert folded(started(), decision, decision, progress(1, "5", decision=1)).decisions == [(2, decision)]


def test_a_restart_fences_and_forgets() -> None:
    reset = ProjectionReset(name="p", generation="g")
    restarted = ProjectionRestarted(name="p", generation="g", decision=2)
    dead = DeadEvent(offset=1, number=1, id="a")
    before = folded(started(), progress(0, "5", parked=(dead,)), reset)
    assert before.resets
    report = folded(started(), progress(0, "5", parked=(dead,)), reset, restarted, progress(0, "9"))
    partition = report.partition(0)
    assert (partition.place, partition.decision, partition.dead, report.restarted) == ("", 2, {}, 2)
    assert report.partition(7).decision == 2
    assert not report.resets
    assert not folded(started("sqlite"), progress(4, "5"), reset, progress(5, "", decision=2)).resets  # it died before it said so
    reported = folded(started("sqlite"), progress(4, "5"), reset, restarted, progress(5, "9"))
    assert reported.partition(0).place == "9"


def test_the_control_topic_holds_other_records_too(ground: Ground) -> None:
    topic = ground.topic()
    records, control = ProjectionLog(ground.log, TOPIC), ControlLog(ground.log, TOPIC)
    assert not records.look()
    control.append(Rebuild(generation=topic.generation, partition=0))
    records.append([started(), progress(0, "3")])
    assert records.look()
    assert not records.look()
    assert [report.name for report in records.known()] == ["p"]
    assert control.look()
    assert control.partition(topic.generation, 0).remade == 0
    ground.log.delete_topic(records.control, part="journal")
    assert not records.look()
    assert not records.known()
