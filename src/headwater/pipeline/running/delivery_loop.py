"""One sink's loop, from the log to the ack: cut the messages after its position into parts, deliver, publish, acknowledge.

Messages go in batches. After a failed batch they go one at a time, until the loop has found the message that the sink refuses.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence

import msgspec

from headwater.core.errors import Cancelled, HeadwaterError, Unavailable
from headwater.core.memory import uncollected
from headwater.pipeline.definition import Sink
from headwater.pipeline.offsets.acks import Acks
from headwater.pipeline.offsets.ranges import Span
from headwater.pipeline.offsets.state import Failure, SinkState
from headwater.pipeline.overlap import SinkOverlap
from headwater.pipeline.running.claim_renewal import ClaimRenewal
from headwater.pipeline.running.column_deciding import SAMPLE, ColumnDeciding
from headwater.pipeline.running.context import Activity, LoopState, Patience, RunContext
from headwater.pipeline.running.copy_order import CopyOrder, ids_within
from headwater.pipeline.running.cutting import Cut, cut
from headwater.pipeline.running.failure_policy import FailurePolicy
from headwater.pipeline.running.holdings import SinkHoldings
from headwater.pipeline.running.part_delivery import counts_at_once, deliver_part
from headwater.pipeline.running.run_fence import RunFence
from headwater.pipeline.running.sql_delivery import SqlDelivery
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.sink_adaptor import Part, SinkWriter
from headwater.spark.small import SMALL, Place, place

_SLICE = 200_000  # messages of a task
_TABLE = 100_000  # messages of a batch where a transform makes tables of them
_MEANWHILE = 20_000  # messages that this process delivers at once while Spark starts
_STEPS = 100  # messages that go one at a time before the loop looks around
_WAIT = 0.05  # seconds: messages that come within them are delivered together
_LONG_PART = 10.0  # seconds of a task, and of a part that becomes a file
_IDLE = 2.0  # seconds after which a loop looks for work without an event


class SinkLoop:
    """Delivers to one sink until it has everything, it stops at a message, or the run is stopping."""

    def __init__(
        self,
        sink: Sink,
        context: RunContext,
        *,
        changed: threading.Event | None = None,
        reading: Callable[[], bool] = lambda: False,
        source_failed: Callable[[], bool] = lambda: False,
        above_advances: Callable[[], bool] = lambda: False,
        on_failure: Callable[[str, Failure], None] = lambda sink, failure: None,
        below: Sequence[str] = (),
        takes_over: bool = False,
    ) -> None:
        """`changed` is set when the log or the offset log has grown, and when reading or the run ends.

        `above_advances`: whether the sink above this one will take more. `below`: the sinks that are chained to this one.
        `takes_over`: an operator wants this run to take over a target that belongs to another log.
        """
        self.sink, self._run, self._control, self._engine = sink, context, context.control, context.engine
        self._clock, self._stopping = context.clock, context.stopping
        self._changed, self._reading, self._source_failed = changed or threading.Event(), reading, source_failed
        self._above_advances, self._on_failure = above_advances, on_failure
        self._identity = context.control.identity()
        self._looked = self._clock.monotonic() - _WAIT  # when the loop last found nothing
        self._gathers_since: float | None = None
        self._tried = 0  # up to where messages were sent, whether they were taken or not
        self._holds = False  # whether the sink itself holds its position
        self._overlap = SinkOverlap(context.overlap, sink)
        self._patience = Patience(context)
        self._order = CopyOrder(sink)
        self._sql = SqlDelivery(sink, context.log, context.engine)
        self._columns = ColumnDeciding(context.control, sink, context.log)
        self.acks = Acks(context.control, sink.name, context.epoch, clock=context.clock, every=context.options.flush.seconds)
        self.holdings = SinkHoldings(sink, context, self.acks, takes_over=takes_over)
        self._failures = FailurePolicy(sink, context, self.acks, below=below, enter=self._enter, on_failure=on_failure)
        self.state = LoopState(Activity.STARTING)
        self.written = 0

    # -- the loop -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Errors: `Fenced` when a newer run has begun; `Unavailable` when the sink stays unreachable."""
        while not self._stopping.is_set():
            try:
                self.begin()
                break
            except Unavailable as error:
                self._wait_for_sink(error)
        with ClaimRenewal(self.holdings, self.sink.name, self._clock):
            try:
                while not self._stopping.is_set() and self.step():
                    pass
            finally:
                self.acks.flush()
            self.holdings.note_tables(now=True)

    def begin(self) -> None:
        """Before the first delivery: refuse a sink that would write to what is read, fence older runs, move the sink where an operator has
        moved it, count what the sink holds.

        Errors: as `SinkHoldings.begin`; `BadConfig`.
        """
        try:
            self._overlap.forbidden(self._run.end)
            held = self.holdings.begin()
        finally:
            self.holdings.looked.set()
        self._holds = held is not None
        self.acks.take_over(held)

    def step(self) -> bool:
        """One step of the loop; false when there is nothing left to do."""
        self._changed.clear()  # before the look: a change after it ends the next wait
        self.acks.refresh()
        if self.acks.moved:
            try:
                self.holdings.move()
            except Unavailable as error:
                self._wait_for_sink(error)
                return True
        self.holdings.look()
        if self._position().stopped:
            self.state = LoopState(Activity.STOPPED)
            if not self._run.follow or self._source_failed():
                return False
            self._wait_for_change()
            return True
        end = self._end()
        gaps = self.acks.missing(end)
        if not gaps:
            self.state = LoopState(Activity.WAITING)
            self.acks.flush_if_due()
            if not self._reading() and self._end() == end and not self._above_advances():
                self.holdings.look(now=True)  # before the run says that everything is done
                return False
            self._wait_for_change()
            return True
        if self._gathering(gaps):
            self.state = LoopState(Activity.WAITING)
            self._clock.wait(self._stopping, _WAIT)
            return True
        self._gathers_since = None
        self.state = LoopState(Activity.DELIVERING)
        try:
            self._deliver(gaps)
            self._patience.reached()
            self.holdings.note_tables()
        except Cancelled:
            return not self._stopping.is_set()
        except Unavailable as error:
            self.holdings.look(now=True)  # a table that is gone does not come back by waiting
            self._wait_for_sink(error)
        self.acks.flush_if_due()
        return True

    def _enter(self, state: LoopState) -> None:
        self.state = state

    def _position(self) -> SinkState:
        return self._control.state.sink(self.sink.name)

    def _end(self) -> int:
        """Up to where this sink may be given messages: the log's end, or what the sink above it has taken."""
        above = self.sink.after
        return self._run.settled() if above is None else self._control.refresh().sink(above).position + 1

    def _gathering(self, gaps: Sequence[Span]) -> bool:
        """Whether a sink waits for more messages, at most for `flush`: one that makes a file of every part, or that decides its columns."""
        size, reader = gaps[0][1] - gaps[0][0], self._control.state.reader
        for_parts = self._run.follow and size < SMALL and self.sink.adaptor.gathers()
        for_sample = self._columns.missing and size < SAMPLE and (reader is None or not reader.copied)
        if not self._reading() or not (for_parts or for_sample):
            return False
        now = self._clock.monotonic()
        self._gathers_since = now if self._gathers_since is None else self._gathers_since
        return now - self._gathers_since < self._run.options.flush.seconds

    def _wait_for_change(self) -> None:
        """Sleep until something changes. The first message after a rest goes at once; in a stream some go together."""
        if not self._stopping.is_set():  # `step` has cleared the event of a stop that came before
            self._clock.wait(self._changed, min(_IDLE, self.acks.due()))
        if (rest := self._looked + _WAIT - self._clock.monotonic()) > 0:
            self._clock.wait(self._stopping, rest)
        self._looked = self._clock.monotonic()

    def _wait_for_sink(self, error: Unavailable) -> None:
        """Wait for a sink that cannot be reached. Errors: `error`, as `Patience.wait`."""
        self.state = LoopState(Activity.UNREACHABLE, error.message)
        failure = Failure(offset=self.acks.position + 1, error=type(error).__name__, message=error.message)
        self._patience.wait(error, lambda: self._on_failure(self.sink.name, failure))

    # -- 1. cut the messages after the position into parts, and deliver them ----------------------------------

    def _deliver(self, gaps: Sequence[Span]) -> None:
        start, end = gaps[0]
        single = self._position().single_until
        if single >= start:
            self._order.forget_tables()
            self._step(start, min(end, single + 1, start + _STEPS))
            return
        adaptor = self.sink.adaptor
        if start < self._tried and not adaptor.shareable():
            gaps = [(start, min(end, self._tried))]  # a batch that is tried again ends where it did, or it would have another key
        work, batch = self._work(*gaps[0]), self.sink.batch
        alone = adaptor.alone()
        width = 1 if alone else self.sink.options.parallelism or self._engine.spark.cores
        # One file takes a range from one task: it would keep the first of several shares, and take the others for repeats.
        in_shares = self._engine.spark.allowed and not self.sink.needs_session and not adaptor.ordered() and adaptor.shareable()
        shared = in_shares and self._order.keeps_ids(work.ids)
        planned = self._cut(gaps, width, shares=width if shared else 1)
        if planned.shared and adaptor.has_keys():
            ids = ids_within(self._run.log, self._run.topic, planned.parts[0][0], planned.parts[0][1], work.ids)
            planned = self._cut(gaps, width) if self._order.other_keys(ids) else planned
        where = Place.HERE if alone else place(planned.size, self._engine.spark)
        if where is Place.MEANWHILE:
            gaps = [(start, min(end, start + _MEANWHILE))]
            planned = self._cut(gaps, 1)
        if where is Place.SPARK and planned.size < width * _SLICE and not self._engine.free(_WAIT):
            return  # in the next step there is more to deliver at once
        self._tried = max(self._tried, planned.parts[-1][1])
        outcomes: Sequence[Outcome] | None
        if not self.sink.needs_session:
            deliver = self._engine.deliver_parts if where is Place.SPARK else self._deliver_here
            outcomes = deliver(work, self._parts(work, planned), batch=batch)
        else:
            self._engine.start()
            in_tasks = where is Place.SPARK
            outcomes = self._sql.deliver_in_tasks(work, self._parts(work, planned), batch=batch) if in_tasks else None
            if outcomes is None:
                if self._sql.careful:  # no further than the messages that the tasks could not take
                    planned = self._cut(gaps, 1, most=_TABLE)
                outcomes = self._deliver_here(work, self._parts(work, planned), batch=max(batch, _TABLE))
        self._settle(work, planned, outcomes)
        for outcome in outcomes:
            if outcome.needs is not None:
                self._columns.extend(work, outcome.needs)

    def _work(self, start: int, end: int) -> SinkWork:
        """What the parts of [start, end) need. Where columns are to be decided, these messages are the sample."""
        options, forbidden = self._run.options, self._overlap.forbidden(self._run.end)
        if self._columns.missing and self.sink.needs_session:
            self._engine.start()
        seconds = max(options.flush.seconds, min(_LONG_PART, options.stop_grace.seconds / 3))  # a stop waits for tasks no longer than that
        work = msgspec.structs.replace(SinkWork.of(self._control, self.sink, self._run.epoch), seconds=seconds, forbidden=forbidden)
        return self._columns.work(work, start, end)

    def _cut(self, gaps: Sequence[Span], width: int, *, shares: int = 1, most: int = _SLICE) -> Cut:
        reader, ids = self._control.state.reader, self._control.state.ids
        tasks = width > 1 and self._engine.spark.allowed and sum(end - start for start, end in gaps) >= SMALL
        return cut(
            self._run.log,
            self._run.topic,
            gaps,
            width=width,
            shares=shares,
            most=most,
            copy=self._copy(),
            repeats=self._order.repeats(reader, ids, tables=tasks),
            by_offset=self.sink.adaptor.ordered() or self.sink.adaptor.gathers(),
        )

    def _copy(self) -> Span:
        """The offsets that hold the newest copy and nothing else; while the copy is read, all from its beginning."""
        reader = self._control.state.reader
        if reader is None:
            return 0, 0
        return reader.begun, sys.maxsize if not reader.copied else max(reader.ended, reader.begun)

    def _parts(self, work: SinkWork, planned: Cut) -> list[Part]:
        return [work.part(self._identity, start, end, bucket=bucket, buckets=buckets) for start, end, bucket, buckets in planned.parts]

    def _deliver_here(self, work: SinkWork, parts: Sequence[Part], *, batch: int) -> list[Outcome]:
        """Deliver the parts in this process, one after the other, up to the first that did not reach its end."""
        outcomes: list[Outcome] = []
        deadline = self._clock.monotonic() + self._seconds()
        for part in parts:
            with uncollected():
                outcomes.append(deliver_part(self._run.log, work, part, batch=batch, ends=lambda: self._is_over(deadline)))
            if outcomes[-1].acked < part.end or self._is_over(deadline):
                break
        return outcomes

    def _is_over(self, deadline: float) -> bool:
        return self._stopping.is_set() or self._clock.monotonic() >= deadline

    def _seconds(self) -> float:
        """The seconds after which a part ends and is acknowledged. Each part of a sink that gathers becomes a file: few are better."""
        flush = self._run.options.flush.seconds
        return max(flush, _LONG_PART) if self.sink.adaptor.gathers() or self.sink.adaptor.ordered() else flush

    # -- 2. publish what the sink has taken, and acknowledge it ------------------------------------------------

    def _settle(self, work: SinkWork, planned: Cut, outcomes: Sequence[Outcome]) -> None:
        """Publish and acknowledge; then handle the first failure. Errors: `Unavailable`, where the sink went away."""
        first: Failure | None
        if planned.shared:
            first = self._settle_shares(work, outcomes)
        else:
            for outcome in sorted(outcomes, key=lambda part_outcome: part_outcome.start):
                if outcome.acked > outcome.start or outcome.acked == outcome.end:
                    self._publish(work, outcome)
                    self.acks.add(outcome.start, outcome.acked, outcome.last)
                if outcome.acked < outcome.end and self.sink.adaptor.ordered():
                    break
            failed = [part_outcome for part_outcome in outcomes if part_outcome.failure is not None]
            first = min(failed, key=lambda part_outcome: part_outcome.start).failure if failed else None
        if any(part_outcome.acked > part_outcome.start for part_outcome in outcomes):
            self._patience.reached()
        if first is not None:
            self._failures.handle(first)
        for outcome in outcomes:
            if outcome.away is not None:
                raise outcome.away.error()

    def _settle_shares(self, work: SinkWork, outcomes: Sequence[Outcome]) -> Failure | None:
        """Acknowledge up to where every share has come, and return what was refused there.

        What some shares have written behind that comes again. A sink that holds its ranges knows what each share has taken, but not of
        single messages: where the refused one is not known, all of the range is sent one at a time, lest older ones replace newer ones.
        """
        whole = len(outcomes) == outcomes[0].buckets  # a share of which nothing is known has taken nothing
        taken = min(share.acked for share in outcomes) if whole else outcomes[0].start
        last: dict[str, int] = {}
        for outcome in outcomes:
            self._publish(work, outcome)
            last |= {name: max(offset, last.get(name, -1)) for name, offset in outcome.last.items() if offset < taken}
        if taken > outcomes[0].start:
            self.acks.add(outcomes[0].start, taken, last)
        refused = [share.failure for share in outcomes if share.failure is not None and share.acked == taken]
        first = min(refused, key=lambda failure: failure.offset, default=None)
        if first is None or first.start < 0:
            return first
        return msgspec.structs.replace(first, start=taken, end=outcomes[0].end if self._holds else first.end)

    def _publish(self, work: SinkWork, outcome: Outcome) -> None:
        if outcome.receipt:
            RunFence(self._run.log, work).check()
            part = work.part(
                self._identity, outcome.start, outcome.acked, bucket=outcome.bucket, buckets=outcome.buckets, attempt=outcome.attempt
            )
            self.sink.adaptor.publish(part, outcome.receipt)
        self.written += outcome.written

    # -- one message at a time ------------------------------------------------------------------------------

    def _step(self, start: int, end: int) -> None:
        """Deliver messages one at a time, each acknowledged durably before the next; stop at the first refused one."""
        writer: SinkWriter | None = self.sink.adaptor.writer(self._work(start, self._end()).part(self._identity, start, end))
        try:
            if writer is not None and not counts_at_once(writer):
                writer.close()
                writer = None
            for offset in range(start, end):
                if self._stopping.is_set() or not self.deliver_one(offset, writer):
                    return
        finally:
            if writer is not None:
                writer.close()

    def deliver_one(self, offset: int, writer: SinkWriter | None = None) -> bool:
        """Deliver one message; `writer`: one that is open already.

        False when the sink refused it, after the failure is handled; and when an operator has moved the position.
        """
        if self.sink.needs_session:
            self._engine.start()
        work = self._work(offset, self._end())
        outcome = deliver_part(self._run.log, work, work.part(self._identity, offset, offset + 1), batch=1, writer=writer)
        while outcome.needs is not None:  # an open writer may not know of what was decided since
            if writer is None:
                self._columns.extend(work, outcome.needs)
                work = self._work(offset, self._end())
            writer = None
            outcome = deliver_part(self._run.log, work, work.part(self._identity, offset, offset + 1), batch=1)
        if outcome.failure is not None:
            self._failures.handle(msgspec.structs.replace(outcome.failure, offset=offset, start=-1, end=-1))
            return False
        self._publish(work, outcome)
        self.acks.add(offset, offset + 1, outcome.last)
        # A sink that holds its position has acknowledged the message in its own transaction.
        return self.acks.flush_if_due() if self._holds else self.acks.flush()

    # -- failures -------------------------------------------------------------------------------------------

    def give_up(self, error: HeadwaterError) -> None:
        """Stop because of an error that no message has caused. The offset log keeps it with the position."""
        self.state = LoopState(Activity.FAILED, error.message)
        at, now = self.acks.position + 1, self._clock.now_ms()
        self.acks.failed(Failure(offset=at, error=error.code, message=error.message, hint=error.hint, of_message=False, at=now))
