"""Performs the operations of pipelines on a log, each on the pipeline that its request names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Damaged, HeadwaterError, NotFound, UnknownTopic
from headwater.core.metrics import Metrics, SinkReading
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.log.opening import LogAddress, open_log
from headwater.pipeline.offsets.control import Control, offsets_topic, pipeline_names
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.log_dirs import address, log_dirs, remember
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operations import PipelineRequest, where_to_search
from headwater.wire.operation import Operation


class Opened(Protocol):
    """Holds the log, where it is open."""

    @property
    def now(self) -> Log | None: ...


def measure(metrics: Metrics, performer: PipelinePerformer, log: Opened) -> None:
    """Let the metrics read where the sinks are."""
    metrics.pipeline.read = lambda: performer.readings(log.now)


class _Kept(NamedTuple):
    """A pipeline's state, kept between two requests, which then read only the new records. One thread at a time."""

    generation: str
    control: Control
    lock: threading.Lock


class PipelinePerformer:
    """Safe for several threads."""

    SLOW = "Use a simpler expression."

    def __init__(self, *, log: object = None, clock: Clock | None = None, settings: Settings | None = None, address: str = "") -> None:
        self._clock = clock or SystemClock()
        self._all: dict[str, _Kept] = {}
        self._mutex = threading.Lock()

    def perform(self, log: Log, operation: Operation[Any, Any], request: Any, who: str = "") -> Any:
        """The answer to an operation of the table. Errors: those of `PipelineOperations`."""
        if not isinstance(request, PipelineRequest):
            return self.every(log)
        fields = msgspec.structs.asdict(request)
        pipeline = fields.pop("pipeline")
        changes = operation.changes and not fields["dry_run"]
        with self._operations(log, pipeline, who=who, changes=changes, alone=operation.patience is None) as operations:
            answer = getattr(operations, operation.name)(**fields)
        elsewhere = operations.log is not log
        if isinstance(answer, answers.Removed) and changes and elsewhere:
            remember(Path(log.address.path), pipeline, None)
        if isinstance(answer, answers.Status) and elsewhere:
            return msgspec.structs.replace(answer, log_dir=operations.log.address.path)
        return answer

    def locate(self, log: Log, operation: Operation[Any, Any], request: PipelineRequest) -> tuple[LogAddress, Path | None]:
        """The log that holds the pipeline, and the folder where its file must run."""
        with self._operations(log, request.pipeline) as operations:
            return operations.log.address, None if operation.runs is where_to_search else operations.folder()

    def every(self, log: Log) -> list[answers.Status]:
        """The status of every pipeline that has run on this log, and of those whose log is in a directory of its own.

        One that cannot be read is `damaged` or `lost`, and does not hide the others.
        """
        statuses, apart = [], log_dirs(log.address.path)
        for name in {*apart, *pipeline_names(log)}:
            folder = str(apart.get(name, ""))
            try:
                with self._operations(log, name) as operations:
                    statuses.append(msgspec.structs.replace(operations.status(), log_dir=folder, namespaces=[]))
            except HeadwaterError as error:
                if isinstance(error, Damaged):
                    statuses.append(answers.Status(pipeline=name, state="damaged", end=0, lag=0, sinks=[], log_dir=folder))
                elif folder:
                    statuses.append(answers.Status(pipeline=name, state="lost", end=0, lag=0, sinks=[], log_dir=folder))
                elif not isinstance(error, NotFound):  # a run that has just begun has no log yet; or it was deleted since
                    raise
        return sorted(statuses, key=lambda status: status.pipeline)

    def readings(self, log: Log | None) -> list[SinkReading]:
        """Where all sinks are, for the metrics; empty while the log is not open or cannot be read."""
        if log is None:
            return []
        try:
            return [
                SinkReading(pipeline=status.pipeline, sink=at.sink, offset=at.position, lag=at.lag, stopped=at.state == "stopped")
                for status in self.every(log)
                for at in status.sinks
            ]
        except HeadwaterError:
            return []

    @contextmanager
    def _operations(
        self, log: Log, pipeline: str, *, who: str = "", changes: bool = False, alone: bool = False
    ) -> Iterator[PipelineOperations]:
        """The operations on the log that holds the pipeline. `alone`: with a state of their own, so that other requests do not wait."""
        own = log_dirs(log.address.path).get(pipeline)
        if own is not None:
            with open_log(address(pipeline, own), read_only=not changes, clock=self._clock) as other:
                yield PipelineOperations(other, pipeline, who=who, clock=self._clock)
        elif alone:
            yield PipelineOperations(log, pipeline, who=who, clock=self._clock)
        else:
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
                kept = self._all[pipeline] = _Kept(generation, Control(log, pipeline, self._clock), threading.Lock())
            return kept
