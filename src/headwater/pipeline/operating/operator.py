"""What an operator sees and does: every word of it is a change of the offset log, made beside a live run, and audited."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadBounds, BadInput, Conflict, NotFound, UnknownPipeline, UnknownSink
from headwater.core.ids import random_id
from headwater.log import Log
from headwater.log.record import Bounds, Mode, Record
from headwater.pipeline import values
from headwater.pipeline.definition import Sink
from headwater.pipeline.message import Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.compaction import Freed, compact, has_holes
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.liveness import life
from headwater.pipeline.offsets.ranges import prefix
from headwater.pipeline.offsets.state import Change, Dead, Edit, Entry, Failure, RunInfo, SinkState, State
from headwater.pipeline.operating.answers import Place, Refusal, Seen, moment, refusal
from headwater.pipeline.operating.seeing import Eyes, text_of
from headwater.pipeline.running.work import Delivery

_SUFFIX = "-offsets"
_KEPT = 2048  # characters of a document that the audit keeps: it stays for ever, and everybody who looks reads all of it
Decide = Callable[[State], Sequence[Change]]


def pipelines(log: Log) -> list[str]:
    """The names of all pipelines that have run on this log."""
    return [
        topic.name.removeprefix("pipeline-").removesuffix(_SUFFIX)
        for topic in log.topics()
        if topic.name.startswith("pipeline-") and topic.name.endswith(_SUFFIX)
    ]


def who_am_i() -> str:
    """Who an operator is, for the audit."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


class Operator:
    """One pipeline, looked at and changed. Looking creates nothing. Every change takes `dry_run`, and is audited with who and why.

    Errors: `UnknownPipeline`, `UnknownSink`, `BadBounds` for an offset that is not in the log.
    """

    def __init__(self, log: Log, pipeline: str, *, clock: Clock | None = None, who: str = "", control: Control | None = None) -> None:
        self.log, self.pipeline = log, pipeline
        self.topic = log_topic(pipeline)
        self._clock = clock or SystemClock()
        self._who = who or who_am_i()
        self.control = control or Control(log, pipeline, self._clock)

    # -- looking --------------------------------------------------------------------------------------------

    def state(self) -> State:
        return self.control.refresh()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def bounds(self) -> Bounds:
        try:
            return self.log.bounds(self.topic, 0)
        except NotFound:
            raise UnknownPipeline(f"Pipeline {self.pipeline} has no log.", hint="List pipelines with `headwater pipeline list`.") from None

    def show(self, first: int, last: int | None = None, *, namespace: str = ".*", limit: int = 1000) -> Iterator[Seen]:
        """The messages `first` to `last`, both included, as they are in the log."""
        chosen, bounds = Namespaces(namespace), self.bounds()
        last = first if last is None else min(last, bounds.end - 1)
        self._within(first, bounds)
        eyes = Eyes(self.state())
        at, given = first, 0
        while at <= last and given < limit:
            records = self.log.read(self.topic, 0, at, limit=min(1000, last - at + 1))
            if not records:
                return
            for record in records:
                offset = record.offset or 0
                at = offset + 1
                if offset > last or given >= limit:
                    return
                if record.key is not None and record.key.decode() in chosen:
                    given += 1
                    yield eyes.see(record)

    def sinks(self) -> list[Place]:
        """Every sink's place."""
        state, end = self.state(), self.bounds().end
        return [self._place(state, name, end) for name in sorted(state.sinks)]

    def _place(self, state: State, name: str, end: int) -> Place:
        sink = state.sink(name)
        lag = max(0, end - 1 - sink.position)
        running = life(state.run, self._clock.now_ms()) == "running"
        word = "stopped" if sink.stopped else "one at a time" if sink.failure is not None else "running" if running and lag else "idle"
        error = None if sink.failure is None else refusal(sink.failure)
        trouble = state.troubles.get(name)
        if running and word in ("running", "idle") and trouble is not None and state.run is not None and trouble.epoch == state.run.epoch:
            word = "unreachable"
            error = Refusal(
                offset=sink.position + 1, error="Unreachable", message=trouble.message, of_message=False, at=moment(trouble.since)
            )
        return Place(sink=name, position=sink.position, end=end, lag=lag, state=word, error=error)

    def sink(self, name: str) -> SinkState:
        state = self.state()
        if name not in state.sinks:
            raise UnknownSink(
                f"Pipeline {self.pipeline} has no sink {name}.", hint=f"It has {', '.join(sorted(state.sinks)) or 'none yet'}."
            )
        return state.sinks[name]

    def namespaces(self, name: str) -> dict[str, int]:
        """By namespace, the last message that a sink took."""
        self.sink(name)
        return dict(self.state().taken.get(name, {}))

    def dead(self, sink: str | None = None) -> list[Dead]:
        """What is put aside, of all sinks or of one."""
        found = [one for (whose, _), one in sorted(self.state().dead.items()) if sink is None or whose == sink]
        if sink is not None and not found:
            self.sink(sink)  # a sink that is no more may still have messages here; one that never was is a mistake
        return found

    def dead_one(self, offset: int, sink: str | None = None) -> Dead:
        found = [one for one in self.dead(sink) if one.offset == offset]
        if not found:
            raise NotFound(f"Message {offset} is not put aside.", hint=f"List what is with `headwater pipeline dead {self.pipeline} list`.")
        if len(found) > 1:
            names = ", ".join(one.sink for one in found)
            raise BadInput(f"Several sinks have put message {offset} aside: {names}.", hint="Name one of them as `sink` (--sink).")
        return found[0]

    def audit(self) -> list[Entry]:
        return sorted(self.state().audit.values(), key=lambda one: one.at)

    def delivery(self, sink: Sink) -> Delivery:
        """What delivering to a sink needs to know of the pipeline now."""
        state = self.state()
        return Delivery(
            pipeline=self.pipeline,
            topic=self.topic,
            sink=sink,
            epoch=state.run.epoch if state.run is not None else 0,
            claims=state.run.claims if state.run is not None else (),
            edits=state.edits_of(sink.name),
            ids=state.ids,
        )

    # -- changing positions ---------------------------------------------------------------------------------

    def mark(self, name: str, offset: int, *, why: str, dry_run: bool = False) -> SinkState:
        """Make `offset` the last message that a sink has taken, forward or back; -1: none. What a live run has under way does not count."""
        self.sink(name)
        bounds = self.bounds()
        if not -1 <= offset < bounds.end:
            raise self._outside(offset, bounds)
        if offset + 1 < bounds.start:
            raise BadBounds(f"The log begins at {bounds.start}; what lies before is gone.", hint=f"Give {bounds.start - 1} or more.")

        if self.holes(offset + 1, min(self.sink(name).position, bounds.end - 1)):
            raise BadBounds(
                f"Compaction has taken messages behind {offset}, so they cannot be sent again.",
                hint="Read the source anew with `headwater pipeline run --again`.",
            )

        def decide(state: State) -> list[Change]:
            now = state.sink(name)
            moved = SinkState(position=offset, generation=now.generation + 1, told=now.told)
            changes: list[Change] = [(f"sink/{name}", moved)]
            changes += [
                (f"taken/{name}/{namespace}", min(at, offset) if offset >= 0 else None)
                for namespace, at in state.taken.get(name, {}).items()
                if at > offset
            ]
            return [*changes, self._entry("mark", why, sink=name, offset=offset, before=now.position)]

        return self._made(decide, dry_run).sink(name)

    def delete(self, name: str, *, why: str, dry_run: bool = False) -> None:
        """Forget a sink that the pipeline no longer has: it then no longer keeps the log from being compacted.

        Errors: `Conflict` while a run has the sink: it would send everything again to a sink that was not told.
        """
        self.sink(name)

        def decide(state: State) -> list[Change]:
            run = state.run  # the newest one: it may have begun a moment ago
            if run is not None and name in run.sinks and life(run, self._clock.now_ms()) != "gone":
                raise Conflict(
                    f"A run delivers to {name} now.", hint=f"Stop it first: `headwater pipeline stop {self.pipeline} --why ...`."
                )
            gone: list[Change] = [(f"sink/{name}", None)]
            gone += [(f"dead/{sink}/{offset}", None) for sink, offset in state.dead if sink == name]
            return [*gone, self._entry("delete", why, sink=name, before=state.sink(name).position)]

        self._made(decide, dry_run)

    def ack(self, name: str, offset: int, *, why: str, dry_run: bool = False) -> SinkState:
        """Count a message as taken without sending it."""
        now = self.sink(name)
        self._within(offset, self.bounds())
        if offset <= now.position:
            raise Conflict(
                f"Sink {name} has taken message {offset} already: it is at {now.position}.",
                hint=f"To send it again, use `headwater pipeline replay {self.pipeline} {name} {offset} --why ...`.",
            )

        def decide(state: State) -> list[Change]:
            sink = state.sink(name)
            position, taken = prefix(sink.position, [*sink.taken, (offset, offset + 1)])
            failure = sink.failure if sink.failure is not None and sink.failure.offset != offset else None
            changed = msgspec.structs.replace(sink, position=position, taken=tuple(taken), failure=failure)
            return [(f"sink/{name}", changed), self._entry("ack", why, sink=name, offset=offset)]

        return self._made(decide, dry_run).sink(name)

    # -- correcting -----------------------------------------------------------------------------------------

    def edit(self, offset: int, data: dict[str, Any], *, why: str, sink: str = "", dry_run: bool = False) -> Edit:
        """Deliver a corrected copy of a message from now on; the original stays in the log. A sink that stands there tries again."""
        if sink:
            self.sink(sink)
        record = self._record(offset)
        if record.mode == Mode.COMPLETE or record.op >= Op.NOOP:
            raise BadInput(
                f"Message {offset} is a mark of the log and is never delivered, so that there is nothing to correct.",
                hint=f"See it with `headwater pipeline xlog {self.pipeline} show {offset}`.",
            )
        made = Edit(data=values.extended(data), at=self._clock.now_ms(), who=self._who, why=why)

        def decide(state: State) -> list[Change]:
            changes: list[Change] = [(_edit_key(offset, sink), made)]
            for name, one in state.sinks.items():
                if one.failure is not None and one.failure.offset == offset and sink in ("", name):
                    changes.append((f"sink/{name}", _revived(one)))
            old = _text(state, offset, sink) or (record.value or b"").decode("utf-8", "replace")
            namespace = (record.key or b"").decode()
            entry = self._entry("edit", why, offset=offset, sink=sink, namespace=namespace, old=_short(old), new=_short(text_of(made.data)))
            return [*changes, entry]

        self._made(decide, dry_run)
        return made

    def undo(self, offset: int, *, why: str = "", sink: str = "", dry_run: bool = False) -> None:
        """Deliver the original again."""
        if (offset, sink) not in self.state().edits:
            own = f" for {sink}" if sink else ""
            raise NotFound(
                f"Message {offset} has no corrected copy{own}.",
                hint=f"Which it has, tells `headwater pipeline xlog {self.pipeline} show {offset}`.",
            )

        def decide(state: State) -> list[Change]:
            old = _short(_text(state, offset, sink))
            return [(_edit_key(offset, sink), None), self._entry("undo", why, offset=offset, sink=sink, old=old)]

        self._made(decide, dry_run)

    def original(self, offset: int, sink: str = "") -> dict[str, Any]:
        """What `edit --set` begins with: the corrected copy where there is one, else the message. Unreadable text is an empty document."""
        found = self.state().edit_for(offset, sink)
        if found is not None:
            return dict(found.data)
        try:
            return values.decode(self._record(offset).value or b"")
        except BadInput:
            return {}

    # -- the put aside --------------------------------------------------------------------------------------

    def drop(self, offset: int, *, why: str, sink: str | None = None, dry_run: bool = False) -> Dead:
        """Let a message that was put aside go for good."""
        one = self.dead_one(offset, sink)
        self._made(lambda state: [(f"dead/{one.sink}/{offset}", None), self._entry("drop", why, sink=one.sink, offset=offset)], dry_run)
        return one

    def retried(self, one: Dead, failure: Failure | None, *, why: str = "") -> None:
        """A message that was put aside has been sent once more: it was taken, or it stays, with what the sink says now."""
        left = (
            None
            if failure is None
            else Dead(
                sink=one.sink,
                offset=one.offset,
                error=failure.error,
                message=failure.message,
                trace=failure.trace,
                at=self._clock.now_ms(),
                tries=one.tries + 1,
            )
        )
        entry = self._entry("dead retry", why, sink=one.sink, offset=one.offset, refused="" if failure is None else True)
        self._made(lambda state: [(f"dead/{one.sink}/{one.offset}", left), entry], False)

    # -- the run --------------------------------------------------------------------------------------------

    def stop(self, *, why: str = "", dry_run: bool = False) -> RunInfo:
        """Ask the live run to stop: it finishes what it has begun. One that gives no sign of life is asked, too: it may come back.

        Errors: `Conflict` where none runs.
        """
        run = self.state().run
        if run is None or life(run, self._clock.now_ms()) == "gone":
            raise Conflict(f"Pipeline {self.pipeline} does not run.", hint=f"See `headwater pipeline status {self.pipeline}`.")

        def decide(state: State) -> list[Change]:
            assert state.run is not None
            return [("run", msgspec.structs.replace(state.run, stopping=True)), self._entry("stop", why)]

        self._made(decide, dry_run)
        return run

    def compact(self, *, dry_run: bool = False) -> Freed:
        """Let go of what every sink has taken, but for the last message of each namespace."""
        freed = compact(self.log, self.control, self.topic, list(self.state().sinks), dry_run=dry_run)
        if not dry_run:
            self.note("compact", "", before=freed.before, records=freed.records_before - freed.records_after)
        return freed

    def note(self, what: str, why: str, **details: Any) -> None:
        """Put something in the audit that changes no state: a replay, a step."""
        self._made(lambda state: [self._entry(what, why, **details)], False)

    # -- parts ----------------------------------------------------------------------------------------------

    def _record(self, offset: int) -> Record:
        self._within(offset, self.bounds())
        found = self.log.read(self.topic, 0, offset, limit=1)
        if not found or found[0].offset != offset:
            raise NotFound(f"Message {offset} is no longer in the log.", hint="Compaction keeps the last one of each namespace.")
        return found[0]

    def holes(self, first: int, last: int) -> bool:
        """Whether compaction has taken messages of `first` to `last`."""
        return has_holes(self.log, self.topic, first, last)

    def _within(self, offset: int, bounds: Bounds) -> None:
        if not bounds.start <= offset < bounds.end:
            raise self._outside(offset, bounds)

    def _outside(self, offset: int, bounds: Bounds) -> BadBounds:
        held = f"holds {bounds.start} to {bounds.end - 1}" if bounds.end > bounds.start else "is empty"
        return BadBounds(
            f"Offset {offset} is not in the log, which {held}.",
            hint=f"Where the sinks are, tells `headwater pipeline offset {self.pipeline} list`.",
        )

    def _entry(self, what: str, why: str, **details: Any) -> Change:
        entry = Entry(at=self._clock.now_ms(), who=self._who, what=what, why=why, details={k: v for k, v in details.items() if v != ""})
        return f"audit/{entry.at:013d}-{random_id()}", entry

    def _made(self, decide: Decide, dry_run: bool) -> State:
        if not dry_run:
            self.control.change(decide)
            return self.control.state
        trial = State()
        for field in ("sinks", "taken", "edits", "dead", "audit", "troubles"):
            setattr(trial, field, {key: dict(one) if isinstance(one, dict) else one for key, one in getattr(self.state(), field).items()})
        trial.run, trial.reader = self.state().run, self.state().reader
        for key, value in decide(trial):
            trial.apply(key, value)
        return trial


def _edit_key(offset: int, sink: str) -> str:
    return f"edit/{offset}/{sink}" if sink else f"edit/{offset}"


def _text(state: State, offset: int, sink: str) -> str:
    """The corrected copy of a message that is delivered so far; empty where there is none."""
    found = state.edit_for(offset, sink)
    return "" if found is None else text_of(found.data)


def _short(text: str) -> str:
    return text if len(text) <= _KEPT else f"{text[:_KEPT]}... ({len(text):,} characters)"


def _revived(sink: SinkState) -> SinkState:
    assert sink.failure is not None
    return msgspec.structs.replace(sink, failure=None, single_until=max(sink.single_until, sink.failure.offset))
