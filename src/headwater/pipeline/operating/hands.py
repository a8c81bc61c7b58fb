"""What an operator sends by hand: one message at a time, a range again, or what was put aside. Without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadBounds, Conflict, Stopped, UnknownSink
from headwater.core.ids import random_id
from headwater.core.settings import Settings
from headwater.pipeline.adaptor import Part
from headwater.pipeline.definition import Pipeline, Sink
from headwater.pipeline.offsets.control import identity
from headwater.pipeline.offsets.liveness import last_sign, life
from headwater.pipeline.offsets.state import Dead, Failure, RunInfo, SinkState
from headwater.pipeline.operating.answers import moment
from headwater.pipeline.operating.operator import Operator
from headwater.pipeline.running.deliver import deliver
from headwater.pipeline.running.delivery_loop import SinkLoop, needs_session
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.work import Delivery, Outcome


class Hands:
    """Delivers for an operator to one sink of a pipeline whose definition is at hand."""

    def __init__(self, operator: Operator, pipeline: Pipeline, sink: str, settings: Settings, *, clock: Clock | None = None) -> None:
        if sink not in pipeline.sinks:
            raise UnknownSink(f"Pipeline {pipeline.name} has no sink {sink}.", hint=f"It has {', '.join(pipeline.sinks)}.")
        operator.sink(sink)
        self._operator, self._sink, self._settings, self._clock = operator, pipeline.sinks[sink], settings, clock or SystemClock()

    @property
    def sink(self) -> Sink:
        return self._sink

    def step(self, count: int = 1, *, why: str = "", told: Callable[[int], None] | None = None) -> int:
        """Deliver the next message, and the next, each acknowledged before the one after; return how many were taken.

        Errors: `Stopped` at a message that the sink refuses; `Conflict` while a live run delivers to the sink.
        """
        operator, name = self._operator, self._sink.name
        state = operator.state()
        run = state.run
        if not state.sink(name).stopped:
            self._alone(run)
        loop = self._loop(run.epoch if run is not None else 0)
        loop.begin()  # a sink that still held what an operator has taken back would pass over the message, and it would count as taken
        above = self._sink.after
        end = operator.bounds().end if above is None else operator.state().sink(above).position + 1
        gaps = loop.acks.missing(end)
        if gaps:
            operator.move(name, _tried, "step", why, offset=gaps[0][0], count=count)
        for done in range(count):
            gaps = loop.acks.missing(end)
            if not gaps:
                return done
            offset = gaps[0][0]
            if not loop.one(offset):
                failure = operator.state().sink(name).failure
                raise Stopped(
                    f"Sink {name} refuses message {offset}: {failure.message if failure else 'see the audit'}",
                    hint=f"Look at it with `headwater pipeline xlog {operator.pipeline} show {offset}`.",
                )
            if told is not None:
                told(offset)
        return count

    def _alone(self, run: RunInfo | None) -> None:
        """Errors: `Conflict` while a run delivers, or may be delivering: the same message from two sides would be there twice."""
        name, pipeline = self._sink.name, self._operator.pipeline
        how = life(run, self._clock.now_ms())
        if how == "running":
            raise Conflict(f"A run delivers to {name} now.", hint=f"Stop it first: `headwater pipeline stop {pipeline} --why ...`.")
        if run is not None and how == "silent":
            raise Conflict(
                f"A run on {run.process} may still deliver to {name}, though it has given no sign of life since {moment(last_sign(run))}.",
                hint=f"A new run shuts it out: `headwater pipeline run {run.file or 'FILE'}`.",
            )

    def replay(self, first: int, last: int, *, why: str = "", dry_run: bool = False) -> Outcome | None:
        """Send the messages `first` to `last` again; positions do not move. Errors: `Stopped` at one that is refused."""
        bounds = self._operator.bounds()
        if not bounds.start <= first <= last < bounds.end:
            raise BadBounds(
                f"{first}..{last} does not lie in the log, which holds {bounds.start} to {bounds.end - 1}.",
                hint="Give the lower one first.",
            )
        if self._operator.holes(first, last):
            raise BadBounds(
                f"Compaction has taken messages of {first}..{last}, so they cannot be sent again.",
                hint="Read the source anew with `headwater pipeline run --again`.",
            )
        if dry_run:
            return None
        outcome = self._send(first, last + 1)
        self._operator.note("replay", why, sink=self._sink.name, first=first, last=last, written=outcome.written)
        if outcome.failure is not None:
            raise Stopped(f"Sink {self._sink.name} refuses message {outcome.failure.offset}: {outcome.failure.message}")
        return outcome

    def retry(self, one: Dead, *, why: str = "") -> None:
        """Send a message that was put aside. Errors: `Stopped` when it is refused again; it stays put aside."""
        outcome = self._send(one.offset, one.offset + 1)
        if outcome.failure is not None:
            raise Stopped(
                f"Sink {one.sink} refuses message {one.offset} again: {outcome.failure.message}",
                hint=f"Correct it with `headwater pipeline edit {self._operator.pipeline} {one.offset} ...`.",
            )
        self._operator.revived(one, why=why)

    def _send(self, start: int, end: int) -> Outcome:
        state = self._operator.state()
        if needs_session(self._sink):
            Engine(self._operator.log, self._settings.spark, stopping=threading.Event()).start()
        epoch = state.run.epoch if state.run is not None else 0
        part = Part(
            pipeline=identity(self._operator.log, self._operator.pipeline),
            sink=self._sink.name,
            start=start,
            end=end,
            epoch=epoch,
            attempt=random_id(),
            timeout=self._sink.options.timeout.seconds,
            again=True,
        )
        plan = state.reader.plan if state.reader is not None else {}
        work = Delivery(
            pipeline=self._operator.pipeline,
            topic=self._operator.topic,
            sink=self._sink,
            epoch=epoch,
            claims=state.run.claims if state.run is not None else (),
            edits=state.edits_of(self._sink.name),
            ids={name: tuple(fields) for name, fields in plan.get("ids", {}).items()},
        )
        outcome = deliver(self._operator.log, work, part, batch=max(1, self._sink.options.batch))
        if outcome.receipt:
            self._sink.adaptor.publish(part, outcome.receipt)
        return outcome

    def _loop(self, epoch: int) -> SinkLoop:
        stopping = threading.Event()
        operator = self._operator
        return SinkLoop(
            self._sink,
            operator.log,
            operator.topic,
            operator.control,
            Engine(operator.log, self._settings.spark, stopping=stopping),
            epoch,
            clock=self._clock,
            stopping=stopping,
            reading=lambda: False,
            follow=False,
            flush=0.0,
            stop_all=False,
            told=_nobody,
        )


def _nobody(sink: str, failure: Failure) -> None:
    """An operator sees the error as an exception."""


def _tried(sink: SinkState) -> SinkState:
    """The sink without its failure: the message is about to be tried."""
    return msgspec.structs.replace(sink, failure=None)
