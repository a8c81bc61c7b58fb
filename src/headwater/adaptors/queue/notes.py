"""What a sink keeps in the queue itself: rows of a date that never comes, which are put together with the rows of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from headwater.adaptors.queue.connection import QueueConnection
from headwater.core.errors import Damaged, Fenced
from headwater.pipeline.claim import SinkClaim, checked_owner
from headwater.pipeline.offsets.ranges import Span, joined
from headwater.queue.checks import MAX_DATE
from headwater.queue.notes import NOTES
from headwater.queue.row import TIME_ALLOWS, NewRow

T = TypeVar("T", bound=msgspec.Struct)


class TakenNote(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages the queue has taken of a sink."""

    pipeline: str  # NAME#GENERATION of its log
    epoch: int = 0  # of the newest run
    taken: tuple[Span, ...] = ()
    base: int = 0  # what the notes of other logs that had the queue before were dated by

    @property
    def date(self) -> int:
        """By which the queue tells a note of a newer run, and of a log that has taken over, from older ones."""
        return 1 + self.base + self.epoch

    def with_taken(self, start: int, end: int) -> TakenNote:
        return msgspec.structs.replace(self, taken=tuple(joined([*self.taken, (start, end)])))


class SinkNotes:
    """The notes of one sink of one pipeline: `taken`, and who the owner is. Pipelines of one name share them, whatever their logs are.

    A note is dated by the epoch of its run: a put of an older run does not replace the note of a newer one.
    """

    def __init__(self, connection: QueueConnection, pipeline: str, sink: str) -> None:
        self._connection, self._pipeline = connection, pipeline
        name = f"pipeline/{pipeline.partition('#')[0]}/{sink}".encode()
        self._key, self._owner_key = NOTES + name, NOTES + name + b"/owner"

    def read(self) -> TakenNote | None:
        """The note of what was taken, of whatever log. Errors: `Damaged`."""
        return _decoded(self._connection, self._key, TakenNote)

    def owner(self) -> SinkClaim | None:
        """Errors: `Damaged`."""
        return _decoded(self._connection, self._owner_key, SinkClaim)

    def mine(self, epoch: int) -> TakenNote:
        """The note of this pipeline's log, empty where there is none. Errors: `Fenced` where a newer run has begun, or another log."""
        note = self.read()
        if note is None:
            return TakenNote(pipeline=self._pipeline, epoch=epoch)
        if note.pipeline != self._pipeline:
            raise Fenced(
                f"A pipeline of the same name, with another log, has taken over the sink of {self._pipeline}.",
                hint="Stop one of both, or give one of them another name or another queue.",
            )
        self._fence(note.epoch, epoch)
        return note

    def put(self, note: TakenNote, rows: Sequence[NewRow] = ()) -> None:
        """Put rows and the note, all or nothing. Errors: `Fenced` where a newer run has written its own; as `QueueConnection.put`."""
        puts = self._connection.put([*rows, _row(self._key, note, note.date)])
        if puts[-1].outcome == "stale":
            raise self._fenced("A newer run", note.epoch)

    def begin(self, epoch: int) -> list[Span]:
        """Fence older runs; return what is taken. Errors: `Fenced`."""
        note = self.read()
        if note is None or note.pipeline != self._pipeline:  # what another log has written is not ours
            note = self._anew(note, 0)
        self._fence(note.epoch, epoch)
        if note.epoch != epoch or note.taken == ():
            self.put(msgspec.structs.replace(note, epoch=epoch))
        return list(note.taken)

    def forget(self, position: int, epoch: int) -> None:
        """Set what is taken to everything up to the position, and nothing behind it."""
        note = msgspec.structs.replace(self.mine(epoch), epoch=epoch)
        self.put(msgspec.structs.replace(note, taken=((0, position + 1),) if position >= 0 else ()))

    def claim(self, mine: SinkClaim, former: SinkClaim | None) -> None:
        """As `SinkAdaptor.claim`. What the former log has taken no longer counts."""
        owner = self.owner()
        checked_owner(owner, mine, former, f"Sink {mine.sink} at {self._connection.name}")
        rows = [_row(self._owner_key, mine, 1)]
        if owner is not None and owner.same_log(mine):
            self._fence(owner.epoch, mine.epoch)
        elif owner is not None:
            note = self._anew(self.read(), mine.epoch)
            rows.append(_row(self._key, note, note.date))
        self._connection.put(rows)

    def _anew(self, former: TakenNote | None, epoch: int) -> TakenNote:
        """The note of a log that has taken nothing, behind that of another one."""
        return TakenNote(pipeline=self._pipeline, epoch=epoch, base=0 if former is None else former.base + former.epoch)

    def _fence(self, newest: int, epoch: int) -> None:
        if newest > epoch:
            raise self._fenced(f"Run {newest}", epoch)

    def _fenced(self, who: str, epoch: int) -> Fenced:
        return Fenced(
            f"{who} of {self._pipeline} writes to the queue {self._connection.name} now; this is run {epoch}.",
            hint="See `headwater pipeline status`.",
        )


def _row(key: bytes, note: msgspec.Struct, date: int) -> NewRow:
    """A note as a row. `date`: its insertion date; the queue takes a put with an earlier one for stale."""
    data = msgspec.json.encode(note)
    return NewRow(key=key, data=data, priority=TIME_ALLOWS, insertion_date=date, process_date=MAX_DATE)


def _decoded(connection: QueueConnection, key: bytes, kind: type[T]) -> T | None:
    row = connection.get(key)
    try:
        return None if row is None else msgspec.json.decode(row.data, type=kind)
    except msgspec.DecodeError as error:
        raise Damaged(
            f"The note {key.decode()} of the queue {connection.name} cannot be understood: {error}.",
            hint="Cancel that row where no other pipeline writes to the queue: its sink then begins anew.",
        ) from error
