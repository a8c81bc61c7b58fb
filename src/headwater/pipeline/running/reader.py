"""Reading a pipeline's source into its log: the copy in rounds of slices, then the changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Differs, HeadwaterError, Timeout, Unreachable
from headwater.core.ids import random_id
from headwater.log import Log, Writer
from headwater.log.record import Mode
from headwater.pipeline.adaptor import CanCopy, CanTail, CopyPlan, Piece
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.ranges import joined, missing
from headwater.pipeline.offsets.state import Change, ReaderState, State
from headwater.pipeline.running.copying import Copied, CopyWork, copy_slice
from headwater.pipeline.running.progress import FOLLOWING, append, complete_records, positions
from headwater.pipeline.running.work import CopyProgress

if TYPE_CHECKING:
    from headwater.pipeline.running.engine import Engine

_ROUND = 96 << 20  # bytes that a task reads in the first round
_SHARE = 8 << 20  # bytes of a round in the run itself
_SLICES = 2000  # of a round
_WAIT = 0.05
_PATIENCE = 300.0  # seconds
T = TypeVar("T")


class _Patience:
    """A source that cannot be used is tried again, later each time; for five minutes without a record, or for ever where it is followed."""

    def __init__(
        self, clock: Clock, stopping: threading.Event, forever: bool, records: Callable[[], int], told: Callable[[HeadwaterError], None]
    ) -> None:
        self._clock, self._stopping, self._forever, self._records, self._told = clock, stopping, forever, records, told

    def with_(self, call: Callable[[], T]) -> T | None:
        """What the call returns; None when stopping before it could."""
        failing: float | None = None
        records, pause = -1, 0.5
        while not self._stopping.is_set():
            try:
                return call()
            except (Unreachable, Timeout) as error:
                self._told(error)
                now = self._clock.monotonic()
                if failing is None or self._records() > records:  # it did give something since it failed last
                    failing, records, pause = now, self._records(), 0.5
                if not self._forever and now - failing > _PATIENCE:
                    raise
                self._clock.wait(self._stopping, pause)
                pause = min(30.0, pause * 2)
        return None


class SourceReader:
    """Reads the source of one run. `run` returns when the source is read to its end, or when `stopping` is set."""

    def __init__(
        self,
        pipeline: Pipeline,
        log: Log,
        topic: str,
        control: Control,
        writer: Writer,
        engine: Engine,
        *,
        clock: Clock,
        stopping: threading.Event,
        lag: Callable[[], int],
        told: Callable[[HeadwaterError], None] = lambda error: None,
        again: bool = False,
    ) -> None:
        self._pipeline, self._log, self._topic, self._control = pipeline, log, topic, control
        self._writer, self._engine, self._clock, self._stopping, self._lag = writer, engine, clock, stopping, lag
        self._again, self._told = again, told
        self._open: dict[int, Iterator[Piece]] = {}  # slices that are read half, in this process
        self.records = 0
        self._phase = "starting"
        self._away: tuple[int, str] | None = None  # why the source could not be used, and what had been read by then
        self._flushed = clock.monotonic()

    @property
    def phase(self) -> str:
        """What reading is at; `unreachable: ...` from a failure of the source until it gives something again."""
        away = self._away
        return f"unreachable: {away[1]}" if away is not None and away[0] == self.records else self._phase

    @phase.setter
    def phase(self, name: str) -> None:
        if name != self._phase:
            self._phase, self._away = name, None

    def _is_away(self, error: HeadwaterError) -> None:
        if self._away != (self.records, error.message):
            self._away = (self.records, error.message)
            self._told(error)

    @property
    def follows(self) -> bool:
        adaptor = self._pipeline.reader
        return isinstance(adaptor, CanTail) and bool(getattr(adaptor, "tail", True))

    def run(self, follow: bool) -> None:
        """Read. A source that can be followed is: with `follow` until stopping, else until it has nothing new.

        Errors: what the adaptor raises; `Differs`.
        """
        patience = _Patience(self._clock, self._stopping, follow, lambda: self.records, self._is_away)
        state = patience.with_(self._begin)
        while state is not None and not state.copied and not self._stopping.is_set():
            self.phase = "copy"
            state = patience.with_(lambda: self._copy(self._begin()))  # what was appended before a failure is read back first
        caught_up = not self.follows
        while not caught_up and not self._stopping.is_set():
            self.phase = "sync"
            caught_up = bool(patience.with_(lambda: self._follow(follow)))
        self.phase = "done" if not self._stopping.is_set() else "stopped"

    def plan(self) -> CopyPlan:
        """The stored plan, as a value."""
        state = self._control.state.reader
        assert state is not None
        return msgspec.convert(state.plan, CopyPlan)

    # -- the copy -------------------------------------------------------------------------------------------

    def _begin(self) -> ReaderState:
        adaptor, known = self._pipeline.reader, self._control.state.reader
        if known is not None and not self._again:
            plan = msgspec.convert(known.plan, CopyPlan)
            if not known.copied and isinstance(adaptor, CanCopy) and not adaptor.same(plan, self._pipeline.namespaces):
                raise Differs(
                    f"The source {self._pipeline.source_name} has changed since its copy began.",
                    hint="Put it back as it was, or read it anew from its beginning with `headwater pipeline run --again`.",
                )
            found = positions(self._log, self._topic, known.upto, known.run, self._claims())
            merged = known.positions | {
                str(number): position
                for number, position in found.items()
                if number != FOLLOWING and not any(a <= number < b for a, b in known.finished)
            }
            cursor = found.get(FOLLOWING, known.cursor)
            return self._store(msgspec.structs.replace(known, positions=merged, cursor=cursor, upto=self._log.bounds(self._topic, 0).end))
        if isinstance(adaptor, CanCopy):
            plan = adaptor.plan(self._pipeline.namespaces, self._pipeline.options.slices or self._engine.cores)
        else:
            plan = CopyPlan(identity={}, slices=())
        end = self._log.bounds(self._topic, 0).end
        self._again = False
        state = ReaderState(
            run=random_id(),
            plan=msgspec.to_builtins(plan),
            begun=end,
            upto=end,
            cursor=plan.cursor,
            copied=not isinstance(adaptor, CanCopy),
        )
        return self._store(state, whole=True)

    def _store(self, state: ReaderState, *, whole: bool = False) -> ReaderState:
        """Write how far reading has come; with `whole` the plan, too, which stays what it is."""
        epoch = self._writer.epoch

        def decide(now: State) -> Sequence[Change]:
            if now.run is not None and now.run.epoch > epoch:
                return []
            return [("reader", state)] if whole else [("reading", state.reading)]

        self._control.change(decide)
        self._flushed = self._clock.monotonic()
        return state

    def _copy(self, state: ReaderState) -> ReaderState:
        plan = msgspec.convert(state.plan, CopyPlan)
        self._open = {}  # after a failure, what was read half is opened anew
        most = _ROUND
        while not self._stopping.is_set() and (left := missing(0, len(plan.slices), state.finished)):
            if self._waits():
                continue
            since = self._log.bounds(self._topic, 0).end
            numbers = list(islice((number for a, b in left for number in range(a, b)), _SLICES))
            done = self._round(self._work(state, plan, numbers, since, most), numbers)
            self.records += sum(one.records for one in done)
            at = {str(one.slice): one.position for one in done}
            ended = joined([*state.finished, *((one.slice, one.slice + 1) for one in done if one.finished)])
            state = msgspec.structs.replace(
                state,
                positions={n: position for n, position in (state.positions | at).items() if not any(a <= int(n) < b for a, b in ended)},
                finished=tuple(ended),
                upto=since,
            )
            self._store(state)
            most *= 2  # a compressed file is read from its beginning in every round: with ever longer ones that stays a small part
        if not self._stopping.is_set():
            names = list(dict.fromkeys(part.namespace for part in plan.slices))
            behind = self._log.bounds(self._topic, 0).end
            if names:
                self._writer.append(complete_records(names))
            state = self._store(msgspec.structs.replace(state, copied=True, ended=behind, upto=self._log.bounds(self._topic, 0).end))
        return state

    def _work(self, state: ReaderState, plan: CopyPlan, numbers: Sequence[int], since: int, most: int) -> CopyWork:
        adaptor = self._pipeline.reader
        assert isinstance(adaptor, CanCopy)
        return CopyWork(
            pipeline=self._pipeline.name,
            topic=self._topic,
            adaptor=adaptor,
            slices={number: plan.slices[number] for number in numbers},
            copy=state.run,
            epoch=self._writer.epoch,
            ids=plan.ids,
            positions={int(number): position for number, position in state.positions.items()},
            since=since,
            most=min(most, int(self._pipeline.options.max_log or most)),
        )

    def _round(self, work: CopyWork, numbers: Sequence[int]) -> list[Copied]:
        """A share of these slices: side by side on Spark where there are several, else here."""
        if len(work.slices) > 1 and self._engine.spreads and self._engine.ready():
            self._open.clear()
            cores = self._engine.cores
            tasks: dict[int, list[int]] = {}
            for number in numbers:
                tasks.setdefault(number % cores, []).append(number)
            return self._engine.copy(work, tasks)
        done: list[Copied] = []
        left = _SHARE
        for number in numbers:
            position = work.positions.get(number)
            pieces = self._open.pop(number, None) or work.adaptor.read(work.slices[number], position)
            done.append(copy_slice(work, number, self._writer, pieces, position, most=left))
            left -= done[-1].bytes
            if not done[-1].finished:
                self._open[number] = pieces  # standard input, a compressed file: what goes on costs nothing, what begins anew does
            if left <= 0:
                break
        return done

    def _waits(self) -> bool:
        """Back-pressure: the log may not run further ahead of the slowest sink than it is allowed to."""
        limit = self._pipeline.options.max_log
        if limit is not None and self._lag() > limit:
            self._clock.wait(self._stopping, _WAIT)
            return True
        return False

    # -- the changes ----------------------------------------------------------------------------------------

    def _follow(self, on: bool) -> bool:
        """Changes, until stopping; true when there was nothing new and nobody wants to wait for more."""
        state = self._begin()
        adaptor = self._pipeline.reader
        assert isinstance(adaptor, CanTail)
        cursor: Any = state.cursor
        ids = self._control.state.ids
        for piece in adaptor.follow(cursor, self._pipeline.namespaces, self._stopping.is_set):
            progress = CopyProgress(state.run, FOLLOWING, piece.position)
            taken, _ = append(self._writer, piece, "", progress, ids=ids, mode=Mode.SYNC)
            self.records += taken
            cursor = piece.position
            if not taken and not on:
                self._keep(state, cursor)
                return True
            if self._clock.monotonic() - self._flushed > self._pipeline.options.flush.seconds:
                state = self._keep(state, cursor)
            while self._waits() and not self._stopping.is_set():
                pass
        self._keep(state, cursor)
        self._clock.wait(self._stopping, _WAIT)  # a source that ends what it was asked to follow is asked again, not at once
        return False

    def _keep(self, state: ReaderState, cursor: Any) -> ReaderState:
        """Write how far the changes have been read; nothing where nothing was: an idle pipeline writes and wakes nobody."""
        upto = self._log.bounds(self._topic, 0).end
        self._flushed = self._clock.monotonic()
        if (state.cursor, state.upto) == (cursor, upto):
            return state
        return self._store(msgspec.structs.replace(state, cursor=cursor, upto=upto))

    def _claims(self) -> tuple[tuple[int, int], ...]:
        run = self._control.state.run
        return run.claims if run is not None else ()
