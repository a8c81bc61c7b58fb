"""The state that a sink keeps in its database: the offsets that it has taken, and the epoch of the run that may write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.adaptors.sql.ranges import TakenRange, compacted, whole
from headwater.adaptors.sql.session import Session
from headwater.adaptors.sql.statements import Statements
from headwater.core.errors import Damaged, Fenced
from headwater.pipeline.claim import SinkClaim, checked_owner
from headwater.pipeline.offsets.ranges import Span

_TAKEN_OVER = 1 << 62  # the epoch of a log whose sink another log has taken over: no run of it writes again
MANY = 1000  # rows of committed batches, above which they are compacted


class SqlSinkState:
    """The state of one sink of one pipeline. Its two tables are created where they are missing, unless `make` is off."""

    def __init__(self, session: Session, statements: Statements, pipeline: str, sink: str, *, make: bool = True) -> None:
        self._session, self._sql = session, statements
        self._pipeline = pipeline
        self.me = (pipeline, sink)
        if make and not session.ask(statements.there):
            session.make(*statements.create)

    @staticmethod
    def owner(session: Session, statements: Statements, pipeline: str, sink: str) -> SinkClaim | None:
        """The owner of a sink of this pipeline's name. Changes nothing."""
        if not session.ask(statements.owners_there):
            return None
        return _claim(session.ask(statements.read_owner, (pipeline.partition("#")[0], sink)))

    @staticmethod
    def held(session: Session, statements: Statements, pipeline: str, sink: str) -> list[Span]:
        """The offsets that are taken. Changes nothing."""
        if not session.ask(statements.there):
            return []
        return whole(TakenRange(*row) for row in session.ask(statements.read, (pipeline, sink)))

    def claim(self, mine: SinkClaim, former: SinkClaim | None) -> None:
        """As `SinkAdaptor.claim`. Writers of the former log are fenced, and what it took no longer counts."""
        session, sql, named = self._session, self._sql, (mine.name, mine.sink)
        if not session.ask(sql.owners_there):
            session.make(sql.create_owners)
        with session.transaction():
            session.do(sql.first_owner, named)
            owner = _claim(session.ask(sql.lock_owner, named))
            checked_owner(owner, mine, former, f"Sink {mine.sink} at {session.where}")
            if owner is not None and owner.same_log(mine):
                self.fence(owner.epoch, mine.epoch)
            elif owner is not None:
                session.do(sql.set_epoch, (_TAKEN_OVER, owner.pipeline, owner.sink))
                session.do(sql.clear, (owner.pipeline, owner.sink))
                session.do(sql.set_epoch, (mine.epoch, *self.me))  # this log's runs may have been fenced in the same way
            session.do(sql.set_owner, (msgspec.json.encode(mine).decode(), *named))

    def begin(self, epoch: int) -> list[Span]:
        """Fence older runs; return the offsets that are taken."""
        with self._session.transaction():
            self._claim(epoch)
            return whole(self._compact())

    def begun(self) -> bool:
        """Whether a run of this sink has begun here."""
        return bool(self._session.ask(self._sql.there)) and bool(self._session.ask(self._sql.share_epoch, self.me))

    def forget(self, position: int, epoch: int) -> None:
        """Set what is taken to everything up to the position, and nothing behind it."""
        with self._session.transaction():
            self._claim(epoch)
            self._rewrite([TakenRange(0, position + 1)] if position >= 0 else [])

    def tidy(self, epoch: int) -> None:
        """Compact the table of committed batches where it has many rows: a run may go on for weeks."""
        if self._session.ask(self._sql.count, self.me)[0][0] > MANY:
            with self._session.transaction():
                # Writers hold this row with a shared lock. This lock waits for them, and new writers wait for it.
                rows = self._session.ask(self._sql.lock_epoch, self.me)
                if rows and rows[0][0] == epoch:
                    self._compact()

    def shared(self, epoch: int) -> None:
        """Lock the epoch, shared, until the transaction ends. Errors: `Fenced` for an older run."""
        rows = self._session.ask(self._sql.share_epoch, self.me)
        if not rows:  # no run has begun: an operator may step first
            self.first(epoch)
            rows = self._session.ask(self._sql.share_epoch, self.me)
        self.fence(rows[0][0], epoch)

    def first(self, epoch: int) -> None:
        self._session.do(self._sql.first_epoch, (*self.me, epoch))

    def fence(self, newest: int, epoch: int) -> None:
        """Errors: `Fenced` where a newer run has begun."""
        if newest >= _TAKEN_OVER:
            raise Fenced(
                f"A pipeline of the same name, with another log, has taken over the sink of {self._pipeline}.",
                hint="Stop one of both, or give one of them another name or another database.",
            )
        if newest > epoch:
            raise Fenced(
                f"Run {newest} of {self._pipeline} writes to this sink now; this is run {epoch}.", hint="See `headwater pipeline status`."
            )

    def take(self, span: TakenRange) -> bool:
        """Insert a span; return False where it was there. Call it before the rows are written: of two attempts at one batch, the second
        waits here until the first has committed, and then writes nothing."""
        return bool(self._session.do(self._sql.take, (*self.me, span.start, span.end, span.bucket, span.buckets)))

    def join(self, span: TakenRange, near: Sequence[TakenRange]) -> None:
        """Insert a span, merged with those that it touches."""
        fewer = compacted([*near, span])
        for row in set(near).difference(fewer):
            self._untake(row)
        for row in set(fewer).difference(near):
            self.take(row)

    def shorten(self, span: TakenRange, end: int) -> None:
        """Cut a span: only the offsets before `end` were taken."""
        self._untake(span)
        if end > span.start:
            self.take(TakenRange(span.start, end, span.bucket, span.buckets))

    def _untake(self, span: TakenRange) -> None:
        self._session.do(self._sql.untake, (*self.me, span.start, span.end, span.bucket, span.buckets))

    def _claim(self, epoch: int) -> None:
        self.first(epoch)
        self.fence(self._session.ask(self._sql.lock_epoch, self.me)[0][0], epoch)
        self._session.do(self._sql.set_epoch, (epoch, *self.me))

    def _compact(self) -> list[TakenRange]:
        rows = [TakenRange(*row) for row in self._session.ask(self._sql.read, self.me)]
        fewer = compacted(rows)
        if len(fewer) < len(rows):
            self._rewrite(fewer)
        return fewer

    def _rewrite(self, rows: Sequence[TakenRange]) -> None:
        self._session.do(self._sql.clear, self.me)
        for row in rows:
            self.take(row)


def _claim(rows: Sequence[tuple[Any, ...]]) -> SinkClaim | None:
    try:
        return msgspec.json.decode(rows[0][0], type=SinkClaim) if rows and rows[0][0] else None
    except msgspec.DecodeError as error:
        raise Damaged(
            f"The note of who owns the sink cannot be understood: {error}.",
            hint="Look at the table of owners, and delete the row where no other pipeline writes here.",
        ) from error
