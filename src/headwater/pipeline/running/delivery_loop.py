"""One sink's loop: take what lies behind its position, deliver it, publish it, acknowledge it.

Batches first; after a failed one, one message at a time, until the message is found that the sink refuses.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Cancelled, Fenced, HeadwaterError, Unavailable
from headwater.core.ids import random_id
from headwater.log import Log
from headwater.pipeline.adaptor import Part, SinkWriter
from headwater.pipeline.definition import Sink
from headwater.pipeline.offsets.acks import Acks
from headwater.pipeline.offsets.control import Control, identity
from headwater.pipeline.offsets.ranges import Span
from headwater.pipeline.offsets.state import Dead, Failure
from headwater.pipeline.policy import DeadLetter, Retry
from headwater.pipeline.running.cutting import Cut, cut
from headwater.pipeline.running.engine import Engine, uncollected
from headwater.pipeline.running.part_delivery import counts_at_once, deliver_part
from headwater.pipeline.running.sql_delivery import SqlDelivery
from headwater.pipeline.running.work import Outcome, SinkWork

SMALL = 4000  # messages: fewer are delivered here, because a round on Spark costs more than they do
_SLICE = 200_000  # messages of a task
_TABLE = 100_000  # messages at once where a transform makes tables of them
_MEANWHILE = 20_000  # messages that are delivered here at once while Spark starts
_WAIT = 0.05  # seconds: what comes within them is delivered together
_IDLE = 2.0  # seconds after which a loop looks although nothing has told it to
_PATIENCE = 300.0  # seconds that an unreachable sink is waited for where nothing is followed


def needs_session(sink: Sink) -> bool:
    """Whether one of the sink's transforms is evaluated by Spark itself, so that there has to be a session."""
    return any(getattr(one, "needs_session", False) for one in sink.transforms)


class SinkLoop:
    """Delivers to one sink until it has everything, it stops at a message, or the run is stopping."""

    def __init__(
        self,
        sink: Sink,
        log: Log,
        topic: str,
        control: Control,
        engine: Engine,
        epoch: int,
        *,
        clock: Clock,
        stopping: threading.Event,
        changed: threading.Event | None = None,
        reading: Callable[[], bool],
        follow: bool,
        source_failed: Callable[[], bool] = lambda: False,
        flush: float,
        stop_all: bool,
        told: Callable[[str, Failure], None],
    ) -> None:
        self.sink, self._log, self._topic, self._control, self._engine, self._epoch = sink, log, topic, control, engine, epoch
        self._clock, self._stopping, self._reading, self._follow, self._stop_all = clock, stopping, reading, follow, stop_all
        self._told, self._flush, self._source_failed = told, flush, source_failed
        self._changed = changed or threading.Event()  # set when the log or the offset log has grown, and when reading or the run ends
        self._looked = clock.monotonic() - _WAIT  # when nothing was found last
        self._seen: float | None = None  # since when there is something to gather
        self._identity = identity(log, control.pipeline)
        self.acks = Acks(control, sink.name, epoch, clock=clock, every=flush)
        self.state = "starting"
        self.written = 0
        self.problem: HeadwaterError | None = None
        self._holds = False  # the sink itself keeps what it has taken, and says so to the next run
        self._unreachable_since: float | None = None
        self._pause = 0.5
        self._tries: dict[int, int] = {}
        self._sql = SqlDelivery(sink, log, engine)

    # -- the loop -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Errors: `Fenced` when a newer run has begun; `Unavailable` when the sink stays unreachable."""
        while not self._stopping.is_set():
            try:
                self.begin()
                break
            except Unavailable as error:
                self._wait_for_sink(error)
        try:
            while not self._stopping.is_set() and self._once():
                pass
        finally:
            self.acks.flush()

    def begin(self) -> None:
        """Before anything is delivered: shut older runs out, tell the sink of an operator's word, count what it holds."""
        self.acks.take_over(self._begun())

    def _begun(self) -> list[tuple[int, int]] | None:
        held = self.sink.adaptor.begin(self._identity, self.sink.name, self._epoch)
        if self.acks.moved:  # an operator's word outranks what the sink holds
            self._move()
            held = self.sink.adaptor.begin(self._identity, self.sink.name, self._epoch)
        self._holds = held is not None
        return held

    def _move(self) -> None:
        position = self._control.state.sink(self.sink.name).position
        self.sink.adaptor.forget(self._identity, self.sink.name, position, self._epoch)
        self.acks.told()

    def _once(self) -> bool:
        """One step of the loop; false when there is nothing left to do."""
        self._changed.clear()  # before the look: what comes after it ends the next wait
        self.acks.refresh()
        if self.acks.moved:
            self._move()
        state = self._control.state.sink(self.sink.name)
        if state.stopped:
            self.state = "stopped"
            if not self._follow or self._source_failed():
                return False
            self._wait_for_change()
            return True
        end = self._end()
        gaps = self.acks.missing(end)
        if not gaps:
            self.state = "waiting"
            self.acks.flush_if_due()
            if not self._reading() and self._end() == end and not self._behind_parent():
                return False
            self._wait_for_change()
            return True
        if self._gathering(gaps):
            self.state = "waiting"
            self._clock.wait(self._stopping, _WAIT)
            return True
        self._seen = None
        self.state = "delivering"
        try:
            if state.single_until >= gaps[0][0]:
                self._step(gaps[0][0], min(gaps[0][1], state.single_until + 1, gaps[0][0] + 100))
            else:
                self._batches(gaps)
            self._unreachable_since, self._pause = None, 0.5
        except Cancelled:
            return not self._stopping.is_set()
        except (Fenced, Unavailable) as error:
            if isinstance(error, Fenced):
                raise
            self._wait_for_sink(error)
        self.acks.flush_if_due()
        return True

    def _wait_for_change(self) -> None:
        """Sleep until something changes. The first message after a rest goes at once; in a stream of them some go together."""
        if not self._stopping.is_set():  # looked at after the clearing: a stop that came before it has left no other trace
            self._clock.wait(self._changed, min(_IDLE, self.acks.due()))
        if (rest := self._looked + _WAIT - self._clock.monotonic()) > 0:
            self._clock.wait(self._stopping, rest)
        self._looked = self._clock.monotonic()

    def _gathering(self, gaps: Sequence[tuple[int, int]]) -> bool:
        """Whether a sink that makes a file of every part waits for more: at most as long as positions wait to be written."""
        if not self._follow or not self._reading() or gaps[0][1] - gaps[0][0] >= SMALL or not self.sink.adaptor.gathers():
            return False
        now = self._clock.monotonic()
        if self._seen is None:
            self._seen = now
        return now - self._seen < self._flush

    def _end(self) -> int:
        """Up to where this sink may be given messages: the log's end, or what the sink above it has taken."""
        if self.sink.after is None:
            return self._log.bounds(self._topic, 0).end
        return self._control.refresh().sink(self.sink.after).position + 1

    def _behind_parent(self) -> bool:
        if self.sink.after is None:
            return False
        parent = self._control.refresh().sink(self.sink.after)
        return not parent.stopped and parent.position + 1 < self._log.bounds(self._topic, 0).end

    def _wait_for_sink(self, error: Unavailable) -> None:
        """The sink cannot be reached: no message's fault. Wait longer each time; give up where nothing is followed."""
        now = self._clock.monotonic()
        self._unreachable_since = self._unreachable_since if self._unreachable_since is not None else now
        self.state = f"unreachable: {error.message}"
        if not self._follow and now - self._unreachable_since > _PATIENCE:
            raise error
        self._told(self.sink.name, Failure(offset=self.acks.position + 1, error=type(error).__name__, message=error.message))
        self._clock.wait(self._stopping, self._pause)
        self._pause = min(30.0, self._pause * 2)

    # -- batches --------------------------------------------------------------------------------------------

    def _work(self) -> SinkWork:
        state = self._control.state
        return SinkWork(
            pipeline=self._control.pipeline,
            topic=self._topic,
            sink=self.sink,
            epoch=self._epoch,
            claims=state.run.claims if state.run is not None else (),
            edits=state.edits_of(self.sink.name),
            ids=state.ids,
        )

    def _part(self, start: int, end: int, bucket: int = 0, buckets: int = 1) -> Part:
        return Part(
            pipeline=self._identity,
            sink=self.sink.name,
            start=start,
            end=end,
            bucket=bucket,
            buckets=buckets,
            epoch=self._epoch,
            attempt=random_id(),
            timeout=self.sink.options.timeout.seconds,
        )

    def _batches(self, gaps: Sequence[tuple[int, int]]) -> None:
        width = self.sink.options.parallelism or self._engine.cores
        # One file takes a range from one task only: of shares it would keep the first and take the others for the same again.
        shares = width if self._keeps_ids() and not self.sink.adaptor.ordered() else 1
        copy = self._copy()
        planned = cut(self._log, self._topic, gaps, width=width, shares=shares, most=_SLICE, copy=copy)
        batch = max(self.sink.options.batch, type(self.sink.adaptor).least_batch)
        local = planned.size < SMALL or not self._engine.allowed
        if not local and not self._engine.ready():
            gaps, local = [(gaps[0][0], min(gaps[0][1], gaps[0][0] + _MEANWHILE))], True
            planned = cut(self._log, self._topic, gaps, width=1, shares=1, most=_SLICE, copy=copy)
        if not local and planned.size < width * _SLICE and not self._engine.free(_WAIT):
            return  # by then there is more to deliver at once
        parts = [self._part(*one) for one in planned.parts]
        if needs_session(self.sink):
            self._engine.start()
            outcomes = None if local or planned.shared else self._sql.deliver_in_tasks(self._work(), parts, batch=batch)
            if outcomes is None:
                if self._sql.careful and not planned.shared:  # only past what the tasks could not take
                    planned = cut(self._log, self._topic, gaps, width=1, shares=1, most=_TABLE, copy=copy)
                    parts = [self._part(*one) for one in planned.parts]
                outcomes = self._delivered(parts, max(batch, _TABLE))
        else:
            outcomes = self._delivered(parts, batch) if local else self._engine.deliver_parts(self._work(), parts, batch=batch)
        self._settle(planned, outcomes)

    def _delivered(self, parts: Sequence[Part], batch: int) -> list[Outcome]:
        """The parts one after the other, here; up to the first failure."""
        work, outcomes = self._work(), []
        for part in parts:
            with uncollected():
                outcomes.append(deliver_part(self._log, work, part, batch=batch))
            if outcomes[-1].failure is not None:
                break
        return outcomes

    def _keeps_ids(self) -> bool:
        """Whether changes may be shared out by the ids that they were read with: not where a transform may make two documents one."""
        fields = {name for names in self._work().ids.values() for name in names} | {"_id"}
        return all(one.keeps(sorted(fields)) for one in self.sink.transforms)

    def _copy(self) -> Span:
        """The part of the log that holds the newest copy and nothing else; while it is being read, all behind its beginning."""
        reader = self._control.state.reader
        if reader is None:
            return 0, 0
        return reader.begun, sys.maxsize if not reader.copied else max(reader.ended, reader.begun)

    def _settle(self, planned: Cut, outcomes: Sequence[Outcome]) -> None:
        """Publish and acknowledge what was taken; then see to the first failure."""
        failed = [one for one in outcomes if one.failure is not None]
        if planned.shared and (failed or len(outcomes) < len(planned.parts)):
            # Shares of one range: other shares may have written behind the failure, so the whole range comes again, one by one.
            start, end = planned.parts[0][0], planned.parts[0][1]
            first = min(failed, key=lambda one: one.failure.offset if one.failure else 0)
            assert first.failure is not None
            self._fail(msgspec.structs.replace(first.failure, start=start, end=end))
            return
        for one in sorted(outcomes, key=lambda one: (one.start, one.bucket)):
            if one.acked > one.start or one.acked == one.end:
                part = msgspec.structs.replace(self._part(one.start, one.acked, one.bucket, one.buckets), attempt=one.attempt)
                if one.receipt:
                    self.sink.adaptor.publish(part, one.receipt)
                if not planned.shared:
                    self.acks.add(one.start, one.acked, one.last)
                self.written += one.written
            if one.acked < one.end and self.sink.adaptor.ordered():
                break
        if planned.shared:
            last: dict[str, int] = {}
            for one in outcomes:
                last = last | {name: max(offset, last.get(name, -1)) for name, offset in one.last.items()}
            self.acks.add(planned.parts[0][0], planned.parts[0][1], last)
        if failed:
            failure = min(failed, key=lambda one: one.start).failure
            assert failure is not None
            self._fail(failure)

    # -- one at a time --------------------------------------------------------------------------------------

    def _step(self, start: int, end: int) -> None:
        """Messages one at a time, each acknowledged durably before the next; the first one refused ends it."""
        writer: SinkWriter | None = self.sink.adaptor.writer(self._part(start, end))
        try:
            if writer is not None and not counts_at_once(writer):
                writer.close()
                writer = None
            for offset in range(start, end):
                if self._stopping.is_set() or not self.one(offset, writer):
                    return
        finally:
            if writer is not None:
                writer.close()

    def one(self, offset: int, writer: SinkWriter | None = None) -> bool:
        """Deliver one message, by a writer that is open already or by one of its own.

        False when it was refused, which is dealt with, and when an operator has moved the position, so that the next one is another.
        """
        if needs_session(self.sink):
            self._engine.start()
        part = self._part(offset, offset + 1)
        outcome = deliver_part(self._log, self._work(), part, batch=1, writer=writer)
        if outcome.failure is not None:
            self._fail(msgspec.structs.replace(outcome.failure, offset=offset, start=-1, end=-1))
            return False
        if outcome.receipt:
            self.sink.adaptor.publish(msgspec.structs.replace(part, attempt=outcome.attempt), outcome.receipt)
        self.acks.add(offset, offset + 1, outcome.last)
        self.written += outcome.written
        if self._holds:  # it is acknowledged already, in the sink's own transaction
            return self.acks.flush_if_due()
        return self.acks.flush()

    # -- failures -------------------------------------------------------------------------------------------

    def give_up(self, error: HeadwaterError) -> None:
        """StoppedSink still because of something that is no message's fault, and keep it with the position, for people to see."""
        self.state = f"failed: {error.message}"
        failure = Failure(
            offset=self.acks.position + 1,
            error=error.code,
            message=error.message,
            hint=error.hint,
            of_message=False,
            at=self._clock.now_ms(),
        )
        self.acks.failed(failure)

    def _fail(self, failure: Failure) -> None:
        """Record a failure: of a batch, to go on one at a time; of a message, by what the sink's policy says."""
        failure = msgspec.structs.replace(failure, at=self._clock.now_ms())
        if not self.acks.flush():
            return  # an operator has moved the position: what failed may not even be wanted
        if failure.start >= 0:
            if self.acks.failed(failure, single_until=failure.end - 1) and self._stop_all:
                self._told(self.sink.name, failure)
                self._stopping.set()
            return
        policy = self.sink.options.on_error
        if isinstance(policy, Retry):
            tried = self._tries[failure.offset] = self._tries.get(failure.offset, 0) + 1
            if tried <= policy.times:
                self.state = f"trying message {failure.offset} again"
                self._clock.wait(self._stopping, policy.backoff.seconds * 2 ** (tried - 1))
                self.acks.failed(None, single_until=failure.offset)
                return
            policy = policy.then
        if isinstance(policy, DeadLetter):
            waiting = sum(1 for sink, _ in self._control.state.dead if sink == self.sink.name)
            if waiting < policy.most:
                self.acks.bury(
                    Dead(
                        sink=self.sink.name,
                        offset=failure.offset,
                        error=failure.error,
                        message=failure.message,
                        trace=failure.trace,
                        at=failure.at,
                        tries=self._tries.get(failure.offset, 1),
                    )
                )
                return
        if not self.acks.failed(failure):
            return
        self.state = "stopped"
        self._told(self.sink.name, failure)
        if self._stop_all:
            self._stopping.set()
