"""Documents in Cassandra: the rows of a partition belong to a fold, which is begun anew when the store is cleared or restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadInput, Differs
from headwater.documents.cassandra_base import CassandraBaseFiles
from headwater.documents.cassandra_view import STATEMENTS, CassandraDocumentView, CassandraFoldBase, DocumentTables
from headwater.documents.cassandra_writes import remove_fold, write_documents
from headwater.documents.digest import digest
from headwater.documents.empty_view import EmptyView
from headwater.documents.fold import DocumentFold, PartitionFold, folds_of_view
from headwater.documents.store import (
    AppendedRecord,
    DocumentStore,
    DocumentStores,
    DocumentView,
    IndexRow,
    check_behind,
    check_fold,
    check_since,
)
from headwater.store.cassandra.keyspace import Keyspace
from headwater.store.cassandra.requests import Requests
from headwater.store.migrations import read_migrations

_TABLES = read_migrations("documents", Path(__file__).with_name("cassandra_tables"), suffix="cql")
_FEW = 8  # parts of base copies under way at once: some megabytes
_MARGIN_US = 1_000_000  # more records than one call applies


class CassandraDocumentStores(DocumentStores):
    """The tables of a keyspace, which are made where they are missing. Reads and writes are at LOCAL_QUORUM, and tried again for some
    seconds. It closes the keyspace. A forked child opens its own.

    Errors: those of `Keyspace.migrate` and `Requests`.
    """

    def __init__(self, keyspace: Keyspace, *, requests: Requests | None = None, clock: Clock | None = None) -> None:
        self.keyspace, self._clock = keyspace, clock or SystemClock()
        keyspace.migrate(_TABLES)
        self._requests = requests or Requests(keyspace, clock=self._clock)

    def partition(self, number: int, generation: str) -> CassandraDocumentStore:
        """As `DocumentStores.partition`. Errors: `BadInput` for a negative number, `Closed`."""
        if number < 0:
            raise BadInput(f"Documents have no partition {number}.", hint="Partitions are numbered from 0.")
        self.keyspace.check_open()
        return CassandraDocumentStore(self._requests, number, generation, clock=self._clock)

    def base_files(self) -> CassandraBaseFiles:
        few = Requests(self.keyspace, window=_FEW, clock=self._clock)
        return CassandraBaseFiles(few, self.keyspace.where)

    def close(self) -> None:
        self.keyspace.close()


class PartitionCheckpoint(NamedTuple):
    """The row of a partition in the table `checkpoint`."""

    generation: str
    fold: str
    base: int
    applied: int


class CassandraDocumentStore(DocumentStore):
    """The rows of one partition. One process at a time applies; others may read, and add rows of indexes. `close` leaves the keyspace open
    for other partitions."""

    shared = True
    lacks_copies = True

    def __init__(self, requests: Requests, partition: int, generation: str, *, clock: Clock) -> None:
        self._requests, self.partition, self.generation, self._clock = requests, partition, generation, clock

    @contextmanager
    def view(self) -> Iterator[DocumentView]:
        checkpoint = self._checkpoint()
        yield EmptyView() if checkpoint is None else CassandraDocumentView(self._tables(checkpoint), checkpoint.applied)

    def apply(self, records: Sequence[AppendedRecord], applied: int, *, since: int | None = None, patience: float | None = None) -> None:
        checkpoint = self._begun()
        check_since(self.partition, checkpoint.applied, since)
        records, tables = [appended for appended in records if appended.offset >= checkpoint.applied], self._tables(checkpoint)
        fold = PartitionFold(CassandraFoldBase(tables, list({appended.record.uri for appended in records})))
        changed: dict[str, DocumentFold] = {}
        for appended in records:
            document = fold.add(appended)
            if document.offset == appended.offset:
                changed[document.uri] = document
        write_documents(tables, list(changed.values()), checkpoint.base)
        if applied > checkpoint.applied:
            self._write("move_checkpoint", checkpoint.base + applied, applied, self.partition)  # 5. of `write_documents`

    def add_index_rows(
        self,
        uri: str,
        index: int,
        rows: Sequence[IndexRow],
        *,
        after: str = "",
        last: str = "",
        complete: bool = False,
        fold: str = "",
    ) -> None:
        """As `DocumentStore.add_index_rows`. Rows have the time of the record with which the index came: a change that has removed one
        since counts, whichever is written first; so several processes may add rows."""
        checkpoint = self._begun()
        check_fold(uri, index, checkpoint.fold, fold)
        tables = self._tables(checkpoint)
        stored, stored_index = tables.heads([uri]).get(uri), tables.indexes(uri).get(index)
        if stored is None or stored_index is None:
            return
        upto = tables.rows("upto", uri, index)[0][0] or ""
        check_behind(uri, index, upto, after)
        life, time = stored.life, checkpoint.base + max(stored_index.offset, 0)
        items = CassandraDocumentView(tables, checkpoint.applied).rows_of(uri, [row.item for row in rows])
        tables.requests.write(
            tables.index_row(stored_index.definition, uri, life, IndexRow(row.key, row.item, item.body), time)
            for row, item in zip(rows, items, strict=True)
            if item is not None and item.revision <= stored_index.since
        )
        if last > upto:
            # Of two values with one time the greater one stays, which is the later one here.
            tables.requests.write([tables.bound("extend_index", time, last, tables.fold, uri, index)])
        if complete:
            tables.requests.write([tables.timed("complete_index", time, uri, index)])

    def remove_index_rows(self, uri: str, index: int, limit: int) -> int:
        checkpoint = self._begun()
        tables = self._tables(checkpoint)
        stored = tables.heads([uri]).get(uri)
        return 0 if stored is None else _purge_index(tables, uri, index, stored.life, limit, checkpoint.base + checkpoint.applied)

    def purge(self, limit: int) -> int:
        """As `DocumentStore.purge`. It also removes notes of expiry that no longer hold, and folds that do not count."""
        checkpoint, removed = self._begun(), 0
        tables, time = self._tables(checkpoint), checkpoint.base + checkpoint.applied
        self._remove_folds(checkpoint)
        for uri, life in tables.rows("ended_lives"):
            for index in tables.indexes(uri):
                removed += _purge_index(tables, uri, index, life, limit - removed, time)
            if removed < limit:
                items = tables.rows("purged_items", uri, life, limit - removed)
                if items:
                    tables.requests.write([tables.timed("purge_rows", time, uri, life, items[-1][0])])
                removed += len(items)
            if removed >= limit:
                return removed
            tables.requests.write([tables.timed("delete_ended_life", time, uri, life)])
        return removed + _purge_expiry(tables, limit - removed, checkpoint)

    def checkpoint(self) -> int:
        """A quorum has synced what it acknowledged, as far as the nodes' `commitlog_sync` says so."""
        checkpoint = self._checkpoint()
        return 0 if checkpoint is None else checkpoint.applied

    def clear(self) -> None:
        """As `DocumentStore.clear`: one write. Then it removes the rows of before, as `purge` does after a death."""
        before, checkpoint = self._checkpoint(any_generation=True), self._new_fold()
        self._begin_fold(before, checkpoint, 0)

    def restore(self, base: DocumentView) -> None:
        """As `DocumentStore.restore`. What was here before counts until everything is written."""
        before, checkpoint = self._checkpoint(any_generation=True), self._new_fold()
        self._write("drop_fold", self.partition, checkpoint.fold, checkpoint.base)
        for document in folds_of_view(base):
            write_documents(self._tables(checkpoint), [document], checkpoint.base)
        self._begin_fold(before, checkpoint, base.applied())

    def digest(self) -> str:
        with self.view() as view:
            return digest(view)

    def close(self) -> None:
        """Closing the stores closes the keyspace."""

    # -- folds ------------------------------------------------------------------------------------------------

    def _new_fold(self) -> PartitionCheckpoint:
        """A fold with a base that is later than every write so far."""
        before, base = self._checkpoint(any_generation=True), self._clock.now_ms() * 1000
        if before is not None:
            base = max(base, before.base + before.applied + _MARGIN_US)
        return PartitionCheckpoint(self.generation, f"{self.partition}/{base}", base, 0)

    def _begin_fold(self, before: PartitionCheckpoint | None, checkpoint: PartitionCheckpoint, applied: int) -> None:
        """Let a fold count in the place of another one."""
        if before is not None:
            self._write("drop_fold", self.partition, before.fold, checkpoint.base)
        self._write("set_checkpoint", self.partition, self.generation, checkpoint.fold, checkpoint.base, applied, checkpoint.base + applied)
        self._write("forget_fold", checkpoint.base + 1, self.partition, checkpoint.fold)
        self._remove_folds(checkpoint)

    def _remove_folds(self, checkpoint: PartitionCheckpoint) -> None:
        """Remove the rows of folds that do not count."""
        for (fold,) in self._requests.one(STATEMENTS["dropped_folds"], (self.partition,)):
            if fold != checkpoint.fold:
                remove_fold(DocumentTables(self._requests, fold), checkpoint.base)
            self._write("forget_fold", checkpoint.base + 1, self.partition, fold)

    # -- the applied offset -----------------------------------------------------------------------------------

    def _tables(self, checkpoint: PartitionCheckpoint) -> DocumentTables:
        return DocumentTables(self._requests, checkpoint.fold)

    def _begun(self) -> PartitionCheckpoint:
        """The checkpoint of one who writes, made where there is none."""
        checkpoint = self._checkpoint()
        if checkpoint is None:
            checkpoint = self._new_fold()
            self._begin_fold(None, checkpoint, 0)
        return checkpoint

    def _checkpoint(self, *, any_generation: bool = False) -> PartitionCheckpoint | None:
        """The checkpoint; None: nothing was ever written. Errors: `Differs` where it is of another topic."""
        rows = self._requests.one(STATEMENTS["checkpoint"], (self.partition,))
        if not rows:
            return None
        generation, fold, base, applied = rows[0]
        if generation != self.generation and not any_generation:
            raise Differs(
                f"The store of partition {self.partition} of the documents was folded from another log: its topic has generation "
                f"{generation}, this one {self.generation}.",
                hint="Bring back the log that belongs to it, or fold it anew with `headwater doc rebuild`.",
            )
        return PartitionCheckpoint(generation, fold, base, applied or 0)

    def _write(self, name: str, *values: object) -> None:
        self._requests.write([self._requests.bound(STATEMENTS[name], values)])


def _purge_index(tables: DocumentTables, uri: str, index: int, life: int, limit: int, time: int) -> int:
    keys = tables.rows("purged_keys", uri, index, life, limit) if limit > 0 else []
    if keys:
        tables.requests.write([tables.timed("purge_index_rows", time, uri, index, life, keys[-1][0])])
    return len(keys)


def _purge_expiry(tables: DocumentTables, limit: int, checkpoint: PartitionCheckpoint) -> int:
    """Remove notes that no longer hold, among the earliest.

    A record that is being applied has notes before its head, and seems not to hold: the time of the removal is that of the last record
    which is applied, so that later notes stay.
    """
    view, removed, read = CassandraDocumentView(tables, checkpoint.applied), 0, 0
    time = checkpoint.base + checkpoint.applied - 1
    for page in tables.pages("expiring", (1 << 63) - 1):
        for expires, uri, item in page:
            if read == limit:
                return removed
            read += 1
            row = view.row(uri, item)
            if row is None or row.expires != expires:
                tables.requests.write([tables.timed("delete_expiry", time, expires, uri, item)])
                removed += 1
    return removed
