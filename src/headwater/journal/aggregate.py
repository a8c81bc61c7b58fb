"""Aggregates: entities whose state follows from their events, loaded by a snapshot and the events behind it, and saved with `expected`.

    class Deposited(msgspec.Struct, frozen=True):
        eur: int

    class Account(Aggregate):
        eur: int = 0

        def deposit(self, eur: int) -> None:
            self.record(Deposited(eur))

        @applies(Deposited)
        def _deposited(self, event: Deposited) -> None:
            self.eur += event.eur

    accounts = Repository(hw.journals("bank"), Account)
    account = await accounts.load("alice")
    account.deposit(50)
    await accounts.save(account)

An event is a msgspec struct. Its JSON has two fields more: `type`, the struct's tag or name, and `version`, its class variable
`event_version`, 1 unless it is set. `Upcasters` bring events of earlier versions to the present one when they are read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, Protocol

from headwater.core.errors import BadInput, HeadwaterError, WrongExpected
from headwater.journal.aggregate_fold import A, Aggregate, AggregateFold, AskEvents, AskSnapshot, applies, pending_payloads
from headwater.journal.event import EventRecord
from headwater.journal.event_versions import NO_UPCASTERS, Upcasters

__all__ = ["Aggregate", "BlockingRepository", "Repository", "Upcasters", "applies"]

_log = logging.getLogger("headwater.journal")


class SnapshotsDoor(Protocol):
    """What a repository needs of `Journal.snapshots`."""

    def load(self, *, max_seq_nr: int | None = ...) -> Awaitable[Any]: ...
    def save(self, payload: Any, seq_nr: int | None = ..., *, offset: int | None = ...) -> Awaitable[Any]: ...


class JournalDoor(Protocol):
    """What a repository needs of a journal."""

    @property
    def snapshots(self) -> SnapshotsDoor: ...
    def append(self, *events: Any, expected: int | None = ..., idempotency_key: str | None = ...) -> Awaitable[Any]: ...
    def read(self, start: int = ...) -> AsyncIterator[EventRecord]: ...
    def head(self) -> Awaitable[Any]: ...


class JournalsDoor(Protocol):
    """What a repository needs of `hw.journals(topic)`."""

    def __getitem__(self, id: str, /) -> JournalDoor: ...


class BlockingSnapshotsDoor(Protocol):
    """As `SnapshotsDoor`, blocking."""

    def load(self, *, max_seq_nr: int | None = ...) -> Any: ...
    def save(self, payload: Any, seq_nr: int | None = ..., *, offset: int | None = ...) -> Any: ...


class BlockingJournalDoor(Protocol):
    """As `JournalDoor`, blocking."""

    @property
    def snapshots(self) -> BlockingSnapshotsDoor: ...
    def append(self, *events: Any, expected: int | None = ..., idempotency_key: str | None = ...) -> Any: ...
    def read(self, start: int = ...) -> Iterator[EventRecord]: ...
    def head(self) -> Any: ...


class BlockingJournalsDoor(Protocol):
    """As `JournalsDoor`, blocking."""

    def __getitem__(self, id: str, /) -> BlockingJournalDoor: ...


class Repository(Generic[A]):
    """The aggregates of one class in the journals of a topic.

    `snapshot_every`: so many events after the last snapshot, `save` makes one; 0: none. `upcasters`: for events of earlier versions.
    Errors of every call: those of `Journal`.
    """

    def __init__(
        self, journals: JournalsDoor, aggregate: type[A], *, snapshot_every: int = 100, upcasters: Upcasters = NO_UPCASTERS
    ) -> None:
        self._journals, self._fold = journals, AggregateFold(aggregate, upcasters, snapshot_every)

    async def load(self, id: str) -> A:
        """The aggregate of a journal, as all durable events make it; a new one where there is no journal.

        Errors: `UnknownEvent` for an event of a type or version that it does not know, with its type and id.
        """
        journal, loading, answer = self._journals[id], self._fold.loading(id), None
        while True:
            try:
                question = loading.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = None
            match question:
                case AskSnapshot(most=most):
                    answer = await journal.snapshots.load(max_seq_nr=most)
                case AskEvents(start=start, each=each):
                    async for record in journal.read(start):
                        each(record)
                case _:
                    answer = await journal.head()

    async def save(self, aggregate: A, *, idempotency_key: str | None = None) -> int:
        """Append the recorded events as one record, all or none; return the aggregate's last number once they are durable.

        Errors: `WrongExpected` where another one has appended since `load`: nothing is written, and the events stay recorded.
        """
        payloads = pending_payloads(aggregate)
        if payloads:
            journal = self._journals[aggregate.id]
            done = await journal.append(*payloads, expected=aggregate.seq_nr, idempotency_key=idempotency_key)
            if self._fold.saved(aggregate, done.last):
                try:
                    await journal.snapshots.save(self._fold.snapshot(aggregate), aggregate.seq_nr, offset=done.offset)
                    self._fold.snapshot_saved(aggregate)
                except HeadwaterError as error:
                    _warn(aggregate, error)
        return aggregate.seq_nr

    async def update(self, id: str, change: Callable[[A], None], *, attempts: int = 10) -> A:
        """Load, change and save; again where another one was quicker. Errors: `WrongExpected` after the last attempt."""
        for left in range(attempts - 1, -1, -1):
            aggregate = await self.load(id)
            change(aggregate)
            try:
                await self.save(aggregate)
                return aggregate
            except WrongExpected:
                if not left:
                    raise
        raise BadInput(f"attempts={attempts} is no number of attempts.", hint="Give 1 or more.")


class BlockingRepository(Generic[A]):
    """`Repository` over the blocking door: `BlockingRepository(hw.journals("bank"), Account)`."""

    def __init__(
        self, journals: BlockingJournalsDoor, aggregate: type[A], *, snapshot_every: int = 100, upcasters: Upcasters = NO_UPCASTERS
    ) -> None:
        self._journals, self._fold = journals, AggregateFold(aggregate, upcasters, snapshot_every)

    def load(self, id: str) -> A:
        """As `Repository.load`."""
        journal, loading, answer = self._journals[id], self._fold.loading(id), None
        while True:
            try:
                question = loading.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = None
            match question:
                case AskSnapshot(most=most):
                    answer = journal.snapshots.load(max_seq_nr=most)
                case AskEvents(start=start, each=each):
                    for record in journal.read(start):
                        each(record)
                case _:
                    answer = journal.head()

    def save(self, aggregate: A, *, idempotency_key: str | None = None) -> int:
        """As `Repository.save`."""
        payloads = pending_payloads(aggregate)
        if payloads:
            journal = self._journals[aggregate.id]
            done = journal.append(*payloads, expected=aggregate.seq_nr, idempotency_key=idempotency_key)
            if self._fold.saved(aggregate, done.last):
                try:
                    journal.snapshots.save(self._fold.snapshot(aggregate), aggregate.seq_nr, offset=done.offset)
                    self._fold.snapshot_saved(aggregate)
                except HeadwaterError as error:
                    _warn(aggregate, error)
        return aggregate.seq_nr

    def update(self, id: str, change: Callable[[A], None], *, attempts: int = 10) -> A:
        """As `Repository.update`."""
        for left in range(attempts - 1, -1, -1):
            aggregate = self.load(id)
            change(aggregate)
            try:
                self.save(aggregate)
                return aggregate
            except WrongExpected:
                if not left:
                    raise
        raise BadInput(f"attempts={attempts} is no number of attempts.", hint="Give 1 or more.")


def _warn(aggregate: Aggregate, error: HeadwaterError) -> None:
    """The events are durable: a snapshot that failed only makes the next load longer."""
    _log.warning("No snapshot of %s at event %d: %s %s", aggregate.id, aggregate.seq_nr, error.message, error.hint)
