"""One partition of a running projection: reads events, lets the handler have them, parks those that fail, and carries out decisions."""

from __future__ import annotations

import logging
import zlib
from bisect import insort
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import BadBounds, BadConfig, BadInput, Differs, Fenced, HeadwaterError, OffsetGone, Undecryptable
from headwater.journal.append_rows import event_rows
from headwater.journal.change import EventRow
from headwater.journal.envelope import is_sealed
from headwater.journal.followed import OpenEvent, PartitionFollow, PlacedEvent, beyond_the_end, deleted_before_read
from headwater.journal.position import FollowPlace, FollowPosition
from headwater.journal.projection import Projection
from headwater.journal.projection_records import DeadDecision, DeadEvent, ProjectionReport
from headwater.journal.projection_reports import ProgressWriter
from headwater.journal.projection_target import HandlerFailed, ProjectionState, ProjectionTarget, fenced
from headwater.journal.shown import followed_event
from headwater.journal.store import PartitionStore
from headwater.log import Log
from headwater.log.record import Topic

_READ = 1000  # records
_BYTES = 8 << 20
_PAUSES = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)  # seconds between two tries of a partition that stands
_LONGEST_ERROR = 2000
_RESET = "Make the projection anew: `headwater journal projection reset TOPIC NAME`."
_GONE = "Run it with copied=True: it reads them from the store's copy."
Call = Callable[..., None]
_logger = logging.getLogger("headwater.projection")


class ProjectionPartition:
    """A partition that this process has taken. Belongs to one thread.

    `call` calls the handler with an event and a connection. `copy` gives the store's copy. `left_out` tells whether an unreadable record is
    quarantined. `opens` decrypts an event just before the handler gets it, and gives None for an erased one, which is passed over: what is
    kept here, and its mark, are of the event as the log holds it. Errors of every call: `Fenced` where another process has taken it;
    `TargetUnavailable`; those of the log.
    """

    def __init__(
        self,
        projection: Projection,
        log: Log,
        topic: Topic,
        number: int,
        *,
        target: ProjectionTarget,
        progress: ProgressWriter,
        call: Call,
        copy: Callable[[], PartitionStore | None],
        left_out: Callable[[int], bool],
        claimed: bool,
        clock: Clock,
        opens: OpenEvent = lambda id, row: row,
    ) -> None:
        self._opens = opens
        self._projection, self._log, self._topic, self.number = projection, log, topic, number
        self._target, self._progress, self._call, self._copy, self._clock = target, progress, call, copy, clock
        self.state, dead = target.take(number, topic.generation)
        self._dead: dict[str, list[DeadEvent]] = {}
        for event in dead:
            self._dead.setdefault(event.id, []).append(event)
        place = FollowPosition.read(self.state.place).place(0)
        self._follow = PartitionFollow(
            number, place if place.offset is not None else FollowPlace(0), claimed=claimed, quarantined=left_out, tags=projection.tags
        )
        self._events: list[PlacedEvent] = []
        self._handling: PlacedEvent | None = None
        self._checked = False
        self._stop: DeadEvent | None = None
        self._tries, self._paused = 0, 0.0
        self.error: HeadwaterError | None = None
        """Why it stands; None while it goes on."""
        self.events = 0
        """How many events the handler has had here."""
        progress.whole(self.state, dead)

    @property
    def offset(self) -> int:
        """The first record that is not done."""
        return FollowPosition.read(self.state.place).place(0).offset or 0

    # -- one step ---------------------------------------------------------------------------------------------

    def step(self, report: ProjectionReport) -> bool:
        """Do the next thing; False where there is nothing to do now. `report`: what the control topic says."""
        if report.reset > self.state.decision:
            self._restart(report.reset)
        decision = report.next_decision(self.number, self.state.decision)
        if decision is not None:
            self._decide(*decision)
            return True
        if self._clock.monotonic() < self._paused:
            self._progress.flush(self.state, self._stop, self.error)
            return False
        try:
            done = self._retry_waiting() or self._next()
        except Fenced:
            raise
        except HeadwaterError as error:
            self._stand(error)
            if isinstance(error, BadInput) and not isinstance(
                error, BadConfig
            ):  # a handler that ends its transaction would do so, and its harm, at every try
                self._paused = float("inf")
            return False
        if self._stop is None and self.error is not None and done:
            self.error, self._tries = None, 0
        self._progress.flush(self.state, self._stop, self.error)
        return done

    def release(self) -> None:
        """Write down how far it is, before another process goes on."""
        self._progress.flush(self.state, self._stop, self.error, now=True)

    def unavailable(self, problem: str) -> None:
        """Tell those who look that the database does not answer. This partition is taken again."""
        self._progress.flush(self.state, self._stop, HeadwaterError(f"The database does not answer: {problem}", hint=""), now=True)

    def _restart(self, decision: int) -> None:
        reset = self._projection.reset
        work = None if reset is None else lambda connection: self._call(reset, *(() if connection is None else (connection,)))
        self._target.restart(self._topic.partitions, self._topic.generation, decision, work)
        self._progress.restarted(self._projection.name, self._topic.generation, decision)
        raise fenced(self._projection.name, self.number)  # everybody takes the partitions anew

    def _stand(self, error: HeadwaterError) -> None:
        self.error = error
        self._paused = self._clock.monotonic() + _PAUSES[min(self._tries, len(_PAUSES) - 1)]
        self._tries += 1
        self._progress.flush(self.state, self._stop, self.error, now=True)

    # -- events -----------------------------------------------------------------------------------------------

    def _next(self) -> bool:
        """Apply the next events, or the place behind records without any."""
        if not self._checked:
            self._check()
        if not self._events:
            unreadable = self._read()
            if not self._events:
                place = str(self._follow.place)
                if place != self.state.place:
                    self._apply(msgspec.structs.replace(self.state, place=place))
                if unreadable is not None:
                    raise unreadable
                return False
        chunk: Sequence[PlacedEvent] = self._events[: self._projection.batch]
        if self._stop is None:
            try:
                self._apply_chunk(chunk)
                del self._events[: len(chunk)]
                return True
            except Undecryptable:
                pass  # of one of them: those before it are given
            except HandlerFailed as failed:
                if failed.transient:
                    raise
                if self._target.keeps == "records":
                    chunk = self._without_handled(chunk)
        for event in chunk:  # which of them fails?
            if not self._apply_one(event):
                return False
            del self._events[0]
        return True

    def _apply_chunk(self, chunk: Sequence[PlacedEvent]) -> None:
        waiting = [self._waiting(event) for event in chunk if event.id in self._dead]
        handled = self._opened([event for event in chunk if event.id not in self._dead])
        self._apply(self._behind(chunk[-1]), self._work(handled), parked=waiting)
        self.events += len(handled)

    def _without_handled(self, chunk: Sequence[PlacedEvent]) -> Sequence[PlacedEvent]:
        """The events from the failing one on. Without a transaction those before it are done, and are not done again."""
        assert self._handling is not None
        place = self._handling.place
        index = next(index for index, event in enumerate(chunk) if event.place == place)
        if index:
            handled = chunk[:index]
            self._apply(self._behind(handled[-1]), parked=[self._waiting(event) for event in handled if event.id in self._dead])
            self.events += len(self._opened([event for event in handled if event.id not in self._dead]))
            del self._events[:index]
        return chunk[index:]

    def _apply_one(self, event: PlacedEvent) -> bool:
        """Apply one event, or park it; False where the partition stands at it."""
        behind = self._behind(event)
        if event.id in self._dead:
            self._apply(behind, parked=[self._waiting(event)])
            return True
        opened = self._opened([event])
        attempts = 0 if self._stop is None else self._stop.attempts
        while True:
            attempts += 1
            try:
                self._apply(behind, self._work(opened))
                self._stop, self.error, self._tries = None, None, 0
                self.events += len(opened)
                return True
            except HandlerFailed as failed:
                if failed.transient:
                    raise
                dead = self._failed(event, failed, attempts)
            if attempts >= self._projection.attempts:
                break
        if self._projection.on_error == "park":
            self._apply(behind, parked=[dead])
            return True
        self._stop = dead
        self._stand(HeadwaterError(f"The handler fails at event {dead.number} of {dead.id!r:.60}: {dead.error}", hint=""))
        return False

    def _behind(self, event: PlacedEvent) -> ProjectionState:
        last = "" if event.place.until >= 0 else _mark(event.id, event.row)
        return msgspec.structs.replace(self.state, place=str(event.place), last=last, generation=self._topic.generation)

    def _opened(self, events: Sequence[PlacedEvent]) -> list[PlacedEvent]:
        """The events as the handler gets them, without erased ones. Errors: those of `opens`, which no handler has caused."""
        rows = [(placed, self._opens(placed.id, placed.row)) for placed in events]
        return [PlacedEvent(placed.id, row, placed.place) for placed, row in rows if row is not None]

    def _work(self, events: Sequence[PlacedEvent]) -> Callable[[Any], None] | None:
        if not events:
            return None

        def work(connection: Any) -> None:
            for placed in events:
                self._handling = placed
                event = followed_event(placed.row, placed.id, str(FollowPosition().at(self.number, placed.place)))
                self._call(self._projection.handler, *((event,) if connection is None else (event, connection)))

        return work

    def _apply(
        self,
        state: ProjectionState,
        work: Callable[[Any], None] | None = None,
        *,
        parked: Sequence[DeadEvent] = (),
        settled: Sequence[DeadEvent] = (),
    ) -> None:
        """Keep a state, in the target and, where somebody has to see it, in the control topic."""
        places = [event.place for event in settled]
        self._target.apply(state, work, parked=parked, settled=places)
        self._progress.note(state, parked, places)  # where it fails, nobody may tell of the new state: its dead events are not written
        self.state = state
        for settled_event in settled:
            left = [event for event in self._dead[settled_event.id] if event.place != settled_event.place]
            if left:
                self._dead[settled_event.id] = left
            else:
                del self._dead[settled_event.id]
        for dead in parked:
            journal = self._dead.setdefault(dead.id, [])
            if journal and journal[-1].place >= dead.place:  # it was dead before
                journal[:] = [event for event in journal if event.place != dead.place]
            insort(journal, dead, key=lambda event: event.place)

    # -- dead events ------------------------------------------------------------------------------------------

    def _waiting(self, event: PlacedEvent) -> DeadEvent:
        return DeadEvent(offset=event.row.offset, number=event.row.seq_nr, id=event.id, waits=True, at=self._clock.now_ms())

    def _failed(self, event: PlacedEvent, failed: HandlerFailed, attempts: int) -> DeadEvent:
        return DeadEvent(
            offset=event.row.offset, number=event.row.seq_nr, id=event.id, error=_text(failed.error, event), attempts=attempts,
            at=self._clock.now_ms(),
        )  # fmt: skip

    def _decide(self, offset: int, decision: DeadDecision) -> None:
        """Carry out what an operator has decided about a dead event. One that is not dead any more is left as it is."""
        state = msgspec.structs.replace(self.state, decision=offset)
        dead = next((event for journal in self._dead.values() for event in journal if event.place == decision.place), None)
        if dead is not None and decision.verb == "drop":
            self._apply(state, settled=[dead])
        elif dead is not None:
            first = self._dead[dead.id][0]  # a journal is tried from its first dead event on
            self._apply(state, parked=[msgspec.structs.replace(first, waits=True)])
        elif decision.verb == "drop" and self._stands_at(decision):
            behind = self._behind(self._events[0])
            self._apply(msgspec.structs.replace(behind, decision=offset))
            del self._events[0]
            self._stop = None
        else:
            self._apply(state)
        if self._stop is None or self._stop.place == decision.place:
            self._paused = 0.0
            self.error = None if self._stop is None else self.error
        self._progress.flush(self.state, self._stop, self.error, now=True)

    def _stands_at(self, decision: DeadDecision) -> bool:
        """Whether the next event is the one that was decided about: a partition that stops stands before it, also in another run."""
        if not self._events:
            try:
                self._check()
                self._read()
            except HeadwaterError:  # the next step tells
                return False
        return bool(self._events) and (self._events[0].row.offset, self._events[0].row.seq_nr) == decision.place

    def _retry_waiting(self) -> bool:
        """Try a dead event that no earlier one of its journal holds up; whether there was one."""
        first = next((journal[0] for journal in self._dead.values() if journal[0].waits), None)
        if first is None:
            return False
        event = self._load(first)
        try:
            if event is None:
                raise HandlerFailed(OffsetGone("The log has deleted its record."), transient=False)
            opened = self._opened([event])
            self._apply(self.state, self._work(opened), settled=[first])
            self.events += len(opened)
        except HandlerFailed as failed:
            if failed.transient:
                raise
            error = _text(failed.error, event)
            again = msgspec.structs.replace(first, error=error, attempts=first.attempts + 1, waits=False, at=self._clock.now_ms())
            self._apply(self.state, parked=[again])
        return True

    def _load(self, dead: DeadEvent) -> PlacedEvent | None:
        """The event of a dead one, from the log, or from the copy; None where neither has it."""
        place = FollowPlace(dead.offset, dead.number)
        row: EventRow | None = None
        if dead.offset < self._log.bounds(self._topic.name, self.number).end:
            record = self._log.read_at(self._topic.name, self.number, [dead.offset])[0]
            rows = [] if record is None else event_rows(record, self.number)
            row = next((event_row for event_row in rows if event_row.seq_nr == dead.number), None)
        copy = self._copy() if row is None and self._projection.copied else None
        if copy is not None:
            with copy.view() as view:
                head = view.head(dead.id)
                pages = [] if head is None else view.rows(dead.id, head, dead.number, dead.number)
                row = next((event_row for page in pages for event_row in page if event_row.offset == dead.offset), None)
        return None if row is None else PlacedEvent(dead.id, row, place)

    # -- reading ----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Whether the log is the one that was read up to here. Errors: `Differs`."""
        state, name = self.state, self._topic.name
        if state.place and state.generation != self._topic.generation:
            raise Differs(f"The topic {name} was deleted and created again since the projection has read it.", hint=_RESET)
        if state.last:
            offset, number, _ = state.last.split(":")
            bounds = self._log.bounds(name, self.number)
            if int(offset) >= bounds.start:
                record = self._log.read_at(name, self.number, [int(offset)])[0] if int(offset) < bounds.end else None
                rows = [] if record is None else event_rows(record, self.number)
                marks = [_mark((record.key or b"").decode(), row) for row in rows if record is not None and row.seq_nr == int(number)]
                if marks != [state.last]:
                    raise Differs(
                        f"{name}/{self.number} holds another event at offset {offset} than the projection has read: it is another copy.",
                        hint=_RESET,
                    )
        self._checked = True

    def _read(self) -> HeadwaterError | None:
        """Read the next events; the error of the record that ends them, where it cannot be read."""
        follow, name = self._follow, self._topic.name
        try:
            if follow.place.until < 0:
                end = self._log.bounds(name, self.number).end  # before reading: nothing that arrives later is taken for a hole
                records = self._log.read(name, self.number, follow.place.offset or 0, limit=_READ, max_bytes=_BYTES)
                self._events, unreadable = follow.readable(records)
                if not records and (follow.place.offset or 0) < end:  # brokers' own records, which nobody reads
                    follow.place = FollowPlace(end, 0, follow.place.epoch)
                return unreadable
        except BadBounds as error:
            raise beyond_the_end(name, self.number, error, _RESET) from error
        except OffsetGone as error:
            if not self._projection.copied:
                start = self._log.bounds(name, self.number).start
                raise deleted_before_read(name, self.number, follow.place.offset or 0, start, _GONE) from error
        self._events = follow.copied(name, self._copy(), self._log.bounds(name, self.number).start)
        return None


def _mark(id: str, row: EventRow) -> str:
    """What tells an event from another one at its place."""
    payload = b"" if row.payload is None else row.payload.data
    return f"{row.offset}:{row.seq_nr}:{zlib.crc32(payload, zlib.crc32(f'{id}/{row.timestamp}'.encode())):08x}"


def _text(error: BaseException, event: PlacedEvent | None) -> str:
    """What an error says, as any database can hold it. Of an encrypted event its type alone: its words may be those of the payload."""
    if event is not None and is_sealed(event.row.payload):
        _logger.warning("event %d of %r fails: %s: %s", event.row.seq_nr, event.id, type(error).__name__, error)
        return f"{type(error).__name__} (its text is in the messages of the process: the event is encrypted)"
    return f"{type(error).__name__}: {error}"[:_LONGEST_ERROR].replace("\0", "�").encode(errors="replace").decode()
