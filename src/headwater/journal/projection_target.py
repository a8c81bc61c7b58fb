"""Where a projection's handler writes, and where its positions are kept: in the handler's own database, or as records."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec

from headwater.core.errors import BadInput, Fenced
from headwater.journal.projection_records import (
    DeadEvent,
    EventPlace,
    Keeps,
    ProjectionLog,
    ProjectionRestarted,
    ProjectionTaken,
)

SAVEPOINT = "headwater_projection"
_CONSTRAINTS = {"IntegrityError", "ConstraintError"}


class ProjectionState(msgspec.Struct, frozen=True, kw_only=True):
    """How far one partition of a projection is. `place`: a `FollowPlace` as text, "" for the beginning. `epoch`: of the process that has
    taken it. `decision`: the newest decision of an operator that is carried out. `last`: a mark of the last event."""

    partition: int
    generation: str
    epoch: int
    place: str = ""
    decision: int = -1
    last: str = ""


class HandlerFailed(Exception):
    """The handler raised. Nothing of what it did in its transaction is left. `transient`: its database asks to try again."""

    def __init__(self, error: BaseException, *, transient: bool) -> None:
        super().__init__(str(error))
        self.error, self.transient = error, transient


class TargetUnavailable(Exception):
    """The database could not be asked, or did not commit. Everything may be tried again."""


class AsyncCalls:
    """Waits for what an asyncio function returns, in an event loop of this thread's own."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def __call__(self, value: Any) -> Any:
        """The value, awaited where that is needed."""
        if not inspect.isawaitable(value):
            return value
        if self._runner is None:
            self._runner = asyncio.Runner()

        async def awaited() -> Any:
            return await value

        return self._runner.run(awaited())

    def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


class ProjectionTarget(ABC):
    """Keeps positions of one projection. Belongs to one thread.

    Guarantee: once another process has taken a partition, nothing more is written by this one: `Fenced`. Errors of all calls:
    `TargetUnavailable`.
    """

    keeps: ClassVar[Keeps]

    @abstractmethod
    def take(self, partition: int, generation: str) -> tuple[ProjectionState, list[DeadEvent]]:
        """Take a partition from whoever has it; where it is, and its dead events."""

    @abstractmethod
    def apply(
        self,
        state: ProjectionState,
        work: Callable[[Any], None] | None = None,
        *,
        parked: Sequence[DeadEvent] = (),
        settled: Sequence[EventPlace] = (),
    ) -> None:
        """Call `work` with the connection and keep `state`, all or nothing. `parked` are added to the dead events, or replace those of the
        same places; `settled` are removed from them. Errors: `HandlerFailed`, `Fenced`, `BadInput` for a handler that ends the
        transaction."""

    @abstractmethod
    def restart(self, partitions: int, generation: str, decision: int, work: Callable[[Any], None] | None) -> None:
        """Begin anew: `work` empties the read model, every partition is at its beginning, and nobody has taken any."""

    @abstractmethod
    def close(self) -> None:
        """Close connections. Closing twice is no error."""


def fenced(name: str, partition: int) -> Fenced:
    return Fenced(f"Another process runs partition {partition} of the projection {name} now.", hint="It goes on there.")


class RecordTarget(ProjectionTarget):
    """Positions are records of `control-<topic>`. Whoever calls `apply` writes the progress, at its own pace: at least once."""

    keeps: ClassVar[Keeps] = "records"

    def __init__(self, name: str, records: ProjectionLog) -> None:
        self._name, self._records = name, records

    def take(self, partition: int, generation: str) -> tuple[ProjectionState, list[DeadEvent]]:
        self._records.look()
        before = self._records.report(self._name).partition(partition)
        named = before.generation if before.place else generation
        (epoch,) = self._records.append([ProjectionTaken(name=self._name, generation=named, partition=partition)])
        self._records.look()
        report = self._records.report(self._name).partition(partition)
        self._check(partition, epoch)
        state = ProjectionState(
            partition=partition, generation=named, epoch=epoch, place=report.place, decision=report.decision, last=report.last
        )
        return state, [report.dead[place] for place in sorted(report.dead)]

    def apply(
        self,
        state: ProjectionState,
        work: Callable[[Any], None] | None = None,
        *,
        parked: Sequence[DeadEvent] = (),
        settled: Sequence[EventPlace] = (),
    ) -> None:
        self._records.look()
        self._check(state.partition, state.epoch)
        if work is not None:
            try:
                work(None)
            except Exception as error:
                raise HandlerFailed(error, transient=False) from error

    def restart(self, partitions: int, generation: str, decision: int, work: Callable[[Any], None] | None) -> None:
        if work is not None:
            try:
                work(None)
            except Exception as error:
                raise HandlerFailed(error, transient=False) from error
        self._records.append([ProjectionRestarted(name=self._name, generation=generation, decision=decision)])
        self._records.look()

    def _check(self, partition: int, epoch: int) -> None:
        if self._records.report(self._name).partition(partition).epoch > epoch:
            raise fenced(self._name, partition)

    def close(self) -> None:
        """Nothing is open."""


class SqlTarget(ProjectionTarget):
    """Positions are rows of the tables `headwater_projection` and `headwater_projection_dead` in the handler's database, written in the
    handler's transaction. The position's row has the epoch: a process that lost the partition changes no row, and rolls everything back."""

    statements: ClassVar[Mapping[str, str]]

    def __init__(self, topic: str, name: str, connect: Callable[[], Any], calls: AsyncCalls) -> None:
        self._topic, self._name, self._connect, self._calls = topic, name, connect, calls
        self._connection: Any = None

    # -- what databases differ in -----------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, connection: Any) -> None:
        """Begin a transaction that may write."""

    @abstractmethod
    def _finish(self, connection: Any, *, commit: bool) -> None:
        """Commit the transaction, or roll it back."""

    @abstractmethod
    def transient(self, error: BaseException) -> bool:
        """Whether the database asks to try again: a lock, a deadlock, a lost connection."""

    @abstractmethod
    def _savepoint_lost(self, error: BaseException) -> bool:
        """Whether the error of a release says that there is no such savepoint: somebody has ended the transaction."""

    def _aborted(self, error: BaseException | None) -> bool:
        """Whether the error of a statement says that an earlier one, of the handler, has failed, and the transaction with it."""
        return False

    def _prepare(self, connection: Any) -> None:
        """Called once for a new connection."""

    def _broken(self, connection: Any) -> bool:
        """Whether the connection is of no more use."""
        return False

    # -- transactions -----------------------------------------------------------------------------------------

    def open(self, connection: Any) -> None:
        """Use this connection, and create the tables where they are missing. Errors: `TargetUnavailable`."""
        self._connection = connection
        try:
            self._prepare(connection)
            with self._transaction() as opened:
                for name in ("lock_schema", "projection", "dead"):
                    if name in self.statements:
                        self._run(opened, name)
        except BaseException as error:
            self._drop()  # the next call opens another, and creates the tables there
            if isinstance(error, TargetUnavailable) or not isinstance(error, Exception):
                raise
            raise self._unavailable(error) from error

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A transaction with a savepoint, by which a handler that has ended it is found. Errors: `TargetUnavailable`; those of the body."""
        connection = self._opened()
        try:
            self._begin(connection)
            self._calls(connection.execute(f"SAVEPOINT {SAVEPOINT}"))
        except Exception as error:
            self._roll_back(connection)
            raise self._unavailable(error) from error
        try:
            yield connection
            try:
                self._calls(connection.execute(f"RELEASE SAVEPOINT {SAVEPOINT}"))
            except Exception as error:
                if not self._savepoint_lost(error):
                    raise self._unavailable(error) from error
                raise BadInput(
                    f"The handler of the projection {self._name} has ended the transaction that it was called in: {error}",
                    hint="Let it commit and roll back nothing. Then begin anew: `headwater journal projection reset`.",
                ) from error
            try:
                self._finish(connection, commit=True)
            except Exception as error:
                if _CONSTRAINTS.intersection(kind.__name__ for kind in type(error).__mro__):  # which are checked at the commit alone
                    raise HandlerFailed(error, transient=False) from error
                raise self._unavailable(error) from error  # of unknown outcome: the position tells, once it is taken again
        except BaseException:
            self._roll_back(connection)
            raise

    def _roll_back(self, connection: Any) -> None:
        try:
            self._finish(connection, commit=False)
        except Exception:
            self._drop()  # a connection that cannot roll back is closed, which does so

    def _opened(self) -> Any:
        if self._connection is not None and self._broken(self._connection):
            self._drop()
        if self._connection is None:
            try:
                connection = self._calls(self._connect())
            except Exception as error:
                raise TargetUnavailable(f"{type(error).__name__}: {error}") from error
            self.open(connection)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                self._calls(connection.close())
            except Exception:
                return

    def _unavailable(self, error: BaseException) -> TargetUnavailable:
        return TargetUnavailable(f"{type(error).__name__}: {error}")

    def _run(self, connection: Any, name: str, *values: Any) -> list[Any]:
        """The rows of a statement. Errors: `TargetUnavailable`."""
        try:
            cursor = self._calls(connection.execute(self.statements[name], values))
            returns = getattr(cursor, "description", None) if self.keeps == "postgresql" else True
            return list(self._calls(cursor.fetchall())) if returns else []
        except Exception as error:
            raise self._unavailable(error) from error

    # -- positions --------------------------------------------------------------------------------------------

    def take(self, partition: int, generation: str) -> tuple[ProjectionState, list[DeadEvent]]:
        key = (self._name, self._topic, partition)
        with self._transaction() as connection:
            self._run(connection, "add", *key, generation)
            ((epoch, stored_generation, place, decision, last),) = self._run(connection, "take", *key)
            dead = [
                DeadEvent(offset=row[0], number=row[1], id=_read_id(row[2]), error=row[3], attempts=row[4], waits=bool(row[5]), at=row[6])
                for row in self._run(connection, "dead_events", *key)
            ]
        named = stored_generation if place else generation
        return ProjectionState(partition=partition, generation=named, epoch=epoch, place=place, decision=decision, last=last), dead

    def apply(
        self,
        state: ProjectionState,
        work: Callable[[Any], None] | None = None,
        *,
        parked: Sequence[DeadEvent] = (),
        settled: Sequence[EventPlace] = (),
    ) -> None:
        key = (self._name, self._topic, state.partition)
        with self._transaction() as connection:
            if not self._run(connection, "owned", *key, state.epoch):  # before any work: a process that was stopped for long ends here
                raise fenced(self._name, state.partition)
            if work is not None:
                self._call(work, connection)
            state_columns = (state.generation, state.place, state.decision, state.last)
            try:
                owned = self._run(connection, "keep", *state_columns, *key, state.epoch)
            except TargetUnavailable as error:
                if self._aborted(error.__cause__):
                    raise HandlerFailed(error.__cause__ or error, transient=False) from error
                raise
            if not owned:
                raise fenced(self._name, state.partition)
            for offset, number in settled:
                self._run(connection, "settle", *key, offset, number)
            for dead in parked:
                self._run(
                    connection,
                    "park",
                    *key,
                    dead.offset,
                    dead.number,
                    _write_id(dead.id),
                    dead.error,
                    dead.attempts,
                    int(dead.waits),
                    dead.at,
                )

    def restart(self, partitions: int, generation: str, decision: int, work: Callable[[Any], None] | None) -> None:
        with self._transaction() as connection:
            for partition in range(partitions):
                self._run(connection, "add", self._name, self._topic, partition, generation)
            self._run(connection, "restart", generation, decision, self._name, self._topic)
            self._run(connection, "settle_all", self._name, self._topic)
            if work is not None:
                self._call(work, connection)

    def _call(self, work: Callable[[Any], None], connection: Any) -> None:
        try:
            work(connection)
        except Exception as error:
            raise HandlerFailed(error, transient=self._broken(connection) or self.transient(error)) from error

    def close(self) -> None:
        self._drop()


def _write_id(id: str) -> str:
    """An id as a column holds it: as it is, or as JSON where it has a character that PostgreSQL has not."""
    return msgspec.json.encode(id).decode() if "\0" in id or id.startswith('"') else id


def _read_id(written: str) -> str:
    return str(msgspec.json.decode(written)) if written.startswith('"') else written
