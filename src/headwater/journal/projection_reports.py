"""Writes the progress of a projection's partition into the topic `control-<topic>`."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.journal.projection_records import (
    DeadEvent,
    EventPlace,
    Keeps,
    ProjectionLog,
    ProjectionProgress,
    ProjectionRecord,
    ProjectionRestarted,
)
from headwater.journal.projection_target import ProjectionState, TargetUnavailable

_PACE = {"records": 1.0}  # seconds between two records of progress alone: what a killed process does again, where positions are records
_TELLS = 5.0
_PART = 1000  # dead events in one record


class ProgressWriter:
    """The records of one partition. Dead events, settled ones and decisions are written at once; progress alone at its pace.

    Errors of all calls: `TargetUnavailable`.
    """

    def __init__(self, name: str, records: ProjectionLog, keeps: Keeps, clock: Clock) -> None:
        self._name, self._records, self._keeps, self._clock = name, records, keeps, clock
        self._pace = _PACE.get(keeps, _TELLS)
        self._written = ("", -1, None, "")
        self._last = clock.monotonic()

    def whole(self, state: ProjectionState, dead: Sequence[DeadEvent]) -> None:
        """Where a partition is that was just taken. Where positions are records, these say so already."""
        if self._keeps == "records":
            self._written = (state.place, state.decision, None, "")
            return
        parts = [dead[at : at + _PART] for at in range(0, len(dead), _PART)] or [()]
        self._write([self._progress(state, None, None, parked=part, whole=index == 0) for index, part in enumerate(parts)])
        self._written = (state.place, state.decision, None, "")

    def note(self, state: ProjectionState, parked: Sequence[DeadEvent], settled: Sequence[EventPlace]) -> None:
        """A state was kept. Where dead events have changed, or a decision was carried out, it is written at once."""
        if not parked and not settled and state.decision == self._written[1]:
            return
        parts = [parked[at : at + _PART] for at in range(0, len(parked), _PART)] or [()]
        self._write([self._progress(state, None, None, parked=part, settled=settled) for part in parts])
        self._written = (state.place, state.decision, None, "")

    def flush(self, state: ProjectionState, stop: DeadEvent | None, error: HeadwaterError | None, *, now: bool = False) -> None:
        """Write what has changed, where it is time, or `now`."""
        error_message = "" if error is None else f"{error.message} {error.hint}".strip()
        changed = (state.place, state.decision, None if stop is None else stop.place, error_message)
        if changed == self._written or not (now or self._clock.monotonic() - self._last >= self._pace):
            return
        self._write([self._progress(state, stop, error_message)])
        self._written = changed  # type: ignore[assignment]

    def restarted(self, name: str, generation: str, decision: int) -> None:
        """The projection begins anew. Where positions are records, the target has said so."""
        if self._keeps != "records":
            self._write([ProjectionRestarted(name=name, generation=generation, decision=decision)])

    def _progress(
        self,
        state: ProjectionState,
        stop: DeadEvent | None,
        error: str | None,
        *,
        parked: Sequence[DeadEvent] = (),
        settled: Sequence[EventPlace] = (),
        whole: bool = False,
    ) -> ProjectionProgress:
        return ProjectionProgress(
            name=self._name, generation=state.generation, partition=state.partition, epoch=state.epoch, place=state.place,
            decision=state.decision, last=state.last, parked=tuple(parked), settled=tuple(settled), whole=whole, stop=stop,
            error=error or "",
        )  # fmt: skip

    def _write(self, records: Sequence[ProjectionRecord]) -> None:
        try:
            self._records.append(records)
        except HeadwaterError as error:  # what is not written is not known: the partition is taken again, from what is
            raise TargetUnavailable(f"{error.message} {error.hint}".strip()) from error
        self._last = self._clock.monotonic()
