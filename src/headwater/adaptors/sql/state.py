"""The state that a sink keeps in its database: the offsets that it has taken, and the epoch of the run that may write."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.adaptors.sql.ranges import TakenRange, compacted, whole
from headwater.adaptors.sql.session import Session
from headwater.adaptors.sql.statements import Statements
from headwater.core.errors import Fenced
from headwater.pipeline.offsets.ranges import Span

MANY = 1000  # rows of committed batches, above which they are compacted


class SqlSinkState:
    """The state of one sink of one pipeline. Its two tables are created where they are missing, unless `make` is off."""

    def __init__(self, session: Session, statements: Statements, pipeline: str, sink: str, *, make: bool = True) -> None:
        self._session, self._sql = session, statements
        self._pipeline = pipeline
        self.me = (pipeline, sink)
        if make and not session.ask(statements.there):
            session.make(*statements.create)

    def begin(self, epoch: int) -> list[Span]:
        """Fence older runs; return the offsets that are taken."""
        with self._session.transaction():
            self._claim(epoch)
            return whole(self._compact())

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
                held = self._session.ask(self._sql.lock_epoch, self.me)
                if held and held[0][0] == epoch:
                    self._compact()

    def shared(self, epoch: int) -> None:
        """Lock the epoch, shared, until the transaction ends. Errors: `Fenced` for an older run."""
        found = self._session.ask(self._sql.share_epoch, self.me)
        if not found:  # no run has begun: an operator may step first
            self.first(epoch)
            found = self._session.ask(self._sql.share_epoch, self.me)
        self.fence(found[0][0], epoch)

    def first(self, epoch: int) -> None:
        self._session.do(self._sql.first_epoch, (*self.me, epoch))

    def fence(self, newest: int, epoch: int) -> None:
        """Errors: `Fenced` where a newer run has begun."""
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
