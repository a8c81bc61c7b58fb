"""Performs the operations of pipelines on a log, each on the pipeline that its request names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import HeadwaterError, UnknownTopic
from headwater.core.metrics import Metrics, SinkReading
from headwater.log import Log
from headwater.log.opening import LogAddress, open_log
from headwater.pipeline.offsets.control import Control, offsets_topic
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.log_dirs import address, log_dirs, remember
from headwater.pipeline.operating.operations import PipelineOperations, everything
from headwater.pipeline.operations import PipelineRequest, where_to_search
from headwater.wire.operation import Operation


class Opened(Protocol):
    """What holds the log that is open now, if it is."""

    @property
    def now(self) -> Log | None: ...


def measure(metrics: Metrics, performer: PipelinePerformer, log: Opened) -> None:
    """Let the metrics read where the sinks are."""
    metrics.pipeline.read = lambda: performer.readings(log.now)


class _Kept:
    """A pipeline's state that is kept between two questions: only what is new is read. One thread at a time."""

    def __init__(self, generation: str, control: Control) -> None:
        self.generation, self.control, self.lock = generation, control, threading.Lock()


class PipelinePerformer:
    """May be asked from several threads."""

    SLOW = "Use a simpler expression."

    def __init__(self, *, log: object = None, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._all: dict[str, _Kept] = {}
        self._mutex = threading.Lock()

    def perform(self, log: Log, operation: Operation[Any, Any], request: Any, who: str = "") -> Any:
        """The answer to an operation of the table. Errors: those of `PipelineOperations`."""
        if not isinstance(request, PipelineRequest):
            return self.every(log)
        fields = msgspec.structs.asdict(request)
        pipeline = fields.pop("pipeline")
        own = log_dirs(log.address.path).get(pipeline)
        if own is not None:
            changes = operation.changes and not fields["dry_run"]
            with open_log(address(pipeline, own), read_only=not changes, clock=self._clock) as other:
                answer = getattr(PipelineOperations(other, pipeline, who=who, clock=self._clock), operation.name)(**fields)
            if isinstance(answer, answers.Removed) and changes:
                remember(Path(log.address.path), pipeline, None)
            return msgspec.structs.replace(answer, log_dir=str(own)) if isinstance(answer, answers.Status) else answer
        if operation.patience is None:  # others must not wait for it
            return getattr(PipelineOperations(log, pipeline, who=who, clock=self._clock), operation.name)(**fields)
        with self._desk(log, pipeline, who) as desk:
            return getattr(desk, operation.name)(**fields)

    def locate(self, log: Log, operation: Operation[Any, Any], request: PipelineRequest) -> tuple[LogAddress, Path | None]:
        """The log that holds the pipeline, and the folder where its file must run."""
        own = log_dirs(log.address.path).get(request.pipeline)
        if own is None:
            with self._desk(log, request.pipeline, "") as desk:
                return log.address, None if operation.runs is where_to_search else desk.folder()
        where = address(request.pipeline, own)
        with open_log(where, read_only=True, clock=self._clock) as other:
            return where, None if operation.runs is where_to_search else PipelineOperations(
                other, request.pipeline, clock=self._clock
            ).folder()

    def every(self, log: Log) -> list[answers.Status]:
        """The status of all pipelines."""

        def asked(name: str) -> answers.Status:
            with self._desk(log, name, "") as desk:
                return desk.status()

        return everything(log, asked)

    def readings(self, log: Log | None) -> list[SinkReading]:
        """Where all sinks are, for the metrics. Nothing while the log is not open, or cannot be read: that is told elsewhere."""
        if log is None:
            return []
        try:
            return [
                SinkReading(pipeline=one.pipeline, sink=at.sink, offset=at.position, lag=at.lag, stopped=at.state == "stopped")
                for one in self.every(log)
                for at in one.sinks
            ]
        except HeadwaterError:
            return []

    @contextmanager
    def _desk(self, log: Log, pipeline: str, who: str) -> Iterator[PipelineOperations]:
        kept = self._kept(log, pipeline)
        with kept.lock:
            yield PipelineOperations(log, pipeline, who=who, clock=self._clock, control=kept.control)

    def _kept(self, log: Log, pipeline: str) -> _Kept:
        try:
            generation = log.topic(offsets_topic(pipeline)).generation
        except UnknownTopic:
            self._all.pop(pipeline, None)
            generation = ""
        with self._mutex:
            kept = self._all.get(pipeline)
            if kept is None or kept.generation != generation:
                kept = self._all[pipeline] = _Kept(generation, Control(log, pipeline, self._clock))
            return kept
