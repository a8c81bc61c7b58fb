"""Manual delivery: an operator sends the next messages, a range again, or a message that was put aside. Without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadBounds, Conflict, HeadwaterError, Stopped, UnknownSink
from headwater.core.files import FileLock, Files, explained
from headwater.core.settings import Settings
from headwater.core.units import Duration
from headwater.pipeline.definition import Options, Pipeline
from headwater.pipeline.offsets.liveness import last_sign, life
from headwater.pipeline.offsets.ranges import missing
from headwater.pipeline.offsets.state import Dead, Failure
from headwater.pipeline.operating.answers import moment
from headwater.pipeline.operating.changes import PipelineChanges
from headwater.pipeline.operating.log_dirs import FOLDER
from headwater.pipeline.operating.stop_report import refused
from headwater.pipeline.operating.superseded import command_among, superseded
from headwater.pipeline.overlap import OverlapCheck
from headwater.pipeline.policy import Stop
from headwater.pipeline.running.column_deciding import ColumnDeciding
from headwater.pipeline.running.context import RunContext
from headwater.pipeline.running.delivery_loop import SinkLoop
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.part_delivery import deliver_part
from headwater.pipeline.running.work import Outcome
from headwater.wire.progress import report


class ManualDelivery:
    """Delivers to one sink of a pipeline, for an operator."""

    def __init__(self, operator: PipelineChanges, pipeline: Pipeline, sink: str, settings: Settings, *, clock: Clock | None = None) -> None:
        if sink not in pipeline.sinks:
            raise UnknownSink(f"Pipeline {pipeline.name} has no sink {sink}.", hint=f"It has {', '.join(pipeline.sinks)}.")
        operator.sink(sink)
        self._overlap = OverlapCheck(pipeline, operator.state().reader)
        self._operator, self._sink, self._settings, self._clock = operator, pipeline.sinks[sink], settings, clock or SystemClock()

    def following(self) -> int | None:
        """The message that `deliver_next` delivers next; None where the sink has everything."""
        now = self._operator.state().sink(self._sink.name)
        gaps = missing(now.position + 1, self._end(), now.taken)
        return gaps[0][0] if gaps else None

    def deliver_next(self, count: int = 1, *, why: str = "", on_taken: Callable[[int], None] = lambda offset: None) -> int:
        """Deliver the next messages, each acknowledged before the one after; return how many were taken.

        A refused message is neither put aside nor tried again, whatever the sink's policy: the operator decides.
        Errors: `Stopped` at a message that the sink refuses; `Conflict` while a live run delivers to the sink.
        """
        with self._lock():
            return self._deliver_next(count, why, on_taken)

    def _deliver_next(self, count: int, why: str, on_taken: Callable[[int], None]) -> int:
        operator = self._operator
        self.check_alone()
        run = operator.state().run
        loop = self._loop(run.epoch if run is not None else 0)
        loop.begin()  # moves a sink that holds its position: it would pass over a message that an operator has taken back
        try:
            return self._steps(loop, count, why, on_taken)
        finally:
            loop.holdings.release()

    def _steps(self, loop: SinkLoop, count: int, why: str, on_taken: Callable[[int], None]) -> int:
        operator, name = self._operator, self._sink.name
        end = self._end()
        gaps = loop.acks.missing(end)
        if gaps:  # the failure stays until the message is taken: without it a live run would send the message, too
            operator.note("step", why, sink=name, offset=gaps[0][0], count=count)
        for done in range(count):
            gaps = loop.acks.missing(end)
            if not gaps or (done and life(operator.state().run, self._clock.now_ms()) == "running"):  # a live run has it again
                return done
            offset = gaps[0][0]
            if not loop.deliver_one(offset):
                failure = operator.state().sink(name).failure
                raise refused(operator, name, failure or Failure(offset=offset, error="", message="it was refused"))
            report(done + 1, count)
            on_taken(offset)
        return count

    def _end(self) -> int:
        """Up to where this sink may be given messages: the log's end, or what the sink above it has taken."""
        above = self._sink.after
        return self._operator.bounds().end if above is None else self._operator.state().sink(above).position + 1

    def check_alone(self) -> None:
        """Errors: `Conflict` while a run delivers, or may deliver: the sink would get the same message twice."""
        name, pipeline, state = self._sink.name, self._operator.pipeline, self._operator.state()
        if state.sink(name).stopped:
            return  # no run delivers to a stopped sink
        run = state.run
        how = life(run, self._clock.now_ms())
        if how == "running":
            raise Conflict(f"A run delivers to {name} now.", hint=f"Stop it first: `headwater pipeline stop {pipeline} --why ...`.")
        if run is not None and how == "silent":
            raise Conflict(
                f"A run on {run.process} may still deliver to {name}, though it has given no sign of life since {moment(last_sign(run))}.",
                hint=f"A new run shuts it out: `headwater pipeline run {run.file or 'FILE'}`.",
            )

    def send_again(self, first: int, last: int, *, why: str = "", dry_run: bool = False) -> Outcome | None:
        """Send the messages `first` to `last` again; positions do not move. Errors: `Stopped` at one that is refused."""
        bounds, pipeline = self._operator.bounds(), self._operator.pipeline
        if first > last:
            raise BadBounds(f"{first}..{last} is the wrong way round.", hint="Give the lower one first.")
        if not bounds.start <= first <= last < bounds.end:
            held = f"holds {bounds.start} to {bounds.end - 1}" if bounds.end > bounds.start else "is empty"
            raise BadBounds(
                f"{first}..{last} does not lie in the log, which {held}.", hint=f"See `headwater pipeline xlog {pipeline} current`."
            )
        if self._operator.holes(first, last):
            raise BadBounds(
                f"Compaction has removed messages of {first}..{last}, so they cannot be sent again.",
                hint="Read the source anew with `headwater pipeline run FILE --again`.",
            )
        self._refuse_command(first, last)
        if dry_run:
            return None
        with self._lock(), self._audited("replay", why, first=first, last=last):
            outcome = self._send(first, last + 1)
        failure = outcome.failure
        stood = {} if failure is None else {"refused": failure.offset}
        self._operator.note("replay", why, sink=self._sink.name, first=first, last=last, written=outcome.written, **stood)
        if failure is not None:
            raise refused(self._operator, self._sink.name, failure)
        return outcome

    def send_dead(self, letter: Dead, *, why: str = "") -> None:
        """Send a message that was put aside. Errors: `Stopped` when it is refused again; it stays put aside, with the newest error."""
        with self._lock():
            letter = self._operator.dead_letter(letter.offset, letter.sink)  # somebody may have sent it, or let it go, since
            with self._audited("dead retry", why, offset=letter.offset):
                failure = self._send(letter.offset, letter.offset + 1).failure
            self._operator.retried(letter, failure, why=why)
        if failure is not None:
            name, at = self._operator.pipeline, letter.offset
            raise Stopped(
                f"Sink {letter.sink} of {name} refuses message {at} again: {failure.message}",
                hint="See it, correct it and send it, or let it go:\n"
                f"    headwater pipeline dead {name} show {at}\n"
                f"    headwater pipeline edit {name} {at} --set FIELD=JSON --why ...\n"
                f"    headwater pipeline dead {name} drop {at} --sink {letter.sink} --why ...",
            )

    def _refuse_command(self, first: int, last: int) -> None:
        """Errors: `Conflict` where a command is among what would be sent again, and not all that came behind it is: a table that was
        emptied long ago would be emptied once more, with all that is in it now."""
        position, name = self._operator.sink(self._sink.name).position, self._operator.pipeline
        if last >= position:
            return
        command = command_among(self._operator, self._sink, first, last)
        if command is not None:
            raise Conflict(
                f"Message {command} is a command to {self._sink.name}, and messages behind {last} would not come again.",
                hint=f"See it with `headwater pipeline xlog {name} show {command}`. Leave it out; or send everything behind it as well, "
                f"with `headwater pipeline replay {name} {self._sink.name} {first}..{position} --why ...`.",
            )

    def covered(self, first: int, last: int) -> int | None:
        """A newer message of one of these messages' documents, over which they come in a sink that keeps one state of each document."""
        adaptor = self._sink.adaptor
        appends = adaptor.kind == "file" or not type(adaptor).upserts
        return None if appends else superseded(self._operator, self._sink, first, last)

    def refuse_older(self, letter: Dead) -> None:
        """Errors: `Conflict` where the sink has a newer message of the same document, which this one would be put over."""
        newer = superseded(self._operator, self._sink, letter.offset, letter.offset)
        if newer is not None:
            raise Conflict(
                f"Sink {letter.sink} has taken message {newer}, a newer one of the same document: "
                f"message {letter.offset} would be put over it.",
                hint=f"Let it go with `headwater pipeline dead {self._operator.pipeline} drop {letter.offset} "
                f"--sink {letter.sink} --why ...`. To send it all the same, say --force (`force` over HTTP and in Python), "
                "and send the newer one behind it with replay.",
            )

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One manual delivery to a sink at a time on this data directory: two would send the same message twice. Errors: `Conflict`."""
        operator, name = self._operator, self._sink.name
        data = operator.log.address.path
        if not data:  # a log on Kafka
            yield
            return
        path = Path(data) / FOLDER / operator.pipeline / f"sending-{name}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(Files(), path)
        except OSError as error:
            raise explained(error, path) from error
        try:
            if not lock.try_exclusive():
                raise Conflict(f"Somebody sends to {name} of {operator.pipeline} now.", hint="Wait until that is done.")
            yield
        finally:
            lock.close()

    @contextmanager
    def _audited(self, what: str, why: str, **details: int) -> Iterator[None]:
        """Put a delivery that an error has ended into the audit: the sink may have taken some of it."""
        try:
            yield
        except HeadwaterError as error:
            with suppress(HeadwaterError):  # the first error says more
                self._operator.note(f"{what} failed", why, sink=self._sink.name, **details, error=error.message)
            raise

    def _send(self, start: int, end: int) -> Outcome:
        if self._sink.needs_session:
            Engine(self._operator.log, self._settings.spark, stopping=threading.Event()).start()
        forbidden = self._overlap.forbidden(self._sink)
        work = self._operator.delivery(self._sink)
        known_as, holdings = self._operator.control.identity(), self._loop(work.epoch).holdings
        alone = life(self._operator.state().run, self._clock.now_ms()) == "gone"
        holdings.refuse_other()
        if alone:
            holdings.renew()
            # A table that was made anew lacks its notes of runs. Beside a live run it has them, and `begin` would sweep away the parts
            # that the run has half written.
            self._sink.adaptor.begin(known_as, self._sink.name, work.epoch)
        holdings.allow_tables(start, end)
        deciding = ColumnDeciding(self._operator.control, self._sink, self._operator.log)
        written, at = 0, start
        while True:
            work = deciding.work(msgspec.structs.replace(self._operator.delivery(self._sink), forbidden=forbidden), at, end)
            part = work.part(known_as, at, end, again=True)
            outcome = deliver_part(self._operator.log, work, part, batch=self._sink.batch)
            if outcome.away is not None:
                raise outcome.away.error()
            if outcome.receipt:
                self._sink.adaptor.publish(part, outcome.receipt)
            written += outcome.written
            if outcome.needs is None:
                break
            deciding.extend(work, outcome.needs)
            at = outcome.acked
        self._count_sent(start, outcome.acked)
        if alone:
            holdings.release()
        return msgspec.structs.replace(outcome, start=start, written=written)

    def _count_sent(self, start: int, end: int) -> None:
        """Note that messages were sent again: the sink does not note what is sent by hand."""
        held = self._sink.adaptor.held(self._operator.control.identity(), self._sink.name)
        position = self._operator.state().sink(self._sink.name).position
        lacking = [] if held is None else missing(start, min(end, position + 1), held)
        self._operator.count_sent(self._sink.name, start, end, lacking)

    def _loop(self, epoch: int) -> SinkLoop:
        stopping, operator = threading.Event(), self._operator
        standing = msgspec.structs.replace(self._sink, options=msgspec.structs.replace(self._sink.options, on_error=Stop()))
        context = RunContext(
            control=operator.control,
            engine=Engine(operator.log, self._settings.spark, stopping=stopping),
            epoch=epoch,
            options=Options(flush=Duration(0)),  # every ack is written before the next message
            clock=self._clock,
            stopping=stopping,
            overlap=self._overlap,
        )
        return SinkLoop(standing, context)
