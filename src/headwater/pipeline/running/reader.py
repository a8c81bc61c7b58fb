"""Reading a pipeline's source into its log: the copy in rounds of slices, then the changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import msgspec

from headwater.core.errors import Differs, HeadwaterError, NotFound, Timeout, Unreachable
from headwater.core.ids import random_id
from headwater.log import Writer
from headwater.log.record import Mode
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.ranges import Span, joined, missing
from headwater.pipeline.offsets.state import SOURCE, Change, ReaderState, State
from headwater.pipeline.piece_size import pieces_up_to
from headwater.pipeline.running.context import Activity, LoopState, Patience, RunContext
from headwater.pipeline.running.pieces import FOLLOWING, Copied, CopyWork, append, complete_records, copy_slice, positions_in
from headwater.pipeline.running.round_progress import RoundProgress
from headwater.pipeline.running.run_record import older_log, older_offsets
from headwater.pipeline.running.source_review import SourceReview, changed_source
from headwater.pipeline.running.visibility import unseen_source
from headwater.pipeline.running.work import CopyProgress
from headwater.pipeline.source_adaptor import CanCopy, CanTail, CopyPlan, Piece
from headwater.pipeline.source_progress import SourceProgress
from headwater.pipeline.stored_definition import StoredDefinition
from headwater.spark.small import Place, place

_ROUND = 96 << 20  # bytes that a task reads in the first round
_SHARE = 8 << 20  # bytes of a round in the run itself
_SLICES = 2000  # of a round
_PIECES = 8  # of them fill the log, where it has a limit
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
        on_notice: Callable[[str], None] = lambda text: None,
        again: bool | str = False,
    ) -> None:
        """`lag`: the bytes of the log that the slowest sink has not taken. `on_failure`: called when the source cannot be used.

        `on_notice`: called with what a user must know of a changed source. `again`: all is copied anew, or the namespaces that it names.
        """
        self._pipeline, self._run, self._control, self._writer = pipeline, context, context.control, writer
        self._on_notice, self._reviewed = on_notice, False
        self._differs: Differs | None = None
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
        try:
            self._read()
        finally:
            self._run.unsettled.end()  # what an unfinished round has written never counts

    def _read(self) -> None:
        state = self._patiently(self._begin)
        while state is not None and not state.copied and not self._stopping.is_set():
            self._enter(Activity.COPYING)
            state = self._patiently(lambda: self._copy(self._begin()))  # `_begin` reads back what was appended before a failure
        if self._differs is not None and not self._stopping.is_set():
            raise self._differs
        caught_up = not self._pipeline.follows
        while not caught_up and not self._stopping.is_set():
            self._enter(Activity.FOLLOWING)
            caught_up = bool(self._patiently(self._follow))
        self._enter(Activity.STOPPED if self._stopping.is_set() else Activity.DONE)

    # -- the copy -------------------------------------------------------------------------------------------

    def _begin(self) -> ReaderState:
        adaptor, known = self._pipeline.reader, self._control.state.reader
        if self._run.overlap is not None:
            self._run.overlap.check_log(self._run.log, [self._run.topic, self._control.topic])
        if known is not None and self._again is not True:
            if known.upto > (end := self._run.end()) or known.log not in ("", self._control.identity()):
                raise older_log(self._control, self._pipeline.source_name, known, end)
            claims = self._control.state.run.claims if self._control.state.run is not None else ()
            slices: dict[int, CopyProgress] = {}
            for copy_progress in positions_in(self._run.log, self._run.topic, known.upto, claims, known.lent):
                if copy_progress.copy != known.run:  # a plan is stored before the first piece of its copy is appended
                    raise older_offsets(self._control, "the copy that its offset log knows is an earlier one")
                slices[copy_progress.slice] = copy_progress
            followed = slices.pop(FOLLOWING, None)
            begun = {str(n): progress for n, progress in slices.items() if not any(a <= n < b for a, b in known.finished)}
            state = msgspec.structs.replace(
                known,
                positions=known.positions | {n: progress.position for n, progress in begun.items()},
                amounts=known.amounts | {n: progress.amount for n, progress in begun.items()},
                upto=self._run.end(),
            )
            return self._review(state if followed is None else _followed(state, followed.position, followed.amount))
        plan = CopyPlan(identity={}, slices=())
        if isinstance(adaptor, CanCopy):
            plan = adaptor.plan(self._pipeline.namespaces, self._slices())
        end = self._run.end()
        self._again, self._reviewed = False, True
        anew = 0 if known is None else end if plan.slices else known.anew
        if anew == end > 0 and (kept := [sink.name for sink in self._pipeline.sinks.values() if sink.upserts]):
            self._on_notice(
                f"Rows that were deleted at the source since it was read before stay at {', '.join(kept)}: a copy has no deletes. "
                f"`headwater pipeline verify {self._pipeline.name} {kept[0]}` shows them when the run is over."
            )
        state = ReaderState(
            run=random_id(),
            plan=msgspec.to_builtins(plan),
            begun=end,
            anew=anew,
            upto=end,
            log=self._control.identity(),
            cursor=plan.cursor,
            copied=not isinstance(adaptor, CanCopy),
            lent=known.lent if known is not None else (),  # the records of earlier copies still count
        )
        return self._store(state, whole=True)

    def _slices(self) -> int:
        return self._pipeline.options.slices or self._run.engine.spark.cores

    def _review(self, state: ReaderState) -> ReaderState:
        """The state, written: at the run's first look with what is new at the source, or is to be copied anew. Errors: `Differs`."""
        if self._reviewed:
            adaptor, plan = self._pipeline.reader, msgspec.convert(state.plan, CopyPlan)
            if not state.copied and isinstance(adaptor, CanCopy) and not adaptor.same(plan, self._pipeline.namespaces):
                raise changed_source(self._pipeline.source_name)
            return self._store(state)
        before = self._control.state.defined.get(SOURCE)
        review = SourceReview(self._pipeline, before, slices=self._slices(), end=self._run.end(), notice=self._on_notice)
        new_state = review.again(state, self._again) if isinstance(self._again, str) else review.reviewed(state)
        self._reviewed, self._again, self._differs = True, False, review.differs
        return self._store(new_state, whole=new_state.run != state.run, define=True)

    def _store(self, state: ReaderState, *, whole: bool = False, define: bool = False) -> ReaderState:
        """Write how far reading has come; with `whole` the plan, too, which stays what it is; with `define` what the source is now."""
        defined = StoredDefinition.of_source(self._pipeline) if whole or define else None

        def decide(now: State) -> Sequence[Change]:
            if now.run is not None and now.run.epoch > self._run.epoch:
                return []
            changes: list[Change] = [("reader", state) if whole else ("reading", state.reading)]
            return [*changes, (f"defined/{SOURCE}", defined)] if defined not in (None, now.defined.get(SOURCE)) else changes

        self._control.change(decide)
        self._run.unsettled.end()  # of the round's records, the state says which count
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
            ended = {str(copied.slice) for copied in done if copied.finished}
            finished = joined([*state.finished, *((int(n), int(n) + 1) for n in ended)])
            lent = tuple(joined([*state.lent, *(span for copied in done for span in copied.offsets)]))
            behind = self._run.end()
            if names := _completed(plan, {int(n) for n in ended}, finished):
                self._marking(lent=bool(lent)).append(complete_records(names))
            positions = state.positions | {str(copied.slice): copied.position for copied in done}
            amounts = state.amounts | {str(copied.slice): copied.amount for copied in done}
            state = msgspec.structs.replace(
                state,
                positions={n: position for n, position in positions.items() if n not in ended},
                amounts={n: amount for n, amount in amounts.items() if n not in ended},
                finished=tuple(finished),
                amount=state.amount + sum(amounts[n] for n in ended),
                upto=since,
                lent=lent,
                ended=behind,
            )
            self._store(state)
            self._under_way, self.records = None, self.records + sum(copied.records for copied in done)
            for outcome in done:
                if outcome.away is not None and not outcome.records:
                    raise outcome.away.error()
            most *= 2  # each round reads a compressed file from its beginning: with longer rounds that stays a small part
        if not missing(0, len(plan.slices), state.finished):
            state = self._store(msgspec.structs.replace(state, copied=True, ended=state.ended or self._run.end(), upto=self._run.end()))
        return state

    def _marking(self, *, lent: bool) -> Writer:
        """The Writer for marks, which need not count. Where tasks have written to Kafka, it is one under the lent claim: the run's own
        Writer reads everything before a record that it acknowledges, and so all of the copy would pass through this process."""
        if not lent:
            return self._writer
        return self._run.log.writer(self._run.topic, 0, self._run.epoch, generation=self._writer.generation, part=PART)

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
            most=most if (room := self._room()) is None else max(1, min(most, room)),
            piece=self._piece(),
        )

    def reads_side_by_side(self, slices: int) -> bool:
        """Whether tasks read so many slices. `slices=1` keeps the order of the source, also that of its files: these are slices, too."""
        return self._pipeline.options.slices != 1 and place(slices, self._run.engine.spark, least=2) is Place.SPARK

    def _round(self, work: CopyWork, numbers: Sequence[int]) -> list[Copied]:
        """Read on in these slices: in parallel on Spark where there are several, else in this process."""
        spark = self._run.engine.spark
        if self.reads_side_by_side(len(work.slices)):
            self._open.clear()
            tasks: dict[int, list[int]] = {}
            for number in numbers:
                tasks.setdefault(number % spark.cores, []).append(number)
            self._under_way = RoundProgress(self._run.log, work, tasks)
            if work.piece is not None:  # the room is for all of them
                work = msgspec.structs.replace(work, most=max(1, work.most // len(tasks)))
            if self._run.log.engine == "kafka":
                self._run.unsettled.begin(work.since)
            try:
                return self._run.engine.copy(work, tasks)
            except (Differs, NotFound) as error:
                if spark.local or not self._unchanged():
                    raise
                raise unseen_source(self._pipeline.source_name, work.adaptor, error) from error
        done: list[Copied] = []
        left = min(_SHARE, work.most)
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

    def _unchanged(self) -> bool:
        """Whether this process sees the source as it was planned."""
        adaptor, known = self._pipeline.reader, self._control.state.reader
        return (
            known is None
            or not isinstance(adaptor, CanCopy)
            or adaptor.same(msgspec.convert(known.plan, CopyPlan), self._pipeline.namespaces)
        )

    def _waits(self) -> bool:
        """Back-pressure: wait while the slowest sink is `max_log` or more behind the log's end."""
        room = self._room()
        if room is not None and room <= 0:
            self._clock.wait(self._stopping, _WAIT)
            return True
        return False

    def _room(self) -> int | None:
        """The bytes that the log may still grow by before the slowest sink has taken more; None where there is no limit."""
        limit = self._pipeline.options.max_log
        return None if limit is None else int(limit) - self._lag()

    def _piece(self) -> int | None:
        """The bytes of a piece: an append begins within the limit, and goes no further beyond it than this, or than one document."""
        limit = self._pipeline.options.max_log
        return None if limit is None else int(limit) // _PIECES

    # -- the changes ----------------------------------------------------------------------------------------

    def _follow(self) -> bool:
        """Read changes until the run stops; true when there is nothing new and the run does not follow."""
        now = state = self._begin()
        adaptor = self._pipeline.reader
        assert isinstance(adaptor, CanTail)
        ids = self._control.state.ids
        adaptor.check_followed(msgspec.convert(state.plan, CopyPlan), self._pipeline.namespaces)
        pieces = adaptor.follow(state.cursor, self._pipeline.namespaces, self._stopping.is_set)
        while (piece := self._next(pieces)) is not None:
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

    def _next(self, pieces: Iterator[Piece]) -> Piece | None:
        with pieces_up_to(self._piece()):
            return next(pieces, None)

    def _keep(self, state: ReaderState, now: ReaderState) -> ReaderState:
        """Write how far the changes are read. An idle pipeline writes nothing, and so wakes no loop."""
        now = msgspec.structs.replace(now, upto=self._run.end())
        self._flushed = self._clock.monotonic()
        return state if (state.cursor, state.upto) == (now.cursor, now.upto) else self._store(now)


def _completed(plan: CopyPlan, ended: Collection[int], finished: Sequence[Span]) -> list[str]:
    """The namespaces whose last slice is among those that have ended. `finished`: all that have, in ranges."""
    left = {plan.slices[number].namespace for a, b in missing(0, len(plan.slices), finished) for number in range(a, b)}
    return list(dict.fromkeys(name for number in sorted(ended) if (name := plan.slices[number].namespace) not in left))


def _followed(state: ReaderState, cursor: Any, amount: int) -> ReaderState:
    """The state with the changes read up to a cursor, which are `amount` of the plan's size where nothing is copied."""
    return msgspec.structs.replace(state, cursor=cursor, amounts={str(FOLLOWING): amount} if amount else {})
