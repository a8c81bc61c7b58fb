"""A partition of documents in Cassandra, as a reader sees it.

There is no transaction. A view goes by heads: rows of a life that has ended are left out, and a head that an owner has moved meanwhile says
up to which record it counts, so that records laid over the view are not counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from headwater.core.errors import Damaged
from headwater.documents.change import IndexDefinition
from headwater.documents.fold import FoldBase, FoldedHead, StoredIndex
from headwater.documents.store import ChangePlace, DocumentHead, DocumentRow, DocumentView, IndexRow
from headwater.store import Row
from headwater.store.cassandra.requests import Requests
from headwater.store.statements import read_statements

STATEMENTS = read_statements(Path(__file__).with_name("cassandra.cql"))
BUCKETS = 16
"""Over so many partitions of Cassandra the heads of a fold are spread."""
_LAST = "\U0010ffff"  # after every character of a path
_definition = msgspec.json.Decoder(IndexDefinition).decode


class DocumentTables:
    """The requests about one fold."""

    def __init__(self, requests: Requests, fold: str) -> None:
        self.requests, self.fold = requests, fold

    def bound(self, name: str, *values: object) -> Any:
        """A request with all of its values."""
        return self.requests.bound(STATEMENTS[name], values)

    def about(self, name: str, *values: object) -> Any:
        """A request that names the fold first: reads and inserts. `values`: those after it."""
        return self.requests.bound(STATEMENTS[name], (self.fold, *values))

    def timed(self, name: str, time: int, *values: object) -> Any:
        """A request that names its time first: updates and deletions. `values`: those after the fold."""
        return self.requests.bound(STATEMENTS[name], (time, self.fold, *values))

    def index_row(self, index: IndexDefinition, uri: str, life: int, row: IndexRow, time: int) -> Any:
        """A request that writes a row of an index, with its copy of the item where the index is materialized."""
        place = (uri, index.number, life, row.key, row.item)
        return self.about("put_index_copy", *place, row.body, time) if index.materialize else self.about("put_index_row", *place, time)

    def rows(self, name: str, *values: object) -> list[Row]:
        """The rows of a request. `values`: those after the fold."""
        return self.requests.one(STATEMENTS[name], (self.fold, *values))

    def pages(self, name: str, *values: object) -> Iterator[list[Row]]:
        """The rows of a request, page by page. `values`: those after the fold."""
        return self.requests.pages(STATEMENTS[name], (self.fold, *values))

    def heads(self, uris: Sequence[str]) -> dict[str, FoldedHead]:
        """The heads of those uris that have one."""
        answers = self.requests.all(self.about("head", bucket(uri), uri) for uri in uris)
        return {uri: stored_head(uri, rows[0]) for uri, rows in zip(uris, answers, strict=True) if rows and rows[0][0] is not None}

    def indexes(self, uri: str) -> dict[int, StoredIndex]:
        """The indexes of a collection by number. Errors: `Damaged`."""
        try:
            return {
                number: StoredIndex(_definition(definition), since, bool(complete), offset)
                for number, definition, since, offset, complete in self.rows("indexes", uri)
                if definition is not None  # what is left where an index was dropped while it was said to be complete
            }
        except msgspec.MsgspecError as error:
            raise Damaged(
                f"The table `index_def` holds a definition of {uri} that cannot be read: {error}.",
                hint="Make it anew with `headwater doc rebuild`.",
            ) from error

    def counted_indexes(self, stored: FoldedHead) -> dict[int, StoredIndex]:
        """The indexes that came with records which a head counts. A later one belongs to a call that is under way, or that a process began
        and never finished: its record is folded again."""
        return {number: index for number, index in self.indexes(stored.head.uri).items() if index.offset <= stored.offset}


class CassandraDocumentView(DocumentView):
    """The partition at about one moment. Each head is read once."""

    def __init__(self, tables: DocumentTables, applied: int) -> None:
        self._tables, self._applied = tables, applied
        self._heads: dict[str, FoldedHead | None] = {}

    def applied(self) -> int:
        return self._applied

    def counted(self, uri: str) -> int:
        stored = self._stored(uri)
        return self._applied - 1 if stored is None else max(self._applied - 1, stored.offset)

    def head(self, uri: str) -> DocumentHead | None:
        stored = self._stored(uri)
        return None if stored is None else stored.head

    def row(self, uri: str, item: str = "") -> DocumentRow | None:
        return self.rows_of(uri, [item])[0]

    def rows(self, uri: str, *, low: str = "", high: str | None = None, limit: int, reverse: bool = False) -> list[DocumentRow]:
        life = self._life(uri)
        if life is None or not uri.endswith("~") or (high is not None and low >= high):
            return []
        name = f"{'last_' if reverse else ''}rows{'' if high is None else '_below'}"
        bounds = (low,) if high is None else (low, high)
        return [document_row(row) for row in self._tables.rows(name, uri, life, *bounds, limit)]

    def rows_of(self, uri: str, items: Sequence[str]) -> list[DocumentRow | None]:
        life, tables = self._life(uri), self._tables
        if life is None:
            return [None] * len(items)
        answers = tables.requests.all(tables.about("row", uri, life, item) for item in items)
        return [document_row(rows[0]) if rows else None for rows in answers]

    def count(self, uri: str, check: Callable[[], None] = lambda: None) -> int:
        life, count = self._life(uri), 0
        for page in () if life is None or not uri.endswith("~") else self._tables.pages("items_behind", uri, life, ""):
            count += len(page)
            check()
        return count

    def cuts(self, uri: str, *, after: str = "", every: int, limit: int) -> list[str]:
        life, cuts, row_count = self._life(uri), list[str](), 0
        for page in () if life is None else self._tables.pages("items_behind", uri, life, after):
            cuts += [page[at][0] for at in range((every - 1 - row_count) % every, len(page), every)]
            row_count += len(page)
            if len(cuts) >= limit:
                break
        return cuts[:limit]

    def fold(self) -> str:
        return self._tables.fold

    def indexes(self, uri: str) -> list[IndexDefinition]:
        stored = self._stored(uri)
        indexes = {} if stored is None else self._tables.counted_indexes(stored)
        return [indexes[number].definition for number in sorted(indexes)]

    def index_rows(
        self, uri: str, index: int, *, low: bytes = b"", high: bytes | None = None, limit: int, reverse: bool = False, copies: bool = False
    ) -> list[IndexRow]:
        life = self._life(uri)
        if life is None or (high is not None and low >= high):
            return []
        name = f"{'last_' if reverse else ''}index_{'copies' if copies else 'rows'}{'' if high is None else '_below'}"
        bounds = (low,) if high is None else (low, high)
        rows = self._tables.rows(name, uri, index, life, *bounds, limit)
        return [IndexRow(key, item, body[0] or b"" if body else b"") for key, item, *body in rows]

    def changes(self, uri: str, *, after: int = 0, limit: int, reverse: bool = False) -> list[ChangePlace]:
        head = self.head(uri)
        last = 0 if head is None else head.revision  # places behind it are those of records that do not count yet
        if reverse:
            places = self._tables.rows("last_changes", uri, min(after or last + 1, last + 1), limit)
        else:
            places = self._tables.rows("changes", uri, after, last, limit) if after < last else []
        return [ChangePlace(*row) for row in places]

    def heads(self, *, prefix: str = "", after: str = "", limit: int) -> list[DocumentHead]:
        tables, low, high = self._tables, max(prefix, f"{after}\0" if after else ""), prefix + _LAST
        if low >= high:
            return []
        heads: list[DocumentHead] = []
        for number in range(BUCKETS):
            start, page = low, limit
            while page == limit:  # heads that are being made count for the page, and not for the answer
                rows = tables.rows("heads", number, start, high, limit)
                heads += [document_head(uri, columns) for uri, *columns in rows if columns[0] is not None]
                page = len(rows) if any(row[1] is None for row in rows) else 0
                start = f"{rows[-1][0]}\0" if rows else ""
        return sorted(heads, key=lambda head: head.uri)[:limit]

    def expiring(self, before: int, limit: int) -> list[tuple[str, str]]:
        expiring_items: list[tuple[str, str]] = []
        for page in self._tables.pages("expiring", before):
            for expires, uri, item in page:
                row = self.row(uri, item)
                if row is not None and row.expires == expires:
                    expiring_items.append((uri, item))
                    if len(expiring_items) == limit:
                        return expiring_items
        return expiring_items

    def _stored(self, uri: str) -> FoldedHead | None:
        if uri not in self._heads:
            self._heads[uri] = self._tables.heads([uri]).get(uri)
        return self._heads[uri]

    def _life(self, uri: str) -> int | None:
        stored = self._stored(uri)
        return None if stored is None or stored.head.deleted else stored.life


class CassandraFoldBase(FoldBase):
    """What is stored of documents, read at once before their records are folded."""

    def __init__(self, tables: DocumentTables, uris: Sequence[str]) -> None:
        self._tables, self._heads = tables, tables.heads(uris)

    def stored_head(self, uri: str) -> FoldedHead | None:
        return self._heads.get(uri)

    def stored_indexes(self, uri: str) -> dict[int, StoredIndex]:
        stored = self._heads.get(uri)
        return {} if stored is None else self._tables.counted_indexes(stored)


def bucket(uri: str) -> int:
    """Where the head of a document lies."""
    return crc32(uri.encode()) // 1024 % BUCKETS  # the lower bits have chosen the partition of the log


def document_head(uri: str, columns: Sequence[Any]) -> DocumentHead:
    """A head of a row of the table document."""
    revision, generation, deleted, created, modified, last_id, settings = columns
    return DocumentHead(
        uri=uri,
        revision=revision,
        generation=generation,
        deleted=bool(deleted),
        created=created,
        modified=modified,
        last_id=last_id or "",
        settings=settings or b"",
    )


def stored_head(uri: str, row: Row) -> FoldedHead:
    """A head with its life and its offset."""
    *columns, life, offset = row
    return FoldedHead(document_head(uri, columns), life, offset)


def document_row(row: Row) -> DocumentRow:
    """A row of the table content. One that no record has said to be new was made by its last change."""
    item, body, revision, created, modified, expires = row
    return DocumentRow(item, body, revision, modified if created is None else created, modified, expires)
