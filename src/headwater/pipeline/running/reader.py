"""Reading a pipeline's source into its log: the copy in rounds of slices, then the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import msgspec

from headwater.core.errors import Differs, HeadwaterError, Timeout, Unreachable
from headwater.core.ids import random_id
from headwater.log import Writer
from headwater.log.record import Mode
from headwater.pipeline.adaptor import CanCopy, CanTail, CopyPlan, Piece
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.ranges import joined, missing
from headwater.pipeline.offsets.state import Change, ReaderState, State
from headwater.pipeline.running.context import Activity, LoopState, Patience, RunContext
from headwater.pipeline.running.pieces import FOLLOWING, Copied, CopyWork, append, complete_records, copy_slice, progress_in
from headwater.pipeline.running.round_progress import RoundProgress
from headwater.pipeline.running.work import CopyProgress
from headwater.pipeline.source_progress import SourceProgress
from headwater.spark.small import Place, place

_ROUND = 96 << 20  # bytes that a task reads in the first round
_SHARE = 8 << 20  # bytes of a round in the run itself
_SLICES = 2000  # of a round
_WAIT = 0.05
T = TypeVar("T")


class SourceReader:
    """Reads the source of one run. `run` returns when the source is read to its end, or when the run is stopping."""

    def __init__(
        self,
        pipeline: Pipeline,
        context: RunContext,
        writer: Writer,
        *,
        lag: Callable[[], int],
        on_failure: Callable[[HeadwaterError], None] = lambda error: None,
        again: bool = False,
    ) -> None:
        """`lag`: the bytes of the log that the slowest sink has not taken. `on_failure`: called when the source cannot be used."""
        self._pipeline, self._run, self._control, self._writer = pipeline, context, context.control, writer
        self._clock, self._stopping = context.clock, context.stopping
        self._lag, self._on_failure, self._again = lag, on_failure, again
        self._open: dict[int, Iterator[Piece]] = {}  # slices that this process has begun to read
        self._activity = Activity.STARTING
        self._away: tuple[int, str] | None = None  # the records read before the source failed, and its error
        self._flushed = self._clock.monotonic()
        self._under_way: RoundProgress | None = None  # of the round that Spark's tasks read
        self.records = 0  # of finished rounds, and of changes

    @property
    def state(self) -> LoopState:
        """The reader's activity; unreachable from a failure of the source until it gives a record again."""
        away = self._away
        return LoopState(Activity.UNREACHABLE, away[1]) if away is not None and away[0] == self.records else LoopState(self._activity)

    @property
    def progress(self) -> SourceProgress | None:
        """How much of the source is read; None where it did not tell its size, or is not planned yet."""
        known, under_way = self._control.state.reader, self._under_way
        if known is None or self._activity is Activity.STARTING:
            return None
        if under_way is not None and known.progress is not None:
            now = {str(n): amount for n, amount in under_way.amounts().items() if not any(a <= n < b for a, b in known.finished)}
            known = msgspec.structs.replace(known, amounts=known.amounts | now)
        return known.progress

    @property
    def read(self) -> int:
        """How many records this run has read, those of a round that is under way included."""
        under_way = self._under_way
        return self.records + (under_way.records if under_way is not None else 0)

    def _enter(self, activity: Activity) -> None:
        if activity is not self._activity:
            self._activity, self._away = activity, None

    def _patiently(self, call: Callable[[], T]) -> T | None:
        """What the call returns; None when the run stops before. A source that cannot be used is tried again, later each time.

        Errors: what the call raises; `Unreachable` and `Timeout` after five minutes without a record, where nothing is followed.
        """
        patience, end = Patience(self._run), self._run.end()
        while not self._stopping.is_set():
            try:
                return call()
            except (Unreachable, Timeout) as error:
                if self._run.end() > end:  # it gave records since its last failure: those of a failed round are in the log alone
                    patience.reached()
                    end = self._run.end()
                patience.wait(error, partial(self._is_away, error))
        return None

    def _is_away(self, error: HeadwaterError) -> None:
        if self._away != (self.records, error.message):
            self._away = (self.records, error.message)
            self._on_failure(error)

    def run(self) -> None:
        """Read. A source that can be followed is: where the run follows until stopping, else until it has nothing new.

        Errors: what the adaptor raises; `Differs`.
        """
        state = self._patiently(self._begin)
        while state is not None and not state.copied and not self._stopping.is_set():
            self._enter(Activity.COPYING)
            state = self._patiently(lambda: self._copy(self._begin()))  # `_begin` reads back what was appended before a failure
        adaptor = self._pipeline.reader
        caught_up = not isinstance(adaptor, CanTail) or not getattr(adaptor, "tail", True)
        while not caught_up and not self._stopping.is_set():
            self._enter(Activity.FOLLOWING)
            caught_up = bool(self._patiently(self._follow))
        self._enter(Activity.STOPPED if self._stopping.is_set() else Activity.DONE)

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
            claims = self._control.state.run.claims if self._control.state.run is not None else ()
            found = progress_in(self._run.log, self._run.topic, known.upto, known.run, claims)
            followed = found.pop(FOLLOWING, None)
            begun = {str(n): one for n, one in found.items() if not any(a <= n < b for a, b in known.finished)}
            state = msgspec.structs.replace(
                known,
                positions=known.positions | {n: one.position for n, one in begun.items()},
                amounts=known.amounts | {n: one.amount for n, one in begun.items()},
                upto=self._run.end(),
            )
            return self._store(state if followed is None else _followed(state, followed.position, followed.amount))
        if isinstance(adaptor, CanCopy):
            plan = adaptor.plan(self._pipeline.namespaces, self._pipeline.options.slices or self._run.engine.spark.cores)
        else:
            plan = CopyPlan(identity={}, slices=())
        end = self._run.end()
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

        def decide(now: State) -> Sequence[Change]:
            newer = now.run is not None and now.run.epoch > self._run.epoch
            return [] if newer else [("reader", state) if whole else ("reading", state.reading)]

        self._control.change(decide)
        self._flushed = self._clock.monotonic()
        return state

    def _copy(self, state: ReaderState) -> ReaderState:
        plan = msgspec.convert(state.plan, CopyPlan)
        self._open, self._under_way = {}, None  # after a failure, slices are opened anew
        most = _ROUND
        while not self._stopping.is_set() and (left := missing(0, len(plan.slices), state.finished)):
            if self._waits():
                continue
            since = self._run.end()
            numbers = list(islice((number for a, b in left for number in range(a, b)), _SLICES))
            done = self._round(self._work(state, plan, numbers, since, most), numbers)
            ended = {str(one.slice) for one in done if one.finished}
            positions = state.positions | {str(one.slice): one.position for one in done}
            amounts = state.amounts | {str(one.slice): one.amount for one in done}
            state = msgspec.structs.replace(
                state,
                positions={n: position for n, position in positions.items() if n not in ended},
                amounts={n: amount for n, amount in amounts.items() if n not in ended},
                finished=tuple(joined([*state.finished, *((int(n), int(n) + 1) for n in ended)])),
                amount=state.amount + sum(amounts[n] for n in ended),
                upto=since,
            )
            self._store(state)
            self._under_way, self.records = None, self.records + sum(one.records for one in done)
            most *= 2  # each round reads a compressed file from its beginning: with longer rounds that stays a small part
        if not self._stopping.is_set():
            names = list(dict.fromkeys(part.namespace for part in plan.slices))
            behind = self._run.end()
            if names:
                self._writer.append(complete_records(names))
            state = self._store(msgspec.structs.replace(state, copied=True, ended=behind, upto=self._run.end()))
        return state

    def _work(self, state: ReaderState, plan: CopyPlan, numbers: Sequence[int], since: int, most: int) -> CopyWork:
        adaptor = self._pipeline.reader
        assert isinstance(adaptor, CanCopy)
        return CopyWork(
            pipeline=self._pipeline.name,
            topic=self._run.topic,
            adaptor=adaptor,
            slices={number: plan.slices[number] for number in numbers},
            copy=state.run,
            epoch=self._run.epoch,
            generation=self._writer.generation,
            ids=plan.ids,
            progress={
                int(n): CopyProgress(state.run, int(n), position, state.amounts.get(n, 0)) for n, position in state.positions.items()
            },
            since=since,
            most=min(most, int(self._pipeline.options.max_log or most)),
        )

    def _round(self, work: CopyWork, numbers: Sequence[int]) -> list[Copied]:
        """Read on in these slices: in parallel on Spark where there are several, else in this process."""
        spark = self._run.engine.spark
        # Tasks append under the run's claim, which only the embedded engine shares.
        if self._run.log.engine == "embedded" and place(len(work.slices), spark, least=2) is Place.SPARK:
            self._open.clear()
            tasks: dict[int, list[int]] = {}
            for number in numbers:
                tasks.setdefault(number % spark.cores, []).append(number)
            self._under_way = RoundProgress(self._run.log, work, tasks)
            return self._run.engine.copy(work, tasks)
        done: list[Copied] = []
        left = _SHARE
        for number in numbers:
            at = work.progress.get(number, CopyProgress(work.copy, number))
            pieces = self._open.pop(number, None) or work.adaptor.read(work.slices[number], at.position)
            done.append(copy_slice(work, at, self._writer, pieces, most=left))
            left -= done[-1].bytes
            if not done[-1].finished:
                self._open[number] = pieces  # standard input and compressed files cannot begin in the middle
            if left <= 0:
                break
        return done

    def _waits(self) -> bool:
        """Back-pressure: wait while the slowest sink is more than `max_log` behind the log's end."""
        limit = self._pipeline.options.max_log
        if limit is not None and self._lag() > limit:
            self._clock.wait(self._stopping, _WAIT)
            return True
        return False

    # -- the changes ----------------------------------------------------------------------------------------

    def _follow(self) -> bool:
        """Read changes until the run stops; true when there is nothing new and the run does not follow."""
        now = state = self._begin()
        adaptor = self._pipeline.reader
        assert isinstance(adaptor, CanTail)
        ids = self._control.state.ids
        for piece in adaptor.follow(state.cursor, self._pipeline.namespaces, self._stopping.is_set):
            at = CopyProgress(state.run, FOLLOWING, piece.position, piece.amount or 0)
            taken, _ = append(self._writer, piece, "", at, ids=ids, mode=Mode.SYNC)
            self.records += taken
            now = _followed(state, at.position, at.amount)
            if not taken and not self._run.follow:
                self._keep(state, now)
                return True
            if self._clock.monotonic() - self._flushed > self._pipeline.options.flush.seconds:
                state = now = self._keep(state, now)
            while self._waits() and not self._stopping.is_set():
                pass
        self._keep(state, now)
        self._clock.wait(self._stopping, _WAIT)  # a source whose stream has ended is followed again, not at once
        return False

    def _keep(self, state: ReaderState, now: ReaderState) -> ReaderState:
        """Write how far the changes are read. An idle pipeline writes nothing, and so wakes no loop."""
        now = msgspec.structs.replace(now, upto=self._run.end())
        self._flushed = self._clock.monotonic()
        return state if (state.cursor, state.upto) == (now.cursor, now.upto) else self._store(now)


def _followed(state: ReaderState, cursor: Any, amount: int) -> ReaderState:
    """The state with the changes read up to a cursor, which are `amount` of the plan's size where nothing is copied."""
    return msgspec.structs.replace(state, cursor=cursor, amounts={str(FOLLOWING): amount} if amount else {})
