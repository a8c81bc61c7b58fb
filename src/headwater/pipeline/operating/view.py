"""Reads one pipeline: its state, its messages, its sinks, the messages put aside, the audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadBounds, BadInput, NotFound, UnknownPipeline, UnknownSink
from headwater.core.spelling import meant
from headwater.log import Log
from headwater.log.record import Bounds, Record
from headwater.pipeline.definition import Sink
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.compaction import has_holes
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.liveness import last_sign, life
from headwater.pipeline.offsets.state import SOURCE, Dead, Entry, SinkState, State
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.message_view import MessageView, text_of
from headwater.pipeline.operating.namespace_phases import follows, namespace_phases
from headwater.pipeline.running.work import SinkWork

_WINDOW = 10_000  # offsets that are searched at once
_WINDOWS = 20  # windows that are searched for a page: an expression that finds nothing must not hold a thread for long
_PAGE = 8 << 20  # bytes of the messages in a page, about


class PipelineView:
    """One pipeline, read only. It creates nothing.

    Errors: `UnknownPipeline`, `UnknownSink`, `BadBounds` for an offset that is not in the log.
    """

    def __init__(self, log: Log, pipeline: str, *, clock: Clock | None = None, control: Control | None = None) -> None:
        """`control`: the pipeline's state, where the caller keeps it."""
        self.log, self.pipeline = log, pipeline
        self.topic = log_topic(pipeline)
        self.clock = clock or SystemClock()
        self.control = control or Control(log, pipeline, self.clock)

    # -- operations -----------------------------------------------------------------------------------------

    def status(self) -> answers.Status:
        state, places = self.state(), self.offsets()
        status = answers.Status(
            pipeline=self.pipeline,
            state=self._state(state, places),
            end=self.bounds().end,
            lag=max((place.lag for place in places), default=0),
            sinks=places,
            phase=self._phase(state),
            progress=None if state.reader is None else state.reader.progress,
            dead=len(state.dead),
            edits=len(state.edits),
            namespaces=namespace_phases(state),
        )
        if (run := state.run) is None:
            return status
        seen = answers.moment(last_sign(run)) if run.state == "running" else None
        return msgspec.structs.replace(
            status, began=answers.moment(run.began), seen=seen, process=run.process, file=run.file, error=run.error, hint=run.hint
        )

    def _phase(self, state: State) -> str | None:
        away, reader = state.unreachable(SOURCE), state.reader
        if away is not None and life(state.run, self.clock.now_ms()) == "running":
            return f"unreachable: {away.message}"
        return None if reader is None else "copy" if not reader.copied else "sync" if follows(state) else "complete"

    def _state(self, state: State, places: Sequence[answers.SinkPosition]) -> str:
        if state.run is None:
            return "new"
        stopped = ", ".join(place.sink for place in places if place.state == "stopped")
        match life(state.run, self.clock.now_ms()):
            case "running":
                away = ", ".join(place.sink for place in places if place.state == "unreachable")
                return ", ".join(["running", *([f"{stopped} stopped"] if stopped else []), *([f"{away} unreachable"] if away else [])])
            case "silent":
                return "silent"
        ended = "died" if state.run.state == "running" else state.run.state
        return f"stopped at {stopped}" if stopped else ended

    def messages(self, first: int | None = None, last: int | None = None, *, namespace: str = ".*", limit: int = 100) -> answers.Messages:
        """A page of the messages `first` (None: the oldest) to `last` (None: the newest), both included."""
        bounds = self.bounds()
        oldest, current = bounds.start, bounds.end - 1
        if first is not None and last is not None and last < first:
            raise BadBounds(f"{first}..{last} is the wrong way round.", hint="Give the lower one first.")
        if first is None and current < oldest:
            return answers.Messages(items=[], next=None, oldest=oldest, current=current)
        start, stop = oldest if first is None else first, current if last is None else min(last, current)
        items, upto = self._page(start, max(start, stop), namespace, limit)
        return answers.Messages(items=items, next=str(upto) if upto <= stop else None, oldest=oldest, current=current)

    def _page(self, start: int, stop: int, namespace: str, limit: int) -> tuple[list[answers.Seen], int]:
        """The messages of a page, and the first offset that was not searched."""
        items: list[answers.Seen] = []
        size, at = 0, start
        for _ in range(_WINDOWS):
            upto = min(stop, at + _WINDOW - 1)
            for message in self.show(at, upto, namespace=namespace, limit=limit - len(items)):
                items.append(message)
                size += len(text_of(message.data))
                if len(items) == limit or size >= _PAGE:
                    return items, message.offset + 1
            at = upto + 1
            if at > stop:
                break
        return items, at

    def offsets(self) -> list[answers.SinkPosition]:
        """Every sink's place."""
        state, end = self.state(), self.bounds().end
        return [self._place(state, name, end) for name in sorted(state.sinks)]

    def offset(self, sink: str) -> answers.SinkDetail:
        known, state = self.sink(sink), self.state()
        place = msgspec.structs.asdict(self._place(state, sink, self.bounds().end))
        decided = state.columns.get(sink)
        tables = {} if decided is None else {name: table.shown() for name, table in decided.tables.items()}
        return answers.SinkDetail(**place, taken=list(known.taken), namespaces=dict(state.taken.get(sink, {})), tables=tables)

    def dead(self, sink: str | None = None) -> list[answers.Buried]:
        return [answers.answer_of(answers.Buried, letter) for letter in self.dead_letters(sink)]

    def dead_one(self, offset: int, sink: str | None = None) -> answers.BuriedMessage:
        letter, bounds = self.dead_letter(offset, sink), self.bounds()
        message = next(self.show(offset), None) if bounds.start <= offset < bounds.end else None
        return answers.answer_of(answers.BuriedMessage, letter, record=message)

    def audit(self) -> list[answers.Audited]:
        return [answers.answer_of(answers.Audited, entry) for entry in self.entries()]

    # -- what the operations use ------------------------------------------------------------------------------

    def state(self) -> State:
        return self.control.refresh()

    def bounds(self) -> Bounds:
        try:
            return self.log.bounds(self.topic, 0)
        except NotFound:
            raise UnknownPipeline(f"Pipeline {self.pipeline} has no log.", hint="List pipelines with `headwater pipeline list`.") from None

    def show(self, first: int, last: int | None = None, *, namespace: str = ".*", limit: int = 1000) -> Iterator[answers.Seen]:
        """The messages `first` to `last`, both included, as they are in the log."""
        chosen, bounds = Namespaces(namespace), self.bounds()
        last = first if last is None else min(last, bounds.end - 1)
        self.within(first, bounds)
        view = MessageView(self.state())
        at, count = first, 0
        while at <= last and count < limit:
            records = self.log.read(self.topic, 0, at, limit=min(1000, last - at + 1))
            if not records:
                return
            for record in records:
                offset = record.offset or 0
                at = offset + 1
                if offset > last or count >= limit:
                    return
                if record.key is not None and record.key.decode() in chosen:
                    count += 1
                    yield view.see(record)

    def _place(self, state: State, name: str, end: int) -> answers.SinkPosition:
        sink = state.sink(name)
        lag = max(0, end - 1 - sink.position)
        running = life(state.run, self.clock.now_ms()) == "running"
        word = "stopped" if sink.stopped else "one at a time" if sink.failure is not None else "running" if running and lag else "idle"
        error = None if sink.failure is None else answers.answer_of(answers.Refusal, sink.failure)
        outage = state.unreachable(name)
        if running and outage is not None and word in ("running", "idle"):
            word, at = "unreachable", answers.moment(outage.since)
            error = answers.Refusal(offset=sink.position + 1, error="Unreachable", message=outage.message, of_message=False, at=at)
        decided = state.columns.get(name)
        changes = [] if decided is None else [answers.answer_of(answers.ColumnChanged, change) for change in decided.changes]
        return answers.SinkPosition(sink=name, position=sink.position, end=end, lag=lag, state=word, error=error, columns=changes)

    def sink(self, name: str) -> SinkState:
        state = self.state()
        if name not in state.sinks:
            near = meant(name, state.sinks)
            did = f"Did you mean {near}? " if near else ""
            raise UnknownSink(
                f"Pipeline {self.pipeline} has no sink {name}.", hint=f"{did}It has {', '.join(sorted(state.sinks)) or 'none yet'}."
            )
        return state.sinks[name]

    def dead_letters(self, sink: str | None = None) -> list[Dead]:
        """The messages that were put aside, of all sinks or of one."""
        letters = [letter for (whose, _), letter in sorted(self.state().dead.items()) if sink is None or whose == sink]
        if sink is not None and not letters:
            self.sink(sink)  # a deleted sink may still have messages here; an unknown one is a mistake
        return letters

    def dead_letter(self, offset: int, sink: str | None = None) -> Dead:
        letters = [letter for letter in self.dead_letters(sink) if letter.offset == offset]
        if not letters:
            hint = f"List the messages that are with `headwater pipeline dead {self.pipeline} list`."
            raise NotFound(f"Message {offset} is not put aside.", hint=hint)
        if len(letters) > 1:
            names = ", ".join(letter.sink for letter in letters)
            raise BadInput(f"Several sinks have put message {offset} aside: {names}.", hint="Name one of them as `sink` (--sink).")
        return letters[0]

    def entries(self) -> list[Entry]:
        """What operators have done, in order."""
        return sorted(self.state().audit.values(), key=lambda entry: entry.at)

    def delivery(self, sink: Sink) -> SinkWork:
        """What a delivery to the sink needs, by the newest state."""
        self.control.refresh()
        return SinkWork.of(self.control, sink)

    def record(self, offset: int) -> Record:
        self.within(offset, self.bounds())
        records = self.log.read(self.topic, 0, offset, limit=1)
        if not records or records[0].offset != offset:
            raise NotFound(f"Message {offset} is no longer in the log.", hint="Compaction keeps the last one of each namespace.")
        return records[0]

    def holes(self, first: int, last: int) -> bool:
        """Whether compaction has taken messages of `first` to `last`."""
        return has_holes(self.log, self.topic, first, last)

    def within(self, offset: int, bounds: Bounds) -> None:
        if not bounds.start <= offset < bounds.end:
            raise self.outside(offset, bounds)

    def outside(self, offset: int, bounds: Bounds) -> BadBounds:
        held = f"holds {bounds.start} to {bounds.end - 1}" if bounds.end > bounds.start else "is empty"
        return BadBounds(
            f"Offset {offset} is not in the log, which {held}.",
            hint=f"See where the sinks are with `headwater pipeline offset {self.pipeline} list`.",
        )
