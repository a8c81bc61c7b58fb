"""The offset log of a pipeline: its state, read and changed by the run and by operators at the same time.

Every change is decided on the state after all earlier changes. On the embedded engine, all processes share one claim: a process reads to
the end, decides, and appends with a guard, which refuses the append when another change came between. On Kafka, a process claims the topic
before its change, which fences the process that wrote before. The process that was refused reads the other's change and decides again.
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
from headwater.log.guard import Guard
from headwater.log.record import Record, TopicSettings
from headwater.pipeline.offsets.ownership import PART, PREFIX
from headwater.pipeline.offsets.state import Change, RunInfo, State, from_record, to_record, with_all

_CHANGE = "change"
_TRIES = 100
_FEW = 1000  # records that no compaction is worth
_OLD = 4  # records for each key, above which it is


def log_topic(pipeline: str) -> str:
    """The topic of a pipeline's messages."""
    return f"{PREFIX}{pipeline}"


def offsets_topic(pipeline: str) -> str:
    """The topic of a pipeline's offset log."""
    return f"{PREFIX}{pipeline}-offsets"


def newer_run(pipeline: str) -> Fenced:
    """The error of a run that a newer one has fenced."""
    return Fenced(f"A newer run of {pipeline} has begun.", hint="See `headwater pipeline status`.")


def pipeline_names(log: Log) -> list[str]:
    """The names of all pipelines that have run on this log."""
    before, after = offsets_topic("\n").split("\n")
    topics = [topic.name for topic in log.topics() if topic.name.startswith(before) and topic.name.endswith(after)]
    return [name.removeprefix(before).removesuffix(after) for name in topics]


class Control:
    """A pipeline's state, folded from its offset log, `topic`; `messages` is the topic of its messages. Safe for several threads.

    Creates nothing; see `create`.
    """

    def __init__(self, log: Log, pipeline: str, clock: Clock) -> None:
        self.log, self.pipeline, self.clock = log, pipeline, clock
        self.topic, self.messages = offsets_topic(pipeline), log_topic(pipeline)
        self.state = State()
        self._next = 0
        self._epochs = Epochs()
        self._writer: Writer | None = None
        self._shares_claim = True  # until the engine says that a claim belongs to one process
        self._awaited: bytes | None = None  # the mark of a change of ours
        self._found = False  # it has been read back
        self._records = 0  # that the topic has, as far as it was read
        self._lock = threading.RLock()
        try:
            self._generation = log.topic(self.topic).generation  # first: what is read afterwards is of this topic, or of a newer one
            self._next = log.bounds(self.topic, 0).start
            self.refresh()
        except UnknownTopic:
            near = meant(pipeline, pipeline_names(log))
            hint = f"{f'Did you mean {near}? ' if near else ''}List them with `headwater pipeline list`."
            raise UnknownPipeline(f"No pipeline named {pipeline} has run here.", hint=hint) from None

    @classmethod
    def create(cls, log: Log, pipeline: str, clock: Clock) -> Control:
        """The same, for a pipeline that may never have run."""
        log.create_topic(offsets_topic(pipeline), settings=TopicSettings(segment=16 << 20), part=PART)
        return cls(log, pipeline, clock)

    def identity(self) -> str:
        """The name by which sinks that hold their own positions know the pipeline: with the log's generation, since offsets are a log's."""
        return f"{self.pipeline}#{self.log.topic(self.messages).generation[:12]}"

    def check_run(self, state: State, epoch: int) -> None:
        """Errors: `Fenced` when a newer run than that of `epoch` has begun."""
        if state.run is not None and state.run.epoch > epoch:
            raise newer_run(self.pipeline)

    def mark(self, epoch: int) -> tuple[int, int]:
        """How far the offset log is read, and its newest claim there: no newer run than that of `epoch` has begun before. Errors: `Fenced`.

        Under the lock: a newer run that another thread reads between the check and the mark would lie before the mark.
        """
        with self._lock:
            self.check_run(self.state, epoch)
            return self._next, self._epochs.epoch

    def refresh(self) -> State:
        """The state with the records that were written since the last call."""
        with self._lock:
            try:
                self._read()
            except OffsetGone:  # `_rewrite` of another process has deleted the old records
                self.state, self._epochs, self._next = State(), Epochs(), self.log.bounds(self.topic, 0).start
                self._records = 0
                self._read()
            return self.state

    def _read(self) -> None:
        while records := self.log.read(self.topic, 0, self._next):
            self._records += len(records)
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
        """Append the changes that `decide` makes of the newest state; durable when this returns. It may be called several times.

        Errors: those of `decide`, after which nothing has changed; `Conflict` when others change the state without end.
        """
        with self._lock:
            self._awaited, self._found = random_id().encode(), False
            try:
                return self._change(decide, self._awaited)
            finally:
                self._awaited = None

    def change_run(self, epoch: int, decide: Callable[[RunInfo], Sequence[Change]]) -> None:
        """`change` for the run of `epoch`; nothing changes once a newer run has begun."""
        self.change(lambda state: decide(state.run) if state.run is not None and state.run.epoch == epoch else [])

    def _change(self, decide: Callable[[State], Sequence[Change]], mark: bytes) -> Sequence[Change]:
        made: list[Change] = []
        for _ in range(_TRIES):
            self._claimed()
            self.refresh()
            if self._found:
                return made  # an append whose outcome was unknown has succeeded
            made = with_all(self.state, decide(self.state))
            if not made:
                return made
            now = self.clock.now_ms()
            records = [to_record(key, value, now=now) for key, value in made]
            # The last record carries the mark: of an append that failed midway, Kafka may keep a leading part.
            records[-1] = msgspec.structs.replace(records[-1], headers=((_CHANGE, mark),))
            try:
                self._append(records)
            except _Changed:
                continue
            except (Fenced, OutcomeUnknown):
                self._writer = None
                self.check_topic()
                continue
            self.refresh()
            return made
        raise self._contended()

    def _append(self, records: Sequence[Record]) -> None:
        """Errors: `_Changed` and `Fenced` when others have changed the state since the last refresh, or have created the topic again."""
        if not self._shares_claim:
            self._claimed().append(records)
            return
        try:
            self._claimed().append(records, guard=Guard(self._next, _unchanged, self._generation))
        except Unsupported:
            self._shares_claim = False
            raise Fenced(f"The claim of {self.topic} belongs to another process.", hint="Claim it.") from None

    def _contended(self) -> Conflict:
        return Conflict(f"The offset log of {self.pipeline} is changed by others all the time.", hint="Try again.")

    def _claimed(self) -> Writer:
        """The claim of this process, or the one that all processes share."""
        if self._writer is None:
            epoch = self.log.epoch(self.topic, 0) if self._shares_claim else 0
            if epoch:
                self._writer = self.log.writer(self.topic, 0, epoch, generation=self._generation, part=PART)
            else:
                writer = self.log.claim(self.topic, 0, part=PART)
                self.check_topic()  # after the claim, which ends with the topic that it was made in
                self._writer = writer
        return self._writer

    def check_topic(self) -> None:
        """Errors: `Fenced` where the pipeline was removed and created again: the state that is known here is not the new one's."""
        if self.log.topic(self.topic).generation != self._generation:
            raise Fenced(
                f"Pipeline {self.pipeline} was removed and created again meanwhile.",
                hint="See `headwater pipeline status`, then try again.",
            )

    def compact(self) -> None:
        """Keep the last record of each key. Kafka does not compact on demand: there the state is written again and the old deleted."""
        try:
            if self.worn:  # only closed segments are compacted, and it would take long until one is full
                self._own(lambda writer: writer.roll())
            self._own(lambda writer: writer.compact())
        except Unsupported:
            self._rewrite()
        with self._lock:
            self._records = self.state.keys

    def compact_if_worn(self) -> None:
        """`compact`, where the topic has many more records than keys: each run reads them all when it begins."""
        if self.worn:
            self.compact()

    @property
    def worn(self) -> bool:
        return self._records > _FEW + _OLD * self.state.keys

    def _own(self, call: Callable[[Writer], object]) -> None:
        """Call with a claim, and again with a new one where others have claimed meanwhile. The call does not depend on their changes.

        The lock is not held during the call: a compaction must not delay the heartbeat of a run.
        """
        for _ in range(_TRIES):
            with self._lock:
                writer = self._claimed()
            try:
                call(writer)
                return
            except Fenced:
                self.check_topic()
                with self._lock:
                    self._writer = None if self._writer is writer else self._writer
        raise self._contended()

    def _rewrite(self) -> None:
        before = 0

        def all_of(state: State) -> list[Change]:
            nonlocal before
            before = self._next  # everything up to here is in the state that is written behind it
            return state.changes()

        if self.change(all_of):
            self._own(lambda writer: writer.delete_before(before))


class _Changed(Exception):
    """Others have changed the state since the last refresh."""


def _unchanged(since: Sequence[Record]) -> None:
    if since:
        raise _Changed
