"""The topic `control-<topic>`: what operators have decided about a topic of journals. Its records are the truth; stores hold none of it.

A record's value is JSON with the field `kind`:

  quarantine   leaves an unreadable record out: folds skip its offset from then on
  replay       takes a quarantine back; the partition's copy is made anew, because records behind it are copied already
  rebuild      makes the copy of a partition anew from the log

Every record says who has decided and why, so the topic is the audit, too. Other kinds belong to others: this fold passes over them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.core.errors import UnknownTopic
from headwater.journal.names import control_topic
from headwater.log import Log
from headwater.log.record import Record

PART = "journal"
PROJECTION_KEYS = b"projection/"
"""The keys of the records of projections begin with it."""
_CHUNK = 1000
_MANY = 5000  # records that are quicker to read as columns


class _Decision(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    generation: str
    partition: int
    why: str = ""
    who: str = ""


class Quarantine(_Decision, frozen=True, kw_only=True, tag="quarantine"):
    """Leave the record at `offset` out. `error`: why it could not be read."""

    offset: int
    error: str = ""


class Replay(_Decision, frozen=True, kw_only=True, tag="replay"):
    """Count the record at `offset` again, which was left out."""

    offset: int


class Rebuild(_Decision, frozen=True, kw_only=True, tag="rebuild"):
    """Make the copy of a partition anew."""


Decision = Quarantine | Replay | Rebuild


class AuditEntry(msgspec.Struct, frozen=True):
    """A decision with its place in the control topic. `timestamp`: milliseconds."""

    offset: int
    timestamp: int
    decision: Decision


class PartitionControl(msgspec.Struct, frozen=True):
    """What is decided about one partition of one generation. `remade`: the newest decision, by its offset in the control topic, that wants
    the copy made anew; -1: there is none."""

    quarantined: tuple[int, ...] = ()
    remade: int = -1

    def then(self, decision: Decision, offset: int) -> PartitionControl:
        """What holds after a decision at an offset of the control topic."""
        if isinstance(decision, Quarantine):
            return msgspec.structs.replace(self, quarantined=tuple(sorted({*self.quarantined, decision.offset})))
        if isinstance(decision, Replay):
            if decision.offset not in self.quarantined:
                return self
            return PartitionControl(tuple(record_offset for record_offset in self.quarantined if record_offset != decision.offset), offset)
        return msgspec.structs.replace(self, remade=offset)


NOTHING = PartitionControl()
_kind = msgspec.json.Decoder(Decision)


def decision_of(record: Record) -> Decision | None:
    """The decision that a record holds; None for a record of another kind."""
    try:
        decision: Decision = _kind.decode(record.value or b"")
    except msgspec.MsgspecError:
        return None
    return decision


class ControlLog:
    """The decisions about one topic of journals, read on at every look. Not safe for several threads."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self.topic, self.name = log, topic, control_topic(topic)
        self._generation = ""
        self._next = 0
        self._partitions: dict[tuple[str, int], PartitionControl] = {}

    @property
    def found(self) -> bool:
        """Whether the last look has found the control topic."""
        return self._generation != ""

    def look(self) -> bool:
        """Read on to the end; whether there was something new. A topic that does not exist holds nothing. Errors: those of the log."""
        try:
            generation = self._log.topic(self.name).generation
        except UnknownTopic:
            forgotten, self._generation, self._next, self._partitions = bool(self._partitions), "", 0, {}
            return forgotten
        if generation != self._generation:
            self._generation, self._next, self._partitions = generation, 0, {}
        changed, read = False, ControlRead(self._log, self.name, self._next, projections=False)
        for record in read:
            if (decision := decision_of(record)) is not None:
                place = decision.generation, decision.partition
                self._partitions[place] = self.partition(*place).then(decision, record.offset or 0)
                changed = True
            self._next = read.end
        self._next = read.end
        return changed

    def partition(self, generation: str, partition: int) -> PartitionControl:
        """What the records read so far decide about a partition of this generation of the topic."""
        return self._partitions.get((generation, partition), NOTHING)

    def append(self, decision: Decision) -> int:
        """Write a decision down; return its offset once it is durable. Makes the topic where it is missing."""
        record = Record(key=str(decision.partition).encode(), value=msgspec.json.encode(decision))
        try:
            return self._log.append(self.name, 0, [record], part=PART)[0]
        except UnknownTopic:
            make_control_topic(self._log, self.topic)
            return self._log.append(self.name, 0, [record], part=PART)[0]

    def audit(self) -> Iterator[AuditEntry]:
        """Every decision, oldest first."""
        try:
            records = list(ControlRead(self._log, self.name, 0, projections=False))
        except UnknownTopic:
            return
        for record in records:
            if (decision := decision_of(record)) is not None:
                yield AuditEntry(record.offset or 0, record.timestamp or 0, decision)


def make_control_topic(log: Log, topic: str) -> None:
    """Make the control topic of a topic of journals, unless another process has done so. Errors: those of `Log.create_topic`."""
    log.create_topic(control_topic(topic), partitions=1, part=PART)


class ControlRead:
    """The records of a control topic from an offset on: those of `projections`, or all others. `end`: up to where they are read; it moves
    while they are taken.

    Projections write a position about every second, so nearly all records are theirs: many at once are read as columns, and those that are
    not asked for stay there. Errors: `UnknownTopic`; those of the log.
    """

    def __init__(self, log: Log, topic: str, start: int, *, projections: bool) -> None:
        self._log, self._topic, self._projections = log, topic, projections
        self._bounds = log.bounds(topic, 0)
        self.end = max(start, self._bounds.start)

    def __iter__(self) -> Iterator[Record]:
        end = self._bounds.end
        if end - self.end > _MANY:
            yield from self._scanned(end)
        while self.end < end and (records := self._log.read(self._topic, 0, self.end, limit=_CHUNK)):
            for record in records:
                self.end = (record.offset or 0) + 1
                if (record.key or b"").startswith(PROJECTION_KEYS) is self._projections:
                    yield record

    def _scanned(self, end: int) -> Iterator[Record]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in self._log.scan(self._topic, 0, self.end, end):
            keys = batch.column("key").cast(pa.binary())
            of_projections = pc.fill_null(pc.starts_with(keys, PROJECTION_KEYS), False)
            rows = pc.indices_nonzero(of_projections if self._projections else pc.invert(of_projections)).to_pylist()
            columns = [batch.column(name) for name in ("key", "value", "timestamp", "offset")]
            if len(rows) > batch.num_rows // 4:  # quicker as a whole than one by one
                all_rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
                row_cells = (all_rows[row] for row in rows)
            else:
                row_cells = (tuple(column[row].as_py() for column in columns) for row in rows)
            for key, value, timestamp, offset in row_cells:
                self.end = offset + 1
                yield Record(key, value, (), timestamp, offset=offset)
            self.end = batch.column("offset")[-1].as_py() + 1
