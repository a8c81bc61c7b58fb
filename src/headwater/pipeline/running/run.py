"""One run of a pipeline: it reads the source into the log, with a loop for every sink, until every sink has everything or it is stopped."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import metadata
from typing import Any, Literal

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Fenced, HeadwaterError, TaskFailed, UnknownSink, UnknownTopic
from headwater.core.settings import Settings
from headwater.log import Log, Writer
from headwater.log.record import TopicSettings
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.compaction import compact
from headwater.pipeline.offsets.control import Control, log_topic, newer_run
from headwater.pipeline.offsets.liveness import Heartbeat
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import SOURCE, Failure
from headwater.pipeline.overlap import OverlapCheck
from headwater.pipeline.running.context import Activity, LoopState, RunContext, StopEvent, Unsettled
from headwater.pipeline.running.delivery_loop import SinkLoop
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.events import Kind, Listener, RunEvent
from headwater.pipeline.running.holdings import may_read
from headwater.pipeline.running.loop_threads import LoopThreads
from headwater.pipeline.running.outages import Outages
from headwater.pipeline.running.reader import SourceReader
from headwater.pipeline.running.run_problems import RunProblems
from headwater.pipeline.running.run_record import RunRecord, newest_claim
from headwater.pipeline.source_progress import SourceProgress
from headwater.pipeline.transforms.missing_columns import MISSING, told

_logger = logging.getLogger("headwater.pipeline")
_POLL = 0.1
_CANCELLING = 5.0  # seconds for Spark's jobs that are cancelled to end, all together
_METRICS = 5.0


class SinkProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a sink is."""

    sink: str
    position: int
    end: int
    lag: int
    written: int
    state: LoopState
    failure: Failure | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended: `stopped` where a sink has refused a message, or where the run was asked to stop."""

    pipeline: str
    state: Literal["done", "stopped", "failed"]
    sinks: tuple[SinkProgress, ...]
    read: int
    asked: bool = False  # an operator or a signal has stopped it
    notices: tuple[str, ...] = ()  # what a user must know of a definition or a source that has changed since the last run


class Run:
    """Runs a pipeline once. `go` blocks; `stop` may be called from another thread or a signal handler.

    `again`: the source is read anew from its beginning, or the namespaces that it names are. `notices`: what a user must know of a
    definition or a source that has changed since the last run.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        log: Log,
        settings: Settings,
        *,
        clock: Clock | None = None,
        follow: bool = False,
        again: bool | str = False,
        take_over: Sequence[str] = (),
        file: str = "",
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.pipeline = pipeline.complete()
        self._log, self._settings, self._clock = log, settings, clock or SystemClock()
        self._follow, self._again, self._file, self._listeners = follow, again, file, tuple(listeners)
        self._take_over = frozenset(take_over)
        if unknown := sorted(self._take_over.difference(self.pipeline.sinks)):
            raise UnknownSink(f"Pipeline {self.pipeline.name} has no sink {unknown[0]}.", hint=f"It has {', '.join(self.pipeline.sinks)}.")
        self._stopping = StopEvent()
        self._cut_short = threading.Event()  # the grace is over: Spark's jobs are cancelled
        self._asked = False
        self._problems = RunProblems()
        self._reading = threading.Event()
        self._source_failed = threading.Event()  # a stopped sink then waits for nothing more
        self._loops: list[SinkLoop] = []
        self._reader: SourceReader | None = None
        self.notices: list[str] = []

    # -- what others call -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Finish the deliveries under way, then end. Safe in a signal handler."""
        self._asked = True
        self._stopping.set()

    def progress(self) -> list[SinkProgress]:
        """Where every sink is; empty before the run has begun."""
        if not self._loops:
            return []
        end, sinks = self._context.end(), self._context.control.state
        return [
            SinkProgress(
                sink=loop.sink.name,
                position=(position := loop.acks.position),
                end=end,
                lag=max(0, end - 1 - position),
                written=loop.written,
                state=loop.state,
                failure=sinks.sink(loop.sink.name).failure,
            )
            for loop in self._loops
        ]

    @property
    def read(self) -> int:
        """How many records were read."""
        return self._reader.read if self._reader is not None else 0

    @property
    def source_progress(self) -> SourceProgress | None:
        """How much of the source is read, earlier runs included; None where it did not tell its size."""
        return self._reader.progress if self._reader is not None else None

    @property
    def phase(self) -> LoopState:
        """The reader's state."""
        return self._reader.state if self._reader is not None else LoopState(Activity.STARTING)

    def go(self) -> Result:
        """Run to the end.

        Errors: `BadConfig` for a source that cannot be followed and should be; `Fenced` when a newer run takes over; errors of the source
        or a sink that no message has caused.
        """
        pipeline, topic = self.pipeline, log_topic(self.pipeline.name)
        if self._follow:
            pipeline.check_follows()
        self._create_topic(topic)
        control = Control.create(self._log, pipeline.name, self._clock)
        writer = newest_claim(control)
        engine = Engine(self._log, self._settings.spark, stopping=self._cut_short)
        self._context = RunContext(
            control=control,
            engine=engine,
            epoch=writer.epoch,
            options=pipeline.options,
            clock=self._clock,
            stopping=self._stopping,
            follow=self._follow,
            overlap=OverlapCheck(pipeline, None if self._again is True else control.state.reader),
            unsettled=Unsettled(self._stopping.wake),
        )
        self._outages = Outages(control, writer.epoch)
        self._record = RunRecord(pipeline, control, self._clock, epoch=writer.epoch, end=self._context.end())
        self._record.begin(self._file, again=self._again is True, notice=self._notice)
        self._context = replace(self._context, begun=self._context.end())
        self._tidy()
        self._emit("boot", details={"source": str(pipeline.reader), "sinks": [str(sink.adaptor) for sink in pipeline.sinks.values()]})
        try:
            with Heartbeat(control, writer.epoch, self._clock):
                result = self._go(writer)
        except BaseException as error:
            self._stopping.set()  # no thread outlives the call
            self._record.ended("failed", error)
            raise
        finally:
            engine.spark.close()
        self._record.ended(result.state)
        self._emit("exit", details={"state": result.state, "read": result.read})
        return result

    # -- the run --------------------------------------------------------------------------------------------

    def _create_topic(self, topic: str) -> None:
        """A topic that is there keeps its segments' size: others may have written it, and no record depends on it."""
        try:
            self._log.topic(topic)
            settings = None
        except UnknownTopic:
            settings = TopicSettings(segment=int(self.pipeline.options.segment))
        self._log.create_topic(topic, settings=settings, part=PART)

    def _go(self, writer: Writer) -> Result:
        context = self._context
        if context.overlap is not None:
            context.overlap.check_all()  # a refused run leaves no file or note at the sinks that are not at fault
        self._reading.set()
        self._reader = SourceReader(
            self.pipeline,
            context,
            writer,
            lag=self._bytes_behind,
            on_failure=self._source_failure,
            on_notice=self._notice,
            again=self._again,
        )
        self._loops = [
            SinkLoop(
                sink,
                context,
                changed=self._stopping.listener(),
                reading=self._reading.is_set,
                source_failed=self._source_failed.is_set,
                above_advances=partial(self._advances, sink.after),
                on_failure=self._sink_failure,
                below=self.pipeline.below(sink.name),
                takes_over=sink.name in self._take_over,
            )
            for sink in self.pipeline.sinks.values()
        ]
        threads = LoopThreads(self._stopping.attention, self._clock)
        for loop in self._loops:
            self._add(threads, f"sink {loop.sink.name}", loop.run, loop)
        self._add(threads, "source", self._read)
        # Each topic is watched before the loops look at it for the first time.
        wake = self._stopping.wake
        with self._log.watch(context.topic, 0, wake), self._log.watch(context.control.topic, 0, wake):
            threads.start()
            self._watch(threads)
        progress = tuple(self.progress())
        if (error := self._problems.error()) is not None:
            raise error
        behind = any(sink.failure is not None for sink in progress)
        state: Literal["done", "stopped"] = "stopped" if behind or self._asked else "done"
        self._tell_missing_columns()
        notices = tuple(self.notices)
        return Result(pipeline=self.pipeline.name, state=state, sinks=progress, read=self.read, asked=self._asked, notices=notices)

    def _read(self) -> None:
        assert self._reader is not None
        try:
            if not may_read([loop.holdings for loop in self._loops], self._context):
                return self._source_failed.set()  # the sink raises the error
            self._reader.run()
        except Fenced as error:  # of the log, which knows claims and no runs
            raise newer_run(self.pipeline.name) from error
        finally:
            self._reading.clear()
            self._stopping.wake()

    def _advances(self, name: str | None) -> bool:
        """Whether a sink will take more of what is in the log, unless it refuses it: it does not stand, and there is more for it."""
        if name is None:
            return False
        state, above = self._context.control.state, self.pipeline.sinks[name].after
        end = self._context.end() if above is None else state.sink(above).position + 1
        sink = state.sink(name)
        return not sink.stopped and (sink.position + 1 < end or self._advances(above))

    def _add(self, threads: LoopThreads, name: str, call: Callable[[], None], loop: SinkLoop | None = None) -> None:
        def guarded() -> None:
            ends = False
            while not ends:
                try:
                    call()
                    ends = True
                except Exception as error:
                    text = f"{name} of {self.pipeline.name} failed: {error}\n\n{traceback.format_exc()}"
                    ends = not self._goes_on(error if isinstance(error, HeadwaterError) else TaskFailed(text), loop)

        threads.add(f"headwater {self.pipeline.name} {name}", guarded)

    def _goes_on(self, error: HeadwaterError, loop: SinkLoop | None) -> bool:
        """Give up a sink, or the reader. True where an operator has moved the sink since, and a run that follows begins it anew."""
        self._problem(error, loop)
        with suppress(HeadwaterError):  # a newer run has begun, or the offset log cannot be read
            if loop is not None and self._follow and loop.holdings.moved_again(self._source_failed.is_set):
                self._problems.forget(loop.sink.name)
                return True
        return False

    def _problem(self, error: HeadwaterError, loop: SinkLoop | None) -> None:
        """End the sink, or the reader, whose error no message has caused. The others go on; `go` raises the error at the end."""
        self._problems.add(loop.sink.name if loop is not None else SOURCE, error)
        self._emit("error", path=loop.sink.name if loop is not None else "", details={"error": error.code, "message": error.message})
        if isinstance(error, Fenced) or self.pipeline.options.on_error == "stop_all":
            self._stopping.set()
        elif loop is None:
            self._source_failed.set()
            self._stopping.wake()
        else:
            try:
                loop.give_up(error)
            except HeadwaterError:  # the offset log cannot be written, for a full disk or a newer run: all end
                self._stopping.set()

    def _watch(self, threads: LoopThreads) -> None:
        """Wait for the threads to end, and report metrics; after a stop, wait no longer than the grace."""
        emitted = compacted = self._clock.monotonic()
        deadline: float | None = None
        while threads.running():
            threads.wait(_POLL)
            now = self._clock.monotonic()
            if self._stopping.is_set() and deadline is None:
                deadline = now + self.pipeline.options.stop_grace.seconds
            if deadline is not None and now > deadline:
                self._cut_short.set()
                # What this process does itself cannot be cancelled: to wait longer would only make the stop late.
                threads.join(_CANCELLING if self._context.engine.spark.started else 0.0)
                break
            run = self._context.control.state.run
            if run is not None and run.stopping and not self._stopping.is_set():
                self.stop()  # on an operator's request
            if now - emitted >= _METRICS:
                emitted = now
                self._metrics()
                self._tidy()
            if now - compacted >= self.pipeline.options.compact_every.seconds and deadline is None:
                compacted = now
                compact(self._context.control)
        self._metrics()

    def _bytes_behind(self) -> int:
        """An estimate of the bytes that the slowest sink has not taken, by the records' mean size.

        Where only sinks are behind that have stopped, or below one that has, nothing moves without an operator: a run that does not
        follow changes ends.
        """
        end, least = self._context.end(), min(loop.acks.position for loop in self._loops)
        if end - 1 <= least:
            return 0
        log, topic = self._log, self._context.topic
        sample = log.read(topic, 0, max(least + 1, log.bounds(topic, 0).start), limit=100, max_bytes=1 << 20)
        size = int((end - 1 - least) * sum(len(row.key or b"") + len(row.value or b"") + 29 for row in sample) / max(1, len(sample)))
        limit = self.pipeline.options.max_log
        behind = [loop for loop in self._loops if loop.acks.position < end - 1]
        stuck = not any(self._advances(loop.sink.name) for loop in behind)
        if not self._follow and limit is not None and size >= limit and behind and stuck:
            self._stopping.set()
        return size

    # -- what the run writes and reports ----------------------------------------------------------------------

    def _sink_failure(self, sink: str, failure: Failure) -> None:
        self._emit("error", path=sink, details={"offset": failure.offset, "error": failure.error, "message": failure.message})

    def _source_failure(self, error: HeadwaterError) -> None:
        self._emit("error", path=self.pipeline.source_name, details={"error": error.code, "message": error.message})

    def _notice(self, text: str) -> None:
        self.notices.append(text)
        self._emit("notice", details={"message": text})

    def _metrics(self) -> None:
        phase, known = self.phase, {} if self.source_progress is None else {"progress": self.source_progress}
        self._note(SOURCE, phase, self.read)
        self._emit("metrics", path=self.pipeline.source_name, details={"records": self.read, "phase": str(phase), **known})
        for progress in self.progress():
            self._note(progress.sink, progress.state, progress.position)
            details = {"records": progress.written, "position": progress.position, "lag": progress.lag, "state": str(progress.state)}
            self._emit("metrics", path=progress.sink, details=details)

    def _tell_missing_columns(self) -> None:
        for sink in self.pipeline.sinks.values():
            for transform in sink.transforms:
                if columns := MISSING.of(transform.name):
                    self._notice(f"Sink {sink.name}: {told(transform.name, columns)}")
                    MISSING.forget(transform.name)

    def _tidy(self) -> None:
        """Compact the offset log where that is worth it; a run that cannot do so goes on."""
        try:
            self._context.control.compact_if_worn()
        except HeadwaterError as error:
            _logger.warning("The offset log of %s could not be compacted: %s", self.pipeline.name, error)

    def _note(self, name: str, state: LoopState, position: int) -> None:
        try:
            self._outages.hear(name, state, position, self._clock.now_ms())
        except HeadwaterError as error:  # no reason to stop the run: the loops report an offset log that cannot be written
            _logger.warning("The state of %s of %s could not be noted: %s", name or "the source", self.pipeline.name, error)

    def _emit(self, kind: Kind, *, path: str = "", details: dict[str, Any] | None = None) -> None:
        above = f"{self.pipeline.source_name}/{path}" if path and path != self.pipeline.source_name else self.pipeline.source_name
        version = metadata.version("headwater") if kind in ("boot", "exit") else ""
        now, name = self._clock.now_ms(), self.pipeline.name
        event = RunEvent(kind=kind, at=now, pipeline=name, path=above, version=version, details=details or {})
        for listener in self._listeners:
            try:
                listener(event)
            except Exception as error:  # a full disk, an address that does not answer: no reason to stop the run
                _logger.warning("A listener of %s failed at %s: %s", name, kind, error)
