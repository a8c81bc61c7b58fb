"""The copy of one partition of snapshots, in the SQLite file of the journals' partition."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec import convert

from headwater.core.clock import Clock
from headwater.core.errors import Conflict, Damaged, Differs
from headwater.journal.apply import check_generation, due
from headwater.journal.change import Pointer
from headwater.journal.discovery import generation_of_journals
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.head import EMPTY
from headwater.journal.names import SNAPSHOTS
from headwater.journal.places import moved_here
from headwater.journal.rings import living_rings, pages_of_ids
from headwater.journal.snapshot import EMPTY_RING, Copied, Ring, Snapshot, living
from headwater.journal.snapshot_fold import SnapshotsChange
from headwater.journal.sqlite_partition import ROTTEN, STATEMENTS, fold_of_text, head_of_columns
from headwater.journal.store import RingStore, RingView
from headwater.store import Row
from headwater.store.sqlite.database import Database, SqliteStatements


class SqliteRingStore(RingStore):
    """Rings and their pointer change in one transaction, in which the journals' heads and their pointer are read, too."""

    def __init__(self, topic: str, partition: int, generation: str, database: Database, *, clock: Clock) -> None:
        self.topic, self.partition, self.generation = topic, partition, generation
        self._database, self._clock = database, clock

    def pointer(self) -> Pointer:
        """As `CopyStore.pointer`. Errors: `Differs` where the file is another partition's."""
        with self._database.snapshot() as snapshot:
            return self._stored_pointer(snapshot) or Pointer(-1)

    @contextmanager
    def view(self) -> Iterator[SqliteRingView]:
        with self._database.snapshot() as snapshot:
            pointer = self._stored_pointer(snapshot) or Pointer(-1)
            check_generation(pointer, self.topic, self.partition, self.generation)
            yield SqliteRingView(self, snapshot, pointer)

    def apply(self, change: SnapshotsChange) -> bool:
        with self._database.transaction() as transaction:
            pointer = self._stored_pointer(transaction)
            if not due(change, pointer or Pointer(-1)):
                return False
            journals = self._journals_pointer(transaction)
            for journal in change.journals:
                actions = living(journal.actions, journals, partial(self._copied, transaction, change.counts, journals, journal.id))
                before = self.ring(transaction, journal.id, pointer.offset if pointer else -1)
                self._write(transaction, journal.id, before, before.then(actions))
            now = self._clock.now_ms()
            if pointer is None:
                self._insert_pointer(transaction, change.end - 1, now)
            else:
                transaction.rows(STATEMENTS["move_snapshot_pointer"], (change.end - 1, now))
        return True

    def checkpoint(self) -> Pointer:
        """As `CopyStore.checkpoint`. Errors: `Timeout` while a reader holds an old view."""
        pointer = self.pointer()  # before the checkpoint: what is applied meanwhile may not be synced
        self._database.checkpoint()
        return pointer

    def clear(self, offset: int = -1) -> None:
        with self._database.transaction() as transaction:
            self._stored_pointer(transaction)
            for name in ("delete_all_snapshots", "delete_snapshot_pointer"):
                transaction.rows(STATEMENTS[name])
            self._insert_pointer(transaction, offset, self._clock.now_ms())

    def restore(self, base: RingView, counts: Sequence[int] = ()) -> None:
        with self._database.transaction() as transaction:
            self._stored_pointer(transaction)
            for name in ("delete_all_snapshots", "delete_snapshot_pointer"):
                transaction.rows(STATEMENTS[name])
            journals = self._journals_pointer(transaction)
            for ids in pages_of_ids(base):
                for id, slots in living_rings(base, ids, journals, partial(self._copied, transaction, counts, journals)):
                    self._write(transaction, id, EMPTY_RING, Ring(slots))
            self._insert_pointer(transaction, base.pointer.offset, self._clock.now_ms())

    def ring(self, statements: SqliteStatements, id: str, applied: int) -> Ring:
        """The ring of a journal, inside a transaction."""
        try:
            return Ring({row[0]: _snapshot(row) for row in statements.rows(STATEMENTS["ring"], (id,))}, applied)
        except ROTTEN as error:
            raise self.damaged(error) from error

    def damaged(self, error: Exception) -> Damaged:
        """The error for a row that holds what was never written there."""
        return Damaged(
            f"{self._database.path} holds a snapshot that cannot be read: {error}.",
            hint=f"It is a copy of the log: `headwater journal rebuild {self.topic.removeprefix(SNAPSHOTS)}` makes it anew.",
        )

    # -- inside a transaction ---------------------------------------------------------------------------------

    def _write(self, transaction: SqliteStatements, id: str, before: Ring, after: Ring) -> None:
        for slot in before.slots.keys() - after.slots.keys():
            transaction.rows(STATEMENTS["delete_snapshot"], (id, slot))
        for slot, snapshot in after.slots.items():
            if before.slots.get(slot) is not snapshot:
                assert snapshot.payload is not None
                values = (
                    id, slot, snapshot.seq_nr, snapshot.timestamp, snapshot.offset, snapshot.at, int(snapshot.kind), snapshot.payload.data,
                    snapshot.record_id.bytes if snapshot.record_id else None, snapshot.origin, snapshot.version,
                )  # fmt: skip
                transaction.rows(STATEMENTS["put_snapshot"], values)

    def _copied(self, transaction: SqliteStatements, counts: Sequence[int], pointer: int, id: str) -> Copied:
        if moved_here(id.encode(), counts, self.partition):
            row = None if pointer < 0 else transaction.row(STATEMENTS["moved"], (id,))
            return EMPTY if row is None else fold_of_text(row[0])
        row = transaction.row(STATEMENTS["head"], (id,))
        return None if row is None else head_of_columns(self.partition, row)

    def _journals_pointer(self, transaction: SqliteStatements) -> int:
        """How far the journals are copied; -1 where that is of another generation."""
        row = transaction.row(STATEMENTS["pointer"])
        if row is None:
            return -1
        _, _, offset, generation, *_ = row
        return offset if generation == generation_of_journals(self.generation) else -1

    def _insert_pointer(self, transaction: SqliteStatements, offset: int, now: int) -> None:
        place = (self.topic, self.partition, offset, self.generation, now, now)
        transaction.rows(STATEMENTS["insert_snapshot_pointer"], place)

    def _stored_pointer(self, statements: SqliteStatements) -> Pointer | None:
        row = statements.row(STATEMENTS["snapshot_pointer"])
        if row is None:
            return None
        topic, partition, offset, generation, created, updated = row
        if topic != self.topic or partition != self.partition:
            raise Differs(
                f"{self._database.path} is the copy of {topic}/{partition}, not of {self.topic}/{self.partition}.",
                hint="Two names that differ in capital letters need a disk that tells them apart; a file keeps its name.",
            )
        return Pointer(offset, created, updated, generation)


class SqliteRingView(RingView):
    """Reads inside one transaction."""

    def __init__(self, store: SqliteRingStore, statements: SqliteStatements, pointer: Pointer) -> None:
        self._store, self._statements, self.pointer = store, statements, pointer

    def ring(self, id: str) -> Ring:
        return self._store.ring(self._statements, id, self.pointer.offset)

    def payload(self, id: str, slot: int, snapshot: Snapshot) -> Payload:
        row = self._statements.row(STATEMENTS["snapshot_payload"], (id, slot))
        if row is None:
            raise Conflict("The snapshot is no longer there.", hint="Read it again.")
        try:
            return Payload(PayloadKind(row[0]), bytes(row[1]))
        except ROTTEN as error:
            raise self._store.damaged(error) from error

    def ids(self, after: str | None = None, limit: int = 1000) -> list[str]:
        if after is None:
            return [id for (id,) in self._statements.rows(STATEMENTS["first_snapshot_ids"], (limit,))]
        return [id for (id,) in self._statements.rows(STATEMENTS["snapshot_ids"], (after, limit))]


def _snapshot(row: Row) -> Snapshot:
    _, seq_nr, timestamp, offset, at, kind, record_id, origin, version = row
    life = convert(record_id, uuid.UUID) if record_id else None
    return Snapshot(seq_nr, timestamp, offset, at, PayloadKind(kind), life, origin, version)
