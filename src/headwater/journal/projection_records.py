"""What the topic `control-<topic>` says about projections: their positions, parked events, and what operators have decided.

A record's value is JSON with the field `kind`:

  projection            a process runs the projection, and how it keeps its positions
  projection-taken      a process has taken a partition; the record's offset is the epoch of what it writes from then on
  projection-progress   how far a partition is, and which events it has parked or settled. Where positions are records this is the truth;
                        where they lie in the handler's database it tells those who look
  projection-restarted  the projection begins anew
  projection-reset      an operator wants it to begin anew
  projection-dead       an operator wants a parked event to be tried again, or to be dropped

A process that was stopped and has lost a partition may write its progress late: an epoch lower than the newest one does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from headwater.core.errors import UnknownTopic
from headwater.journal.control import PART, PROJECTION_KEYS, ControlRead, make_control_topic
from headwater.journal.names import control_topic
from headwater.log import Log
from headwater.log.record import Record

DeadVerb = Literal["retry", "drop"]
Keeps = Literal["records", "sqlite", "postgresql"]
EventPlace = tuple[int, int]
"""The offset of an event's record, and the event's number."""


class DeadEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event that the handler could not take. `waits`: it was not tried, because an earlier event of its journal is dead."""

    offset: int
    number: int
    id: str
    error: str = ""
    attempts: int = 0
    waits: bool = False
    at: int = 0  # milliseconds

    @property
    def place(self) -> EventPlace:
        return self.offset, self.number


class _Written(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    name: str
    generation: str


class ProjectionStarted(_Written, frozen=True, kw_only=True, tag="projection"):
    """A process runs it."""

    keeps: Keeps
    on_error: str
    tags: tuple[str, ...] = ()


class ProjectionTaken(_Written, frozen=True, kw_only=True, tag="projection-taken"):
    """A process has taken a partition."""

    partition: int


class ProjectionProgress(_Written, frozen=True, kw_only=True, tag="projection-progress"):
    """How far a partition is. `whole`: `parked` are all dead events, not those that came. `stop`: the event that the partition waits for.
    `error`: why it stands. `last`: a mark of the last event."""

    partition: int
    epoch: int
    place: str
    decision: int = -1
    last: str = ""
    parked: tuple[DeadEvent, ...] = ()
    settled: tuple[EventPlace, ...] = ()
    whole: bool = False
    stop: DeadEvent | None = None
    error: str = ""


class ProjectionRestarted(_Written, frozen=True, kw_only=True, tag="projection-restarted"):
    """It begins anew, because of the decision at this offset."""

    decision: int


class ProjectionReset(_Written, frozen=True, kw_only=True, tag="projection-reset"):
    """It shall begin anew."""

    why: str = ""
    who: str = ""


class DeadDecision(_Written, frozen=True, kw_only=True, tag="projection-dead"):
    """What becomes of a dead event."""

    partition: int
    offset: int
    number: int
    verb: DeadVerb
    why: str = ""
    who: str = ""

    @property
    def place(self) -> EventPlace:
        return self.offset, self.number


ProjectionRecord = ProjectionStarted | ProjectionTaken | ProjectionProgress | ProjectionRestarted | ProjectionReset | DeadDecision
_decoder = msgspec.json.Decoder(ProjectionRecord)


class PartitionReport(msgspec.Struct):
    """What the records say about one partition of a projection."""

    generation: str = ""
    epoch: int = -1
    place: str = ""
    decision: int = -1
    last: str = ""
    dead: dict[EventPlace, DeadEvent] = {}
    stop: DeadEvent | None = None
    error: str = ""
    at: int = 0  # milliseconds


class ProjectionReport(msgspec.Struct):
    """What the records say about a projection. `reset`: the newest decision to begin anew, -1: none. `decisions`: by offset."""

    name: str
    started: ProjectionStarted | None = None
    reset: int = -1
    restarted: int = -1
    partitions: dict[int, PartitionReport] = {}
    decisions: list[tuple[int, DeadDecision]] = []

    @property
    def keeps(self) -> Keeps:
        """Where positions are kept."""
        return "records" if self.started is None else self.started.keeps

    @property
    def resets(self) -> bool:
        """Whether it was reset, and has not begun anew yet."""
        if self.reset <= self.restarted:
            return False
        return not self.partitions or any(partition.decision < self.reset for partition in self.partitions.values())

    def partition(self, number: int) -> PartitionReport:
        """Of a partition; one that nobody has taken is at its beginning."""
        return self.partitions.setdefault(number, PartitionReport(decision=self.restarted, dead={}))

    def then(self, record: ProjectionRecord, offset: int, timestamp: int) -> None:
        """Fold one record."""
        match record:
            case ProjectionStarted():
                self.started = record
            case ProjectionTaken():
                partition = self.partition(record.partition)
                partition.generation, partition.epoch = record.generation, offset
            case ProjectionProgress():
                self._progress(record, timestamp)
            case ProjectionRestarted():
                self.restarted = record.decision
                epoch = offset if self.keeps == "records" else -1
                for number, former in self.partitions.items():
                    fence = epoch if epoch >= 0 else former.epoch
                    self.partitions[number] = PartitionReport(record.generation, fence, decision=record.decision, dead={}, at=timestamp)
                self._forget()
            case ProjectionReset():
                self.reset = offset
            case DeadDecision():
                self.decisions.append((offset, record))

    def _progress(self, progress: ProjectionProgress, timestamp: int) -> None:
        report = self.partition(progress.partition)
        if progress.epoch < report.epoch:
            return
        report.generation, report.epoch, report.place = progress.generation, progress.epoch, progress.place
        report.decision, report.last, report.stop, report.error = progress.decision, progress.last, progress.stop, progress.error
        report.at = timestamp
        if progress.whole:
            report.dead = {}
        for place in progress.settled:
            report.dead.pop(place, None)
        for dead in progress.parked:
            report.dead[dead.place] = dead
        self._forget()

    def _forget(self) -> None:
        """Forget the decisions that are carried out."""
        if self.decisions:
            self.decisions = [entry for entry in self.decisions if entry[0] > self.partition(entry[1].partition).decision]

    def next_decision(self, partition: int, after: int) -> tuple[int, DeadDecision] | None:
        """The first decision about dead events of a partition behind an offset of the control topic."""
        return next((entry for entry in self.decisions if entry[0] > after and entry[1].partition == partition), None)


class ProjectionLog:
    """The records about the projections of one topic, read on at every look. Not safe for several threads."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self.topic, self.control = log, topic, control_topic(topic)
        self._generation, self._next = "", 0
        self.projections: dict[str, ProjectionReport] = {}

    def look(self) -> bool:
        """Read on to the end; whether there was something new. Errors: those of the log."""
        try:
            generation = self._log.topic(self.control).generation
        except UnknownTopic:
            self._generation, self._next, self.projections = "", 0, {}
            return False
        if generation != self._generation:
            self._generation, self._next, self.projections = generation, 0, {}
        changed, read = False, ControlRead(self._log, self.control, self._next, projections=True)
        for record in read:
            self._next = read.end
            try:
                written = _decoder.decode(record.value or b"")
            except msgspec.MsgspecError:
                continue  # of another kind
            self.report(written.name).then(written, record.offset or 0, record.timestamp or 0)
            changed = True
        self._next = read.end
        return changed

    @property
    def end(self) -> int:
        """The offset behind the last record that was read."""
        return self._next

    def report(self, name: str) -> ProjectionReport:
        """What is known of a projection."""
        return self.projections.setdefault(name, ProjectionReport(name, partitions={}, decisions=[]))

    def known(self) -> list[ProjectionReport]:
        """The projections that somebody has run, sorted by name."""
        return [self.projections[name] for name in sorted(self.projections) if self.projections[name].started is not None]

    def append(self, records: Iterable[ProjectionRecord]) -> list[int]:
        """Write records down as one batch; return their offsets once they are durable. Makes the topic where it is missing."""
        batch = [Record(key=PROJECTION_KEYS + record.name.encode(), value=msgspec.json.encode(record)) for record in records]
        try:
            return list(self._log.append(self.control, 0, batch, part=PART))
        except UnknownTopic:
            make_control_topic(self._log, self.topic)
            return list(self._log.append(self.control, 0, batch, part=PART))
