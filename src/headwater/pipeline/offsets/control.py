"""The offset log of a pipeline: its state, read and changed by the run and by operators at the same time.

Whoever changes something claims the topic, reads to its end, decides, and appends. Whoever wrote before finds itself fenced at its next
change, reads what the other did, and decides again. So a change is always made knowing all earlier ones, on both engines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Conflict, Fenced, OffsetGone, OutcomeUnknown, UnknownPipeline, UnknownTopic, Unsupported
from headwater.core.ids import random_id
from headwater.core.spelling import meant
from headwater.log import Log, Writer
from headwater.log.epochs import Epochs
from headwater.log.record import Record, TopicSettings
from headwater.pipeline.offsets.state import Change, State, from_record, to_record, with_all

_CHANGE = "change"
_TRIES = 100


def log_topic(pipeline: str) -> str:
    """The topic of a pipeline's messages."""
    return f"pipeline-{pipeline}"


def identity(log: Log, pipeline: str) -> str:
    """What sinks that hold their own positions know a pipeline by: its name, and which log. Another log's offsets mean other messages."""
    return f"{pipeline}#{log.topic(log_topic(pipeline)).generation[:12]}"


def offsets_topic(pipeline: str) -> str:
    """The topic of a pipeline's offset log."""
    return f"pipeline-{pipeline}-offsets"


def pipeline_names(log: Log) -> list[str]:
    """The names of all pipelines that have run on this log."""
    before, after = offsets_topic("\n").split("\n")
    found = [topic.name for topic in log.topics() if topic.name.startswith(before) and topic.name.endswith(after)]
    return [name.removeprefix(before).removesuffix(after) for name in found]


class Control:
    """A pipeline's state, folded from its offset log. Creates nothing; see `create`. Safe for several threads."""

    def __init__(self, log: Log, pipeline: str, clock: Clock) -> None:
        self.log, self.pipeline, self._clock = log, pipeline, clock
        self.topic = offsets_topic(pipeline)
        self.state = State()
        self._next = 0
        self._epochs = Epochs()
        self._writer: Writer | None = None
        self._awaited: bytes | None = None  # the mark of a change of ours
        self._found = False  # it has been read back
        self._lock = threading.RLock()
        try:
            self._next = log.bounds(self.topic, 0).start
            self.refresh()
        except UnknownTopic:
            near = meant(pipeline, pipeline_names(log))
            hint = f"{f'Did you mean {near}? ' if near else ''}List them with `headwater pipeline list`."
            raise UnknownPipeline(f"No pipeline named {pipeline} has run here.", hint=hint) from None

    @classmethod
    def create(cls, log: Log, pipeline: str, clock: Clock) -> Control:
        """The same, for a pipeline that may never have run."""
        log.create_topic(offsets_topic(pipeline), settings=TopicSettings(segment=16 << 20))
        return cls(log, pipeline, clock)

    def refresh(self) -> State:
        """Read what has been written since."""
        with self._lock:
            try:
                self._read()
            except OffsetGone:  # somebody has written the whole state anew and let go of the old
                self.state, self._epochs, self._next = State(), Epochs(), self.log.bounds(self.topic, 0).start
                self._read()
            return self.state

    def _read(self) -> None:
        while records := self.log.read(self.topic, 0, self._next):
            for record in records:
                self._next = (record.offset or 0) + 1
                if not self._epochs.admits(record):
                    continue
                if self._awaited is not None and (_CHANGE, self._awaited) in record.headers:
                    self._found = True
                change = from_record(record)
                if change is not None:
                    self.state.apply(*change)

    def change(self, decide: Callable[[State], Sequence[Change]]) -> Sequence[Change]:
        """Make changes that `decide` chooses knowing the newest state; durable when this returns. It may be asked several times.

        What it raises is passed on, and nothing has changed. Errors: `Conflict` when others change the state without end.
        """
        with self._lock:
            self._awaited, self._found = random_id().encode(), False
            try:
                return self._change(decide, self._awaited)
            finally:
                self._awaited = None

    def _change(self, decide: Callable[[State], Sequence[Change]], mark: bytes) -> Sequence[Change]:
        made: list[Change] = []
        for _ in range(_TRIES):
            if self._writer is None:
                self._writer = self.log.claim(self.topic, 0)
            self.refresh()
            if self._found:
                return made  # an append whose outcome was unknown is there
            made = with_all(self.state, decide(self.state))
            if not made:
                return made
            now = self._clock.now_ms()
            records = [to_record(key, value, now=now) for key, value in made]
            records[-1] = _marked(records[-1], mark)  # the last one: of an append that failed midway, Kafka may keep a leading part
            try:
                self._writer.append(records)
            except (Fenced, OutcomeUnknown):
                self._writer = None
                continue
            self.refresh()
            return made
        raise Conflict(f"The offset log of {self.pipeline} is changed by others all the time.", hint="Try again.")

    def compact(self) -> None:
        """Keep the last record of each key. Kafka does not compact on demand: there the state is written again and the old let go."""
        try:
            self.log.compact(self.topic, 0)
        except Unsupported:
            self._rewrite()

    def _rewrite(self) -> None:
        before = 0

        def all_of(state: State) -> list[Change]:
            nonlocal before
            before = self._next  # everything up to here is in the state that is written behind it
            changes: list[Change] = []
            if state.run is not None:
                changes.append(("run", state.run))
            if state.reader is not None:
                changes.append(("reader", state.reader))
            changes += [(f"sink/{name}", one) for name, one in state.sinks.items()]
            changes += [(f"taken/{sink}/{name}", offset) for sink, names in state.taken.items() for name, offset in names.items()]
            changes += [(f"edit/{offset}/{sink}" if sink else f"edit/{offset}", edit) for (offset, sink), edit in state.edits.items()]
            changes += [(f"dead/{sink}/{offset}", dead) for (sink, offset), dead in state.dead.items()]
            changes += [(f"trouble/{sink}", outage) for sink, outage in state.outages.items()]
            changes += [(f"audit/{key}", entry) for key, entry in state.audit.items()]
            return changes

        if self.change(all_of):
            self.log.delete_before(self.topic, 0, before)


def _marked(record: Record, mark: bytes) -> Record:
    return msgspec.structs.replace(record, headers=((_CHANGE, mark),))
