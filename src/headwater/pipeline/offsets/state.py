"""What is known of a pipeline: a pure fold of its offset log, in which the last record of each key holds.

Keys: `run`, `reader`, `reading`, `sink/NAME`, `taken/SINK/NAMESPACE`, `columns/SINK`, `unheld/SINK`, `defined/SINK`,
`edit/OFFSET[/SINK]`, `dead/SINK/OFFSET`, `trouble/SINK`, `compacting/ID`, `audit/ID`. A record without a value removes its key. Because
every record says all of its key, keeping the last of each key (compaction) changes nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Literal

import msgspec

from headwater.core.errors import Damaged
from headwater.log.record import Record
from headwater.pipeline import values
from headwater.pipeline.offsets.column_decision import ColumnDecision
from headwater.pipeline.offsets.ranges import joined
from headwater.pipeline.source_progress import CopySize, SourceProgress
from headwater.pipeline.stored_definition import StoredDefinition
from headwater.wire.json import exact

RunState = Literal["running", "done", "stopped", "failed"]
SOURCE = ""  # the source's name among the outages and the definitions of sinks


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a sink has stopped: at which offset, and what was said."""

    offset: int
    error: str
    message: str
    hint: str = ""  # what to do, in the words of whoever refused it
    of_message: bool = True  # false: the sink could not go on, by no message's fault
    trace: str = ""
    at: int = 0
    start: int = -1  # the batch in which it was noticed, where the message itself is not yet known
    end: int = -1


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The newest run. A run that finds a higher epoch here ends."""

    epoch: int
    id: str
    began: int
    state: RunState = "running"
    ended: int = 0
    error: str = ""  # why it failed, and what to do about it
    hint: str = ""
    process: str = ""
    file: str = ""  # where the pipeline was defined, so that an operator can step and replay by its name
    folder: str = ""  # where it was run: what relative paths in the file mean
    beat: int = 0  # the time of its last heartbeat
    sinks: tuple[str, ...] = ()
    stopping: bool = False  # an operator has asked it to stop
    claims: tuple[tuple[int, int], ...] = ()  # (epoch, the log's end at that claim) of the runs so far, for engines that cannot refuse


class SinkState(msgspec.Struct, frozen=True, kw_only=True):
    """A sink's position: the last offset of the contiguous prefix that it has durably taken, and the ranges that it took beyond."""

    position: int = -1
    taken: tuple[tuple[int, int], ...] = ()
    generation: int = 0  # grows when an operator moves the position: deliveries from before do not count
    told: int = 0  # the generation that the sink itself knows, where it holds its own position
    failure: Failure | None = None
    single_until: int = -1  # up to this offset one message at a time, since a batch failed there
    uncompared: int = -1  # the log's end before runs read on that could not compare it with the target; -1: it was compared since

    @property
    def stopped(self) -> bool:
        """Whether the sink stopped at a message. After a failed batch it goes on, one message at a time."""
        return self.failure is not None and self.failure.start < 0

    def has(self, offset: int) -> bool:
        """Whether the sink has taken a message."""
        return offset <= self.position or any(start <= offset < end for start, end in self.taken)

    def revived(self) -> SinkState:
        """The sink without its failure: it tries the failed messages again, one at a time."""
        if self.failure is None:
            return self
        until = max(self.single_until, self.failure.offset, self.failure.end - 1)
        return msgspec.structs.replace(self, failure=None, single_until=until)


class Unheld(msgspec.Struct, frozen=True):
    """The ranges that count as taken by a sink, and that it does not hold: put aside, acknowledged or marked by an operator."""

    spans: tuple[tuple[int, int], ...] = ()


class ReadingPosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far the source has been read: what changes of `ReaderState` with every round, without the plan, which may be long."""

    run: str  # the id of the copy: pieces of another copy do not count
    upto: int = 0  # records below this offset are in `positions`
    positions: dict[str, Any] = {}  # by number, of slices that are begun and not finished
    amounts: dict[str, int] = {}  # how much is read of each of them, in the unit of the plan's size
    finished: tuple[tuple[int, int], ...] = ()  # ranges of the numbers of slices that are read to their end
    amount: int = 0  # how much those are together
    copied: bool = False  # every Complete record is written
    ended: int = 0  # where the copy's documents end in the log, once it is copied
    cursor: Any = None  # where following goes on
    lent: tuple[tuple[int, int], ...] = ()  # on Kafka, the offsets of the records of tasks whose work was taken, of every copy


class ReaderState(ReadingPosition, frozen=True, kw_only=True):
    """What is read, and how far."""

    plan: dict[str, Any]
    begun: int  # the log's end when the plan was made: the copy's records lie behind it
    log: str = ""  # as `Control.identity`: the log that it is read into; empty where an older version has planned
    anew: int = 0  # the log's end when all of the source was last read anew: what came before may be gone from it

    @property
    def reading(self) -> ReadingPosition:
        return ReadingPosition(**{name: getattr(self, name) for name in ReadingPosition.__struct_fields__})

    @property
    def progress(self) -> SourceProgress | None:
        """How much of the source is read; None where it did not tell its size.

        A plan without slices that has a size speaks of changes: of those that were there when it was made.
        """
        if self.plan.get("size") is None:
            return None
        size = msgspec.convert(self.plan["size"], CopySize)
        return SourceProgress.of(size, self.amount + sum(self.amounts.values()), copied=self.copied and bool(self.plan["slices"]))


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A corrected copy of a message. The original stays in the log."""

    data: dict[str, Any]
    at: int = 0
    who: str = ""
    why: str = ""


class Dead(msgspec.Struct, frozen=True, kw_only=True):
    """A message put aside because its sink refused it."""

    sink: str
    offset: int
    error: str
    message: str
    trace: str = ""
    at: int = 0
    tries: int = 1

    @classmethod
    def of(cls, sink: str, failure: Failure, *, tries: int) -> Dead:
        return cls(
            sink=sink, offset=failure.offset, error=failure.error, message=failure.message, trace=failure.trace, at=failure.at, tries=tries
        )


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an operator did."""

    at: int
    who: str
    what: str
    why: str = ""
    details: dict[str, Any] = {}


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """A sink that a run waits for, because it cannot be reached, or its source. Of the run of this epoch, while that lives."""

    epoch: int
    message: str
    position: int = -1  # where the sink was then; of the source, how many records were read
    since: int = 0


class Compacting(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction that takes messages below `before` away."""

    before: int
    at: int


_OfRun = RunInfo | ReaderState | ReadingPosition | SinkState | Edit | Dead | Entry | Outage | Compacting
Value = _OfRun | ColumnDecision | StoredDefinition | Unheld | int
_KINDS: dict[str, Any] = {
    "run": RunInfo,
    "reader": ReaderState,
    "reading": ReadingPosition,
    "sink": SinkState,
    "taken": int,
    "unheld": Unheld,
    "edit": Edit,
    "dead": Dead,
    "audit": Entry,
    "trouble": Outage,
    "compacting": Compacting,
    "columns": ColumnDecision,
    "defined": StoredDefinition,
}
_decoders = {name: msgspec.json.Decoder(kind, float_hook=Decimal if kind is Edit else exact) for name, kind in _KINDS.items()}
_encoder = msgspec.json.Encoder(decimal_format="number")
_PACKED = b"zlib:"  # JSON does not begin so
_LONG = 64 << 10

Change = tuple[str, "Value | None"]


class State:
    """The fold. Mutable, and changed by `apply` alone."""

    def __init__(self) -> None:
        self.run: RunInfo | None = None
        self.reader: ReaderState | None = None
        self._plan: ReaderState | None = None  # as it was when the copy began
        self._ids: dict[str, tuple[str, ...]] | None = None  # of the plan; None: not asked for yet
        self._edits_of: dict[str, dict[int, dict[str, Any]]] = {}  # by sink, as asked for since the last edit
        self.sinks: dict[str, SinkState] = {}
        self.taken: dict[str, dict[str, int]] = {}  # sink -> namespace -> offset
        self.columns: dict[str, ColumnDecision] = {}  # by sink
        self.unheld: dict[str, Unheld] = {}  # by sink
        self.edits: dict[tuple[int, str], Edit] = {}  # (offset, sink or "")
        self.dead: dict[tuple[str, int], Dead] = {}
        self.audit: dict[str, Entry] = {}
        self.outages: dict[str, Outage] = {}  # by sink
        self.defined: dict[str, StoredDefinition] = {}  # by sink, and of the `SOURCE`: as it was when it was last used
        self.compactions: dict[str, Compacting] = {}  # those that are under way, or were when whoever did them died

    def apply(self, key: str, value: Value | None) -> None:
        kind, _, rest = key.partition("/")
        match kind, value:
            case "run", RunInfo() | None:
                self.run = value
            case "reader", ReaderState() | None:
                self.reader = self._plan = value
                self._ids = None
            case "reading", ReadingPosition() | None:
                self.reader = self._plan
                if value is not None and self._plan is not None and value.run == self._plan.run:
                    self.reader = msgspec.structs.replace(self._plan, **msgspec.structs.asdict(value))
            case "sink" | "unheld" | "audit" | "trouble" | "compacting" | "defined" | "columns", _:
                named: dict[str, dict[str, Any]] = {
                    "sink": self.sinks,
                    "unheld": self.unheld,
                    "audit": self.audit,
                    "trouble": self.outages,
                    "columns": self.columns,
                    "compacting": self.compactions,
                    "defined": self.defined,
                }
                _put(named[kind], rest, value)
            case "taken", _:
                sink, _, namespace = rest.partition("/")
                _put(self.taken.setdefault(sink, {}), namespace, value)
                if not self.taken[sink]:
                    del self.taken[sink]
            case "edit", _:
                offset, _, sink = rest.partition("/")
                _put(self.edits, (int(offset), sink), value)
                self._edits_of = {}
            case "dead", _:
                sink, _, offset = rest.rpartition("/")
                _put(self.dead, (sink, int(offset)), value)

    @property
    def keys(self) -> int:
        """How many keys have a value."""
        single = 3  # the run, the plan, and how far it is read
        operators = len(self.edits) + len(self.dead) + len(self.audit) + len(self.compactions)
        return single + operators + len(self.sinks) + len(self.outages) + len(self.defined) + sum(map(len, self.taken.values()))

    @property
    def ids(self) -> dict[str, tuple[str, ...]]:
        """By namespace, the fields that tell documents apart, by the source's plan. The same object until there is another plan."""
        if self._ids is None:
            plan = self.reader.plan if self.reader is not None else {}
            self._ids = {namespace: tuple(fields) for namespace, fields in plan.get("ids", {}).items()}
        return self._ids

    @property
    def file(self) -> str:
        """The file that the newest run was started with, for a command that somebody is to type."""
        return self.run.file if self.run is not None and self.run.file else "FILE"

    @property
    def compacting(self) -> int:
        """Messages below this offset are being taken away; 0 where no compaction is under way."""
        return max((compaction.before for compaction in self.compactions.values()), default=0)

    def sink(self, name: str) -> SinkState:
        return self.sinks.get(name, SinkState())

    def counted_apart(self, sink: str, *spans: tuple[int, int]) -> Change:
        """The change by which these ranges count as taken by a sink that does not hold them."""
        return f"unheld/{sink}", Unheld(tuple(joined([*self.unheld.get(sink, Unheld()).spans, *spans])))

    def edit_for(self, offset: int, sink: str) -> Edit | None:
        """The corrected copy that a sink is given, its own before everybody's."""
        return self.edits.get((offset, sink)) or self.edits.get((offset, ""))

    def edits_of(self, sink: str) -> dict[int, dict[str, Any]]:
        """All corrected copies that a sink is given, by offset. The same object until there is another edit."""
        edits = self._edits_of.get(sink)
        if edits is None:
            edits = {offset: edit.data for (offset, whose), edit in self.edits.items() if not whose}
            edits |= {offset: edit.data for (offset, whose), edit in self.edits.items() if whose == sink}
            self._edits_of = {**self._edits_of, sink: edits}
        return edits

    def unreachable(self, name: str) -> Outage | None:
        """The outage of a sink, or of the `SOURCE`, that the newest run has noted; None where it has noted none."""
        outage = self.outages.get(name)
        return outage if outage is not None and self.run is not None and outage.epoch == self.run.epoch else None

    def changes(self) -> list[Change]:
        """The changes that turn an empty state into this one."""
        single: list[Change] = [("run", self.run), ("reader", self.reader)]
        return [
            *(change for change in single if change[1] is not None),
            *((f"sink/{name}", sink_state) for name, sink_state in self.sinks.items()),
            *((f"taken/{sink}/{name}", offset) for sink, names in self.taken.items() for name, offset in names.items()),
            *((f"columns/{sink}", decided) for sink, decided in self.columns.items()),
            *((f"unheld/{sink}", unheld) for sink, unheld in self.unheld.items()),
            *((edit_key(offset, sink), edit) for (offset, sink), edit in self.edits.items()),
            *((f"dead/{sink}/{offset}", dead) for (sink, offset), dead in self.dead.items()),
            *((f"trouble/{sink}", outage) for sink, outage in self.outages.items()),
            *((f"defined/{sink}", definition) for sink, definition in self.defined.items()),
            *((f"compacting/{key}", compaction) for key, compaction in self.compactions.items()),
            *((f"audit/{key}", entry) for key, entry in self.audit.items()),
        ]

    def after(self, changes: Iterable[Change]) -> State:
        """A copy with these changes."""
        out = State()
        for key, value in (*self.changes(), *changes):
            out.apply(key, value)
        return out


def edit_key(offset: int, sink: str) -> str:
    """The key of a corrected copy: for one sink, or with "" for all."""
    return f"edit/{offset}/{sink}" if sink else f"edit/{offset}"


def with_all(state: State, changes: Iterable[Change]) -> list[Change]:
    """The changes; with the removal of a sink also the removal of its `taken` and `unheld` keys and its columns.

    The log holds these removals, because compaction keeps the last record of each key: without them it would bring back what a sink had
    taken before it was removed and made again.
    """
    out: list[Change] = []
    for key, value in changes:
        out.append((key, value))
        kind, _, sink = key.partition("/")
        if kind == "sink" and value is None:
            out += [(f"taken/{sink}/{namespace}", None) for namespace in state.taken.get(sink, ())]
            out += [(f"columns/{sink}", None)] if sink in state.columns else []
            out += [(f"unheld/{sink}", None)] if sink in state.unheld else []
    return out


def _put(into: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        into.pop(key, None)
    else:
        into[key] = value


def to_record(key: str, value: Value | None, *, now: int) -> Record:
    """A change as it is stored."""
    if isinstance(value, Edit):
        value = msgspec.structs.replace(value, data=values.tagged(value.data))
    data = None if value is None else _encoder.encode(value)
    if data is not None and len(data) > _LONG:  # the plan of a hundred thousand files
        data = _PACKED + zlib.compress(data)
    return Record(key.encode(), data, timestamp=now)


def from_record(record: Record) -> Change | None:
    """A stored change; None for a record of a kind that this version does not know. Errors: `Damaged`."""
    key = (record.key or b"").decode()
    decoder = _decoders.get(key.partition("/")[0])
    if decoder is None:
        return None
    try:
        data = record.value
        if data is not None and data.startswith(_PACKED):
            data = zlib.decompress(data[len(_PACKED) :])
        value = None if data is None else decoder.decode(data)
        return key, msgspec.structs.replace(value, data=values.revived(value.data)) if isinstance(value, Edit) else value
    except (msgspec.DecodeError, zlib.error) as error:
        raise Damaged(
            f"Record {record.offset} of the offset log ({key}) cannot be understood: {error}.",
            hint="Look at it with `headwater log show`, and restore it from a copy.",
        ) from error
