"""Documents in SQLite: a file for each partition of the log, so that the owners of two partitions never wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadInput, Closed, Differs
from headwater.core.files import Files
from headwater.documents.digest import digest
from headwater.documents.fold import DocumentFold, PartitionFold, folds_of_view, keys_of_item
from headwater.documents.sqlite_view import STATEMENTS, SqliteDocumentView, SqliteFoldBase, columns_of_head, read_definition
from headwater.documents.store import (
    AppendedRecord,
    DocumentRow,
    DocumentStore,
    DocumentStores,
    DocumentView,
    IndexRow,
    StoredPoint,
    check_behind,
    check_since,
)
from headwater.store import Row
from headwater.store.migrations import read_migrations
from headwater.store.sqlite.database import Database, SqliteStatements

_TABLES = read_migrations("documents", Path(__file__).with_name("sqlite_tables"), suffix="sql")
_POINT = STATEMENTS["point"]
_FILLED = 1000  # items that are read at once for an index
_CLEARED = ("heads", "all_rows", "indexes", "all_index_rows", "changes", "ended_lives", "checkpoint")


class SqliteDocumentStores(DocumentStores):
    """The files `<folder>/<partition>.db`.

    A commit is not synced: the applied offset is set in the same transaction, so a loss of power takes the last records, each whole, and
    they are applied again. `checkpoint` syncs. It may be used in a forked child.
    """

    def __init__(
        self, folder: Path, *, files: Files | None = None, clock: Clock | None = None, timeout: float = 30.0, vfs: str | None = None
    ) -> None:
        self.folder, self._files, self._clock, self._timeout, self._vfs = folder, files or Files(), clock or SystemClock(), timeout, vfs
        self._guard = threading.Lock()
        self._databases: dict[int, Database] = {}
        self._closed = False

    def partition(self, number: int, generation: str) -> SqliteDocumentStore:
        """As `DocumentStores.partition`. Errors: `BadInput` for a negative number, `Closed`, and those of `Database`."""
        if number < 0:
            raise BadInput(f"Documents have no partition {number}.", hint="Partitions are numbered from 0.")
        with self._guard:
            if self._closed:
                raise Closed(f"The store of documents in {self.folder} is closed.", hint="Open it again.")
            database = self._databases.get(number)
            if database is None:
                path = self.folder / f"{number}.db"
                database = Database(path, synced=False, timeout=self._timeout, files=self._files, clock=self._clock, vfs=self._vfs)
                try:
                    database.migrate(_TABLES)
                except BaseException:
                    database.close()
                    raise
                self._databases[number] = database
        return SqliteDocumentStore(database, number, generation)

    def check_unused(self, topic: str) -> None:
        if next(self.folder.glob("*.db"), None) is not None:
            raise Differs(
                f"There is a store of documents in {self.folder}, and no topic {topic} in the log.",
                hint=f"Bring back the log that belongs to it. If documents shall begin anew, move {self.folder} away.",
            )

    def close(self) -> None:
        with self._guard:
            self._closed = True
            databases = list(self._databases.values())
        for database in databases:
            database.close()


class SqliteDocumentStore(DocumentStore):
    """The file of one partition. Rows and the applied offset change in one transaction."""

    def __init__(self, database: Database, partition: int, generation: str) -> None:
        self._database, self.partition, self.generation = database, partition, generation

    def view(self) -> SqliteDocumentView:
        return SqliteDocumentView(self._database.snapshot(), self._database.path, self._stored_applied)

    def point(self, uri: str, item: str = "") -> StoredPoint:
        stored = self._database.read_row(_POINT, (uri, item))
        if stored is None:
            return StoredPoint(0, 0, None)
        partition, generation, applied, revision, *row = stored
        self._check_place(partition, generation)
        return StoredPoint(applied, revision or 0, None if row[0] is None else DocumentRow(*row))

    def apply(self, records: Sequence[AppendedRecord], applied: int, *, since: int | None = None, patience: float | None = None) -> None:
        with self._database.transaction(patience) as transaction:
            stored = self._stored_applied(transaction)
            check_since(self.partition, stored, since)
            base = SqliteFoldBase(transaction, self._database.path)
            fold = PartitionFold(base)
            for appended in records:
                if appended.offset >= stored:
                    fold.add(appended)
            _write(transaction, list(fold.documents.values()), base.numbers)
            if applied > stored or not stored:
                self._move(transaction, max(applied, stored))

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
        with self._database.transaction() as transaction:
            self._stored_applied(transaction)
            place = transaction.row(STATEMENTS["place"], (uri,))
            stored_index = None if place is None else transaction.row(STATEMENTS["index"], (place[0], index))
            if place is None or stored_index is None:
                return
            (document, life, _), (since, upto, definition) = place, stored_index
            check_behind(uri, index, upto, after)
            name = "add_index_copy" if read_definition(definition, self._database.path).materialize else "add_index_row"
            transaction.many(STATEMENTS[name], [(document, life, index, row.key, row.item, since) for row in rows])
            if last > upto:
                transaction.rows(STATEMENTS["extend_index"], (last, document, index))
            if complete:
                transaction.rows(STATEMENTS["complete_index"], (document, index))

    def remove_index_rows(self, uri: str, index: int, limit: int) -> int:
        with self._database.transaction() as transaction:
            self._stored_applied(transaction)
            place = transaction.row(STATEMENTS["place"], (uri,))
            return 0 if place is None else _changed(transaction, "remove_index_rows", (*place[:2], index, limit))

    def purge(self, limit: int) -> int:
        removed = 0
        with self._database.transaction() as transaction:
            self._stored_applied(transaction)
            while removed < limit and (place := transaction.row(STATEMENTS["ended_life"])):
                removed += _changed(transaction, "purge_index_rows", (*place, limit - removed))
                if removed < limit:
                    removed += _changed(transaction, "purge_rows", (*place, limit - removed))
                if removed < limit:
                    transaction.rows(STATEMENTS["delete_ended_life"], place)
        return removed

    def checkpoint(self) -> int:
        """As `DocumentStore.checkpoint`. Errors: `Timeout` while a reader holds an old view."""
        with self.view() as view:  # before the checkpoint: what is applied meanwhile may not be synced
            applied = view.applied()
        self._database.checkpoint()
        return applied

    def clear(self) -> None:
        with self._database.transaction() as transaction:
            self._clear(transaction, 0)

    def restore(self, base: DocumentView) -> None:
        """As `DocumentStore.restore`, in one transaction."""
        with self._database.transaction() as transaction:
            self._clear(transaction, base.applied())
            numbers: dict[str, int] = {}
            for document in folds_of_view(base):
                _write(transaction, [document], numbers)

    def digest(self) -> str:
        with self.view() as view:
            return digest(view)

    def close(self) -> None:
        self._database.close()

    def _clear(self, transaction: SqliteStatements, applied: int) -> None:
        self._stored_applied(transaction, any_generation=True)
        for name in _CLEARED:
            transaction.rows(STATEMENTS[f"delete_{name}"])
        # The generation is noted, so that a late writer of the deleted topic finds a file that is no longer its own.
        self._move(transaction, applied)

    def _move(self, transaction: SqliteStatements, applied: int) -> None:
        if transaction.row(STATEMENTS["checkpoint"]) is None:
            transaction.rows(STATEMENTS["insert_checkpoint"], (self.partition, self.generation, applied))
        else:
            transaction.rows(STATEMENTS["move_checkpoint"], (applied,))

    def _stored_applied(self, statements: SqliteStatements, *, any_generation: bool = False) -> int:
        """The applied offset, inside a transaction. Errors: `Differs` where the file is another partition's or another topic's."""
        row = statements.row(STATEMENTS["checkpoint"])
        if row is None:
            return 0
        partition, generation, applied = row
        self._check_place(partition, self.generation if any_generation else generation)
        return int(applied)

    def _check_place(self, partition: int, generation: str) -> None:
        if partition != self.partition:
            raise Differs(
                f"{self._database.path} holds partition {partition} of the documents, not {self.partition}.",
                hint="Give the file its name back.",
            )
        if generation != self.generation:
            raise Differs(
                f"{self._database.path} was folded from another log: its topic has generation {generation}, this one {self.generation}.",
                hint="Bring back the log that belongs to it, or fold it anew with `headwater doc rebuild`.",
            )


def _write(transaction: SqliteStatements, documents: list[DocumentFold], numbers: dict[str, int]) -> None:
    """Write what records have changed. `numbers`: of the documents that were there."""
    [(last,)] = transaction.rows(STATEMENTS["last_number"])
    inserted_heads: list[Row] = []
    heads: list[Row] = []
    deleted: list[Row] = []
    put: list[Row] = []
    removed: list[Row] = []
    added: list[Row] = []
    copied: list[Row] = []
    places: list[Row] = []
    for document in documents:
        columns, number, life = columns_of_head(document.head), numbers.get(document.uri), document.life
        if number is None:
            number = numbers[document.uri] = last = last + 1
            inserted_heads.append((number, document.uri, *columns, life, document.offset))
        else:
            heads.append((number, *columns, life, document.offset))
        for item, row in document.rows.items():
            if row is None:
                deleted.append((number, life, item))
            else:
                created, kept = (row.modified, 1) if row.created is None else (row.created, 0)
                put.append((number, life, item, row.revision, created, row.modified, row.expires, row.body, kept))
        for (index, key), indexed in document.index_rows.items():
            if indexed.item is None:
                removed.append((number, life, index, key))
            elif indexed.body:
                copied.append((number, life, index, key, indexed.item, indexed.body))
            else:
                added.append((number, life, index, key, indexed.item))
        places.extend([(number, *place) for place in document.places])
    for name, values in (
        ("insert_head", inserted_heads),
        ("update_head", heads),
        ("delete_row", deleted),
        ("put_row", put),
        ("delete_index_row", removed),
        ("put_index_row", added),
        ("put_index_copy", copied),
        ("put_change", places),
    ):
        if values:
            transaction.many(STATEMENTS[name], values)
    for document in documents:
        if document.indexes != document.stored_indexes or document.ended:
            _write_indexes(transaction, document, numbers[document.uri])


def _write_indexes(transaction: SqliteStatements, document: DocumentFold, number: int) -> None:
    """Write definitions, and what changes rarely beside them."""
    transaction.many(STATEMENTS["end_life"], [(number, life) for life in document.ended])
    for index in document.dropped:
        transaction.rows(STATEMENTS["delete_index"], (number, index))
        transaction.rows(STATEMENTS["delete_index_rows"], (number, index, document.life))
    for index, stored in document.indexes.items():
        if document.stored_indexes.get(index) != stored:
            definition = msgspec.json.encode(stored.definition).decode()
            transaction.rows(STATEMENTS["put_index"], (number, index, definition, stored.since, int(stored.complete)))
            if index in document.to_fill:
                _fill(transaction, document, number, index)


def _fill(transaction: SqliteStatements, document: DocumentFold, number: int, index: int) -> None:
    """Add the rows of items that were there before an index came and have not changed since."""
    stored, item = document.indexes[index], ""
    while rows := transaction.rows(f"{STATEMENTS['unindexed']} {_FILLED}", (number, document.life, item, stored.since)):
        index_rows = [(key, item, body) for item, body in rows for _, key in keys_of_item([stored.definition], item, body)]
        if stored.definition.materialize:
            transaction.many(STATEMENTS["put_index_copy"], [(number, document.life, index, *row) for row in index_rows])
        else:
            transaction.many(STATEMENTS["put_index_row"], [(number, document.life, index, key, item) for key, item, _ in index_rows])
        item = rows[-1][0]


def _changed(transaction: SqliteStatements, name: str, values: Sequence[object]) -> int:
    """Run a statement; how many rows it changed."""
    transaction.rows(STATEMENTS[name], values)
    return transaction.connection.changes()
