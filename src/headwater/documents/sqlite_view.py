"""A partition of documents in SQLite at one moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from headwater.core.errors import Damaged
from headwater.documents.change import IndexDefinition
from headwater.documents.fold import FoldBase, FoldedHead, StoredIndex
from headwater.documents.store import ChangePlace, DocumentHead, DocumentRow, DocumentView, IndexRow
from headwater.store import Row
from headwater.store.sqlite.database import SqliteSnapshot, SqliteStatements
from headwater.store.statements import read_statements

STATEMENTS = read_statements(Path(__file__).with_name("sqlite.sql"))
_HEAD, _ROW, _PLACE, _ITEM, _INDEXES = (STATEMENTS[name] for name in ("head", "row", "place", "item", "indexes"))
_LAST = "\U0010ffff"  # after every character of a path
_definition = msgspec.json.Decoder(IndexDefinition).decode


class SqliteDocumentView(DocumentView):
    """A transaction that reads, as a block. `check` returns the applied offset of a file that is the right one."""

    def __init__(self, snapshot: SqliteSnapshot, path: Path, check: Callable[[SqliteStatements], int]) -> None:
        self._snapshot, self._path, self._check = snapshot, path, check
        self._places: dict[str, tuple[int, int] | None] = {}

    def __enter__(self) -> Self:
        snapshot = self._snapshot.__enter__()
        try:
            self._applied = self._check(snapshot)
        except BaseException as error:
            snapshot.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._snapshot.__exit__(kind, error, trace)

    def applied(self) -> int:
        return self._applied

    def head(self, uri: str) -> DocumentHead | None:
        row = self._snapshot.row(_HEAD, (uri,))
        return None if row is None else head_of_columns(uri, row)

    def row(self, uri: str, item: str = "") -> DocumentRow | None:
        row = self._snapshot.row(_ROW, (uri, item))
        return None if row is None else DocumentRow(*row)

    def rows(self, uri: str, *, low: str = "", high: str | None = None, limit: int, reverse: bool = False) -> list[DocumentRow]:
        place = self._place(uri)
        if place is None:
            return []
        name = f"{'last_' if reverse else ''}rows{'' if high is None else '_below'}"
        values = (*place, low) if high is None else (*place, low, high)
        return [DocumentRow(*row) for row in self._snapshot.rows(f"{STATEMENTS[name]} {limit:d}", values)]

    def rows_of(self, uri: str, items: Sequence[str]) -> list[DocumentRow | None]:
        place = self._place(uri)
        if place is None:
            return [None] * len(items)
        rows = {row[0]: DocumentRow(*row) for row in self._snapshot.many(_ITEM, [(*place, item) for item in items])}
        return [rows.get(item) for item in items]

    def count(self, uri: str, check: Callable[[], None] = lambda: None) -> int:
        place = self._place(uri)
        return 0 if place is None else int(self._snapshot.rows(STATEMENTS["count"], place)[0][0])

    def cuts(self, uri: str, *, after: str = "", every: int, limit: int) -> list[str]:
        place, cuts = self._place(uri), list[str]()
        while place is not None and len(cuts) < limit:
            row = self._snapshot.row(f"{STATEMENTS['cut']} {every - 1:d}", (*place, after))
            if row is None:
                break
            [after] = row
            cuts.append(after)
        return cuts

    def indexes(self, uri: str) -> list[IndexDefinition]:
        row = self._snapshot.row(_PLACE, (uri,))
        if row is None:
            return []
        return [index.definition for index in indexes_of(self._snapshot.rows(_INDEXES, row[:1]), self._path).values()]

    def index_rows(
        self, uri: str, index: int, *, low: bytes = b"", high: bytes | None = None, limit: int, reverse: bool = False, copies: bool = False
    ) -> list[IndexRow]:
        place = self._place(uri)
        if place is None:
            return []
        name = f"{'last_' if reverse else ''}index_{'copies' if copies else 'rows'}{'' if high is None else '_below'}"
        values = (*place, index, low) if high is None else (*place, index, low, high)
        return [IndexRow(*row) for row in self._snapshot.rows(f"{STATEMENTS[name]} {limit:d}", values)]

    def changes(self, uri: str, *, after: int = 0, limit: int, reverse: bool = False) -> list[ChangePlace]:
        name = "last_changes" if reverse else "changes"
        revision = after if after or not reverse else (1 << 63) - 1
        return [ChangePlace(*row) for row in self._snapshot.rows(f"{STATEMENTS[name]} {limit:d}", (uri, revision))]

    def heads(self, *, prefix: str = "", after: str = "", limit: int) -> list[DocumentHead]:
        rows = self._snapshot.rows(f"{STATEMENTS['heads']} {limit:d}", (after, prefix, prefix + _LAST))
        return [head_of_columns(uri, columns) for uri, *columns in rows]

    def expiring(self, before: int, limit: int) -> list[tuple[str, str]]:
        return [(uri, item) for uri, item in self._snapshot.rows(f"{STATEMENTS['expiring']} {limit:d}", (before,))]

    def _place(self, uri: str) -> tuple[int, int] | None:
        """The number and the life of a collection; None where there is none, or it is deleted."""
        if uri not in self._places:
            row = self._snapshot.row(_PLACE, (uri,))
            self._places[uri] = None if row is None or row[2] or not uri.endswith("~") else (row[0], row[1])
        return self._places[uri]


class SqliteFoldBase(FoldBase):
    """What is stored, inside the transaction that folds records. `numbers`: of the documents that were asked for."""

    def __init__(self, statements: SqliteStatements, path: Path) -> None:
        self._statements, self._path = statements, path
        self.numbers: dict[str, int] = {}

    def stored_head(self, uri: str) -> FoldedHead | None:
        row = self._statements.row(STATEMENTS["stored_head"], (uri,))
        if row is None:
            return None
        *columns, life, offset, self.numbers[uri] = row
        return FoldedHead(head_of_columns(uri, columns), life, offset)

    def stored_indexes(self, uri: str) -> dict[int, StoredIndex]:
        number = self.numbers.get(uri)
        return {} if number is None else indexes_of(self._statements.rows(_INDEXES, (number,)), self._path)


def head_of_columns(uri: str, columns: Sequence[object]) -> DocumentHead:
    """A head of a row of the table document."""
    revision, generation, deleted, created, modified, last_id, settings = columns
    return DocumentHead(
        uri=uri,
        revision=revision,  # type: ignore[arg-type]
        generation=generation,  # type: ignore[arg-type]
        deleted=bool(deleted),
        created=created,  # type: ignore[arg-type]
        modified=modified,  # type: ignore[arg-type]
        last_id=last_id,  # type: ignore[arg-type]
        settings=settings or b"",  # type: ignore[arg-type]
    )


def columns_of_head(head: DocumentHead) -> Row:
    """The columns of a head, from the revision to the settings."""
    settings = head.settings or None
    return (head.revision, head.generation, int(head.deleted), head.created, head.modified, head.last_id, settings)


def indexes_of(rows: list[Row], path: Path) -> dict[int, StoredIndex]:
    """The indexes of rows of the table index_def. Errors: `Damaged`."""
    indexes = [StoredIndex(read_definition(definition, path), since, bool(complete)) for definition, since, complete in rows]
    return {index.definition.number: index for index in indexes}


def read_definition(text: object, path: Path) -> IndexDefinition:
    """The definition of an index, as the table index_def has it. Errors: `Damaged`."""
    try:
        return _definition(text)  # type: ignore[arg-type]
    except msgspec.MsgspecError as error:
        raise Damaged(
            f"{path} holds the definition of an index that cannot be read: {error}.", hint="Make it anew with `headwater doc rebuild`."
        ) from error
