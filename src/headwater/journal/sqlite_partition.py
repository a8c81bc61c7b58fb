"""The copy of one partition of journals in one SQLite file."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import groupby, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import convert

from headwater.core.clock import Clock
from headwater.core.errors import Damaged, Differs
from headwater.journal.apply import check_generation, due, journal_updates
from headwater.journal.change import EventRow, PartitionChange, Pointer
from headwater.journal.event import MAX_SEQ_NR, EventRecord, Payload, PayloadKind
from headwater.journal.head import EMPTY, Head, HeadFold
from headwater.journal.places import moved_here
from headwater.journal.short_read import SHORT, short_events
from headwater.journal.store import CopyTotals, ForkedNumber, PartitionStore, PartitionView
from headwater.journal.tally import CopyTally
from headwater.store import Row
from headwater.store.sqlite.database import Database, SqliteSnapshot, SqliteStatements
from headwater.store.statements import read_statements

STATEMENTS = read_statements(Path(__file__).with_name("sqlite.sql"))
_ROWS, _NEXT_ROWS, _HEAD, _POINTER = (STATEMENTS[name] for name in ("rows", "next_rows", "head", "pointer"))
_SHORT_READ = f"{STATEMENTS['short_read']} {SHORT + 1:d}"
_KINDS = (None, PayloadKind.BINARY, PayloadKind.JSON, PayloadKind.TEXT)  # by number: a look-up costs a tenth of PayloadKind(number)
ROTTEN = (IndexError, TypeError, ValueError, msgspec.MsgspecError)
"""What a value of the wrong kind raises."""
_tags = msgspec.json.Decoder(tuple[str, ...]).decode
fold_of_text = msgspec.json.Decoder(HeadFold).decode
_headers = msgspec.json.Decoder(tuple[tuple[str, str], ...]).decode
_json: Callable[[object], bytes] = msgspec.json.Encoder().encode


class SqlitePartitionStore(PartitionStore):
    """Rows, heads and the pointer change in one transaction, in which the pointer is compared, too.

    A file that holds records of another generation of its topic answers `pointer`, which says so, and `clear`, which makes it an empty
    copy of this generation; `view` and `apply` raise `Differs`. So no reader is given rows of a topic that was deleted.
    """

    def __init__(self, topic: str, partition: int, generation: str, database: Database, *, clock: Clock, segment_size: int) -> None:
        self.topic, self.partition, self.generation = topic, partition, generation
        self._database, self._clock, self._segment_size = database, clock, segment_size

    def pointer(self) -> Pointer:
        """As `PartitionStore.pointer`. Errors: `Differs` where the file is another partition's."""
        with self._database.snapshot() as snapshot:
            return self.stored_pointer(snapshot) or Pointer(-1)

    def view(self) -> SqlitePartitionView:
        return SqlitePartitionView(self, self._database.snapshot())

    def short_read(self, id: str, start: int, stop: int, pointer: int, above: int = 0) -> list[EventRecord] | None:
        """As `PartitionStore.short_read`, in one statement."""
        rows = self._database.read_rows(_SHORT_READ, (id, start, stop, pointer, self.generation, above, SHORT))
        return short_events(rows, self.partition) if 0 < len(rows) <= SHORT else None

    def apply(self, change: PartitionChange, tally: CopyTally | None = None) -> bool:
        with self._database.transaction() as transaction:
            pointer = self.stored_pointer(transaction)
            if not due(change, pointer or Pointer(-1)):
                return False
            if change.journals:
                self._apply_journals(transaction, change, tally)
            if len(change.counts) > 1:
                _note_moved(transaction, change)
            now = self._clock.now_ms()
            if pointer is None:
                place = (self.topic, self.partition, change.end - 1, change.generation, change.epoch, now, now)
                transaction.rows(STATEMENTS["insert_pointer"], place)
            else:
                transaction.rows(STATEMENTS["move_pointer"], (change.end - 1, change.epoch, now))
        return True

    def checkpoint(self) -> Pointer:
        """As `PartitionStore.checkpoint`. Errors: `Timeout` while a reader holds an old view."""
        pointer = self.pointer()  # before the checkpoint: what is applied meanwhile may not be synced
        self._database.checkpoint()
        return pointer

    def clear(self, offset: int = -1) -> None:
        with self._database.transaction() as transaction:
            self.stored_pointer(transaction)
            for name in ("delete_all_rows", "delete_heads", "delete_all_moved", "delete_pointer"):
                transaction.rows(STATEMENTS[name])
            now = self._clock.now_ms()
            # The generation is noted, so that a late task of the deleted topic finds a file that is no longer its own.
            transaction.rows(STATEMENTS["insert_pointer"], (self.topic, self.partition, offset, self.generation, 0, now, now))

    def restore(self, base: PartitionView) -> None:
        with self._database.transaction() as transaction:
            self.stored_pointer(transaction)
            for name in ("delete_all_rows", "delete_heads", "delete_all_moved", "delete_pointer"):
                transaction.rows(STATEMENTS[name])
            key, after = 0, None
            while page := base.heads(after):
                for id, head in page:
                    key += 1
                    transaction.rows(STATEMENTS["insert_head"], (key, id, *_head_columns(head)))
                    for rows in base.rows(id, msgspec.structs.replace(head, seq_nr=MAX_SEQ_NR), 1):
                        transaction.many(STATEMENTS["insert_row"], _row_columns([(key, tuple(rows))]))
                after = page[-1][0]
            transaction.many(STATEMENTS["set_moved"], [(id, _json(fold).decode()) for id, fold in base.all_moved()])
            now, pointer = self._clock.now_ms(), base.pointer
            place = (self.topic, self.partition, pointer.offset, self.generation, pointer.epoch, now, now)
            transaction.rows(STATEMENTS["insert_pointer"], place)

    def _apply_journals(self, transaction: SqliteStatements, change: PartitionChange, tally: CopyTally | None) -> None:
        keys: dict[str, int] = {}
        heads: dict[str, Head] = {}
        [(last_key,)] = transaction.rows(STATEMENTS["last_key"])
        if last_key:
            for id, key, *columns in transaction.many(STATEMENTS["stored_head"], [(journal.id,) for journal in change.journals]):
                keys[id], heads[id] = key, head_of_columns(self.partition, columns)
        rows: list[tuple[int, tuple[EventRow, ...]]] = []
        inserted_heads: list[Row] = []
        moved: list[Row] = []
        deleted_heads: list[Row] = []
        deleted: list[Row] = []
        for update in journal_updates(change, heads, segment_size=self._segment_size, tally=tally):
            head = update.head
            if update.stored is None:
                if head is None:
                    continue
                key = last_key = last_key + 1
                inserted_heads.append((key, update.id, *_head_columns(head)))
            else:
                key = keys[update.id]
                if update.purges:
                    deleted.append((key, MAX_SEQ_NR))
                elif update.delete_to:
                    deleted.append((key, update.delete_to))
                if head is None:
                    deleted_heads.append((key,))
                else:
                    moved.append((key, *_head_columns(head)))
            if update.rows:
                rows.append((key, update.rows))
        purged = [(journal.id, journal.fold.purged) for journal in change.journals if journal.fold.purged >= 0]
        # Rows that go, before those that come: a journal that is purged and appended to keeps its key.
        for name, values in (
            ("delete_rows", deleted),
            ("purge_snapshots", purged),
            ("delete_head", deleted_heads),
            ("insert_head", inserted_heads),
            ("update_head", moved),
        ):
            if values:
                transaction.many(STATEMENTS[name], values)
        if rows:
            transaction.many(STATEMENTS["insert_row"], _row_columns(rows))

    def damaged(self, error: Exception) -> Damaged:
        """The error for a row that holds what was never written there."""
        return Damaged(
            f"{self._database.path} holds a row that cannot be read: {error}.",
            hint=f"It is a copy of the log: `headwater journal rebuild {self.topic}` makes it anew.",
        )

    def stored_pointer(self, statements: SqliteStatements) -> Pointer | None:
        """The pointer inside a transaction. Errors: `Differs` where the file is another partition's."""
        row = statements.row(_POINTER)
        if row is None:
            return None
        topic, partition, offset, generation, epoch, created, updated = row
        if topic != self.topic or partition != self.partition:
            raise Differs(
                f"{self._database.path} is the copy of {topic}/{partition}, not of {self.topic}/{self.partition}.",
                hint="Two names that differ in capital letters need a disk that tells them apart; a file keeps its name.",
            )
        return Pointer(offset, created, updated, generation, epoch)


class SqlitePartitionView(PartitionView):
    """A transaction that reads, as a block."""

    def __init__(self, store: SqlitePartitionStore, snapshot: SqliteSnapshot) -> None:
        self._store, self._partition, self._snapshot = store, store.partition, snapshot

    def __enter__(self) -> Self:
        snapshot = self._snapshot.__enter__()
        try:
            self.pointer = self._store.stored_pointer(snapshot) or Pointer(-1)
            if self.pointer.generation != self._store.generation:
                check_generation(self.pointer, self._store.topic, self._partition, self._store.generation)
        except BaseException as error:
            snapshot.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._snapshot.__exit__(kind, error, trace)

    def head(self, id: str) -> Head | None:
        row = self._snapshot.row(_HEAD, (id,))
        try:
            return None if row is None else head_of_columns(self._partition, row)
        except ROTTEN as error:
            raise self._store.damaged(error) from error

    def rows(self, id: str, head: Head, start: int, stop: int | None = None, *, batch: int = 1000) -> Iterator[list[EventRow]]:
        first, last = max(start, head.deleted + 1), head.seq_nr if stop is None else min(stop, head.seq_nr)
        if first > last:
            return
        stored_rows = self._snapshot.rows(f"{_ROWS} {batch:d}", (id, first, last))
        while stored_rows:
            try:
                rows = _event_rows(stored_rows, self._partition, head.record_id)
            except ROTTEN as error:
                raise self._store.damaged(error) from error
            yield rows
            if len(stored_rows) < batch:
                return
            seq_nr, _, offset, *_, rowid = stored_rows[-1]
            stored_rows = self._snapshot.rows(f"{_NEXT_ROWS} {batch:d}", (id, seq_nr, last, seq_nr, offset, rowid))

    def ids(self, after: str | None = None, limit: int = 1000) -> list[str]:
        return [id for (id,) in self._page("ids", after, limit)]

    def moved(self, id: str) -> HeadFold:
        row = self._snapshot.row(STATEMENTS["moved"], (id,))
        try:
            return EMPTY if row is None else fold_of_text(row[0])
        except ROTTEN as error:
            raise self._store.damaged(error) from error

    def all_moved(self) -> list[tuple[str, HeadFold]]:
        try:
            return [(id, fold_of_text(text)) for id, text in self._snapshot.rows(STATEMENTS["all_moved"])]
        except ROTTEN as error:
            raise self._store.damaged(error) from error

    def forks(self, limit: int = 1000) -> list[ForkedNumber]:
        """As `PartitionView.forks`, found by SQLite."""
        rows = self._snapshot.rows(STATEMENTS["forks"])
        grouped = groupby(rows, key=lambda row: (row[0], row[1]))
        return [ForkedNumber(id, number, tuple(row[2] for row in group)) for (id, number), group in islice(grouped, limit)]

    def totals(self, today: date) -> CopyTotals:
        """As `PartitionView.totals`, counted by SQLite: a million events in seconds."""
        rows = self._snapshot.rows
        try:
            [(journals, expired)] = rows(STATEMENTS["head_totals"], (today.isoformat(),))
            [(events, size)], [(forks, gaps)] = rows(STATEMENTS["row_totals"]), rows(STATEMENTS["number_totals"])
            deleted = sum(to for (to,) in rows(STATEMENTS["deleted_numbers"]))
            return CopyTotals(
                journals=journals, events=events, payload_bytes=size, forks=forks, gaps=gaps, deleted=deleted, expired=expired
            )
        except ROTTEN as error:
            raise self._store.damaged(error) from error

    def heads(self, after: str | None = None, limit: int = 1000) -> list[tuple[str, Head]]:
        page = self._page("heads", after, limit)
        try:
            return [(id, head_of_columns(self._partition, columns)) for id, *columns in page]
        except ROTTEN as error:
            raise self._store.damaged(error) from error

    def _page(self, name: str, after: str | None, limit: int) -> list[Row]:
        if after is None:
            return self._snapshot.rows(STATEMENTS[f"first_{name}"], (limit,))
        return self._snapshot.rows(STATEMENTS[name], (after, limit))


def _event_rows(rows: list[Row], partition: int, record_id: uuid.UUID | None) -> list[EventRow]:
    """One expression for each row: this is where reading spends its time."""
    return [
        EventRow(
            seq_nr,
            timestamp,
            partition,
            offset,
            origin,
            version,
            record_id,
            _tags(tags) if tags else (),
            metadata,
            Payload(_KINDS[kind], payload) if kind else None,  # type: ignore[arg-type]
            _headers(headers) if headers else (),
        )
        for seq_nr, timestamp, offset, origin, version, tags, metadata, kind, payload, headers, _ in rows
    ]


def _note_moved(transaction: SqliteStatements, change: PartitionChange) -> None:
    """Keep what all records of this partition say of journals with an older place."""
    for journal in change.journals:
        if moved_here(journal.id.encode(), change.counts, change.partition):
            row = transaction.row(STATEMENTS["moved"], (journal.id,))
            fold = (EMPTY if row is None else fold_of_text(row[0])).then(journal.fold)
            transaction.rows(STATEMENTS["set_moved"], (journal.id, _json(fold).decode()))


def _row_columns(journals: list[tuple[int, tuple[EventRow, ...]]]) -> Iterator[Row]:
    """The columns of each row, one at a time: a list of all of them would only make work for the garbage collector."""
    for key, rows in journals:
        for row in rows:
            payload = row.payload
            yield (
                key,
                row.seq_nr,
                row.offset,
                row.timestamp,
                row.origin,
                row.version,
                _json(row.tags).decode() if row.tags else None,
                row.metadata,
                payload.kind if payload else None,
                payload.data if payload else None,
                _json(row.headers).decode() if row.headers else None,
            )


def head_of_columns(partition: int, columns: Sequence[Any]) -> Head:
    """A head from the columns of the statement `head`."""
    offset, segment_size, seq_nr, delete_to, created, updated, expire_after, expire_on, record_id, origin = columns
    return Head(
        partition,
        offset,
        segment_size,
        seq_nr,
        delete_to,
        created,
        updated,
        expire_after,
        date.fromisoformat(expire_on) if expire_on else None,
        convert(record_id, uuid.UUID) if record_id else None,
        origin,
    )


def _head_columns(head: Head) -> Row:
    return (
        head.offset,
        head.segment_size,
        head.seq_nr,
        head.delete_to,
        head.created,
        head.updated,
        head.expire_after,
        head.expire_on.isoformat() if head.expire_on else None,
        head.record_id.int.to_bytes(16) if head.record_id else None,
        head.origin,
    )
