"""What a run writes of itself into the offset log: that it has begun, with which sinks, and how it ended."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Conflict, Differs, HeadwaterError
from headwater.core.ids import random_id
from headwater.log import Writer
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.claims import claimed
from headwater.pipeline.offsets.compaction import is_compacted
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, ReaderState, RunInfo, RunState, SinkState, State
from headwater.pipeline.running.pieces import positions_in
from headwater.pipeline.stored_definition import StoredDefinition


def newest_claim(control: Control) -> Writer:
    """A claim of the message log, newer than every run that the offset log knows.

    A log that was restored from a copy, or made anew, counts its claims from an older number: the run would take the last one before it
    for a newer one, and end. A run that is newer indeed has claimed the log before it is in the offset log.
    """
    log, topic = control.log, control.messages
    while True:
        writer, run = log.claim(topic, 0, part=PART), control.refresh().run
        if run is None or run.epoch <= writer.epoch or log.epoch(topic, 0) != writer.epoch:
            return writer


def older_offsets(control: Control, why: str, file: str = "") -> Differs:
    """The error of an offset log that lacks what the message log shows to have happened."""
    return Differs(
        f"The log of {control.pipeline} holds messages of its source, and {why}. The offset log is older than the log, or missing: was it "
        "restored from a copy? Nothing was read.",
        hint="Put the newer offset log back. Or read the source anew from its beginning. Sinks that do not upsert then get a second time "
        f"what they have:\n    headwater pipeline run {file or control.state.file} --again",
    )


def older_log(control: Control, source: str, known: ReaderState, end: int) -> Differs:
    """The error of a message log, with its `end`, that is not the one that the source was read into, or lacks a part of it."""
    lacks = f"and the log ends before message {end}. The log is older than its offset log: was it restored from a copy?"
    other = "and the log is another one: was it deleted and created again?"  # it may be as long by now, if only by the claims of runs
    return Differs(
        f"The source {source} was read into the log up to message {known.upto - 1}, {lacks if known.upto > end else other}",
        hint="Put the newer log back, or read the source anew from its beginning with "
        f"`headwater pipeline run {control.state.file} --again`.",
    )


class RunRecord:
    """The record of one run, which has claimed the log with `epoch` when the log ended at `end`."""

    def __init__(self, pipeline: Pipeline, control: Control, clock: Clock, *, epoch: int, end: int) -> None:
        self._pipeline, self._control, self._clock, self._epoch, self._end = pipeline, control, clock, epoch, end

    def begin(self, file: str, *, again: bool, notice: Callable[[str], None]) -> None:
        """Write that the run has begun, and tell which sinks have changed. `again`: everything is read anew.

        Errors: `Fenced` where a newer run has begun; `Conflict` for a new sink that cannot get everything; `Differs` where the offset log
        is older than the log.
        """
        log, topic, notices = self._control.log, self._control.messages, list[str]()
        # Before sinks are written to, too: one that does not know what it holds would get all of the log a second time.
        if self._control.state.reader is None and not again and next(positions_in(log, topic, 0), None) is not None:
            raise older_offsets(self._control, "its offset log does not know that they were read", file)

        def decide(state: State) -> list[Change]:
            notices.clear()
            self._control.check_run(state, self._epoch)
            defined = self._definitions(state, notices)
            return [("run", self._info(state, file)), *self._sinks(state, again), *defined]

        self._control.change(decide)
        for text in notices:
            notice(text)

    def ended(self, how: RunState, error: BaseException | None = None) -> None:
        """Write that the run has ended; `error`: why it failed, for `status`."""
        message, hint = (error.message, error.hint) if isinstance(error, HeadwaterError) else (repr(error) if error else "", "")

        def decide(run: RunInfo) -> list[Change]:
            now = self._clock.now_ms()
            return [("run", msgspec.structs.replace(run, state=how, ended=now, stopping=False, error=message, hint=hint))]

        self._control.change_run(self._epoch, decide)

    def _info(self, state: State, file: str) -> RunInfo:
        log, before = self._control.log, state.run.claims if state.run is not None else ()
        now = self._clock.now_ms()
        return RunInfo(
            epoch=self._epoch,
            id=random_id(),
            began=now,
            process=f"{socket.gethostname()}:{os.getpid()}",
            sinks=tuple(self._pipeline.sinks),
            file=file,
            folder=os.getcwd(),
            beat=now,
            claims=claimed(before, (self._epoch, self._end), start=log.bounds(self._control.messages, 0).start),
        )

    def _sinks(self, state: State, again: bool) -> list[Change]:
        names = tuple(self._pipeline.sinks)
        new = [name for name in names if name not in state.sinks]
        begins = -1  # the position of a new sink
        if new and (state.compactions or is_compacted(self._control.log, self._control.messages)):
            if not again:
                raise Conflict(
                    f"Sink {new[0]} is new, and the log of {self._pipeline.name} was compacted: it would not get everything.",
                    hint="Give all sinks everything anew with `headwater pipeline run FILE --again`, or use another pipeline for the sink.",
                )
            begins = self._end - 1  # it gets all of the new copy
        deleted = {entry.details.get("sink") for entry in state.audit.values() if entry.what == "delete"}
        changes: list[Change] = []
        for name in names:
            sink = state.sink(name)
            if name not in state.sinks:  # one that was deleted must forget the positions that it holds
                sink = SinkState(position=begins, generation=int(name in deleted))
            if name not in state.sinks or sink.failure is not None:
                changes.append((f"sink/{name}", sink.revived()))
            if name not in state.sinks and begins >= 0:
                changes.append(state.counted_apart(name, (0, begins + 1)))
        return changes

    def _definitions(self, state: State, notices: list[str]) -> list[Change]:
        """The sinks that are new or not what they were, and a notice of those that have taken messages as they were."""
        changes: list[Change] = []
        for name, sink in self._pipeline.sinks.items():
            now, before = StoredDefinition.of_sink(sink), state.defined.get(name)
            if now == before:
                continue
            changes.append((f"defined/{name}", now))
            position = state.sink(name).position
            if before is not None and position >= 0 and (changed := "; ".join(now.changes_since(before))):
                taken = "Message 0 was" if not position else f"Messages 0 to {position} were"
                notices.append(
                    f"Sink {name} has changed: {changed}. {taken} delivered as it was before. To deliver them again: "
                    f"`headwater pipeline offset {self._pipeline.name} mark {name} -1 --why ...`"
                )
        return changes
