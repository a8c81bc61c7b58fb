"""What anybody can see of projections, and decide about them, by the records of `control-<topic>` alone."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.core.errors import NotFound
from headwater.journal import projection_requests as asked
from headwater.journal.append_rows import event_rows
from headwater.journal.discovery import JournalTopic
from headwater.journal.followed import OpenEvent
from headwater.journal.position import FollowPosition
from headwater.journal.projection_records import (
    DeadDecision,
    DeadEvent,
    DeadVerb,
    PartitionReport,
    ProjectionLog,
    ProjectionReport,
    ProjectionReset,
)
from headwater.journal.shown import encode_event
from headwater.log import Log
from headwater.wire.times import show_time


def list_projections(log: Log, topic: JournalTopic, records: ProjectionLog | None = None) -> list[asked.ShownProjection]:
    """Every projection of a topic that somebody has run, sorted by name. `records`: those of an earlier look, which are read on."""
    if records is None:
        records = ProjectionLog(log, topic.name)
    records.look()
    return [_shown(log, topic, report) for report in records.known()]


def show_projection(log: Log, topic: JournalTopic, name: str) -> asked.ShownProjection:
    """One of them, with its partitions. Errors: `NotFound`."""
    return _shown(log, topic, _report(_looked(log, topic), name), whole=True)


def reset_projection(log: Log, topic: JournalTopic, request: asked.ResetProjection, who: str) -> asked.ProjectionResets:
    """Let a projection begin anew. Errors: `NotFound`."""
    records = _looked(log, topic)
    report = _report(records, request.name)
    if not request.dry_run:
        records.append([ProjectionReset(name=request.name, generation=topic.generation, why=request.why, who=who)])
    bounds = [log.bounds(topic.name, number) for number in range(topic.partitions)]
    return asked.ProjectionResets(
        topic=topic.name,
        name=request.name,
        records=sum(partition_bounds.end - partition_bounds.start for partition_bounds in bounds),
        dead=sum(len(partition.dead) for partition in report.partitions.values()),
        dry_run=request.dry_run,
    )


def dead_events(log: Log, topic: JournalTopic, name: str) -> list[asked.ShownDeadEvent]:
    """The dead events of a projection, by partition and place. Errors: `NotFound`."""
    report = _report(_looked(log, topic), name)
    events = []
    for number in sorted(report.partitions):
        partition = report.partitions[number]
        every = [(dead, "waits" if dead.waits else "failed") for _, dead in sorted(partition.dead.items())]
        if partition.stop is not None:
            every.append((partition.stop, "stops"))
        events += [asked.ShownDeadEvent(**_dead(topic, name, number, dead, state)) for dead, state in every]
    return events


def show_dead_event(log: Log, topic: JournalTopic, request: asked.DeadEventPlace, opens: OpenEvent) -> asked.DeadEventContent:
    """A dead event with what it holds in clear. `opens`: as of `PartitionFollow`. Errors: `NotFound`; those of `opens`."""
    report = _report(_looked(log, topic), request.name)
    dead, state = _find(report, request)
    record = None
    if dead.offset < log.bounds(topic.name, request.partition).end:
        record = log.read_at(topic.name, request.partition, [dead.offset])[0]
    rows = [] if record is None else event_rows(record, request.partition)
    row = next((opens(dead.id, row) for row in rows if row.seq_nr == dead.number), None)
    event = None if row is None else msgspec.json.decode(encode_event(row))
    return asked.DeadEventContent(**_dead(topic, request.name, request.partition, dead, state), event=event)


def decide_dead_event(log: Log, topic: JournalTopic, request: asked.DecideDeadEvent, verb: DeadVerb, who: str) -> asked.DeadEventDecided:
    """Let a dead event be tried again, with those of its journal that wait; or drop it. Errors: `NotFound`."""
    records = _looked(log, topic)
    _find(_report(records, request.name), request)
    if not request.dry_run:
        decision = DeadDecision(
            name=request.name, generation=topic.generation, partition=request.partition, offset=request.offset, number=request.number,
            verb=verb, why=request.why, who=who,
        )  # fmt: skip
        records.append([decision])
    return asked.DeadEventDecided(
        topic=topic.name, name=request.name, partition=request.partition, offset=request.offset, number=request.number, verb=verb,
        dry_run=request.dry_run,
    )  # fmt: skip


def _looked(log: Log, topic: JournalTopic) -> ProjectionLog:
    records = ProjectionLog(log, topic.name)
    records.look()
    return records


def _report(records: ProjectionLog, name: str) -> ProjectionReport:
    reports = {report.name: report for report in records.known()}
    if name not in reports:
        several = (
            f"Its projections: {', '.join(reports)}."
            if reports
            else "Nobody has run one: `headwater journal projection run MODULE:OBJECT`."
        )
        raise NotFound(f"{records.topic} has no projection {name}.", hint=several)
    return reports[name]


def _find(report: ProjectionReport, place: asked.DeadEventPlace) -> tuple[DeadEvent, str]:
    partition = report.partitions.get(place.partition, PartitionReport(dead={}))
    dead = partition.dead.get((place.offset, place.number))
    if dead is not None:
        return dead, "waits" if dead.waits else "failed"
    if partition.stop is not None and partition.stop.place == (place.offset, place.number):
        return partition.stop, "stops"
    raise NotFound(
        f"The projection {report.name} has no dead event {place.number} at offset {place.offset} of partition {place.partition}.",
        hint="List them with `headwater journal projection dead TOPIC NAME list`.",
    )


def _shown(log: Log, topic: JournalTopic, report: ProjectionReport, *, whole: bool = False) -> asked.ShownProjection:
    partitions = []
    for number in range(topic.partitions):
        partition_report = report.partitions.get(number, PartitionReport(dead={}))
        bounds = log.bounds(topic.name, number)
        offset = FollowPosition.read(partition_report.place).place(0).offset or 0 if partition_report.generation == topic.generation else 0
        partitions.append(
            asked.ShownProjectionPartition(
                partition=number,
                offset=offset,
                end=bounds.end,
                lag=max(0, bounds.end - offset),
                dead=len(partition_report.dead),
                error=partition_report.error,
                at=show_time(partition_report.at) if partition_report.at else None,
            )
        )
    return asked.ShownProjection(
        topic=topic.name,
        name=report.name,
        positions=report.keeps,
        on_error="stop" if report.started is None else report.started.on_error,
        lag=sum(partition.lag for partition in partitions),
        dead=sum(partition.dead for partition in partitions),
        standing=sum(1 for partition in partitions if partition.error),
        resets=report.resets,
        partitions=partitions if whole else [],
    )


def _dead(topic: JournalTopic, name: str, partition: int, dead: DeadEvent, state: str) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "name": name,
        "partition": partition,
        "offset": dead.offset,
        "number": dead.number,
        "id": dead.id,
        "state": state,
        "error": dead.error,
        "attempts": dead.attempts,
        "at": show_time(dead.at) if dead.at else None,
    }
