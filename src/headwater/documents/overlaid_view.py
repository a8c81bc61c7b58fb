"""Records that are durable, but that the store has not applied yet, laid over a view of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from headwater.documents.change import IndexDefinition
from headwater.documents.fold import DocumentFold, FoldBase, FoldedHead, PartitionFold, StoredIndex
from headwater.documents.store import AppendedRecord, ChangePlace, DocumentHead, DocumentRow, DocumentView, IndexRow


class OverlaidView(DocumentView):
    """Answers as the store would, had it applied the records, too; nothing is written.

    One answer differs: an index that becomes ready in these records is building here. Only the store knows whether the items of before have
    their rows, and a query that reads the items instead is right in either case. Like the view below it, it is used by one thread.
    """

    def __init__(self, view: DocumentView, records: Iterable[AppendedRecord] = ()) -> None:
        self._view = view
        self._fold = PartitionFold(_ViewBase(view))
        self._applied = view.applied()
        for appended in records:
            self.add(appended)

    def add(self, appended: AppendedRecord) -> None:
        """Lay one more record over the view, unless it counts already. Errors: `Differs` where its revision does not follow."""
        if appended.offset >= self._applied:
            self._fold.add(appended)
            self._applied = appended.offset + 1

    def applied(self) -> int:
        return self._applied

    def head(self, uri: str) -> DocumentHead | None:
        document = self._fold.documents.get(uri)
        return self._view.head(uri) if document is None else document.head

    def row(self, uri: str, item: str = "") -> DocumentRow | None:
        document = self._fold.documents.get(uri)
        if document is None:
            return self._view.row(uri, item)
        if item in document.rows:
            return self._folded(document, item)
        return self._view.row(uri, item) if _shows_base(document) else None

    def rows(self, uri: str, *, low: str = "", high: str | None = None, limit: int, reverse: bool = False) -> list[DocumentRow]:
        document = self._fold.documents.get(uri)
        if document is None:
            return self._view.rows(uri, low=low, high=high, limit=limit, reverse=reverse)
        if not document.is_collection:
            return []
        changed = [item for item in document.rows if low <= item and (high is None or item < high)]
        base: list[DocumentRow] = []
        if _shows_base(document):
            base = self._view.rows(uri, low=low, high=high, limit=limit + len(changed), reverse=reverse)
        before = {row.item: row for row in base if row.item in document.rows}
        changed_rows = [folded.row(before.get(item) or self._before(document, item)) for item in changed if (folded := document.rows[item])]
        unchanged = [row for row in base if row.item not in document.rows]
        return sorted([*unchanged, *changed_rows], key=lambda row: row.item, reverse=reverse)[:limit]

    def rows_of(self, uri: str, items: Sequence[str]) -> list[DocumentRow | None]:
        document = self._fold.documents.get(uri)
        if document is None:
            return self._view.rows_of(uri, items)
        stored = [item for item in items if item not in document.rows] if _shows_base(document) else []
        stored_rows = dict(zip(stored, self._view.rows_of(uri, stored), strict=True)) if stored else {}
        return [self._folded(document, item) if item in document.rows else stored_rows.get(item) for item in items]

    def count(self, uri: str, check: Callable[[], None] = lambda: None) -> int:
        document = self._fold.documents.get(uri)
        if document is None:
            return self._view.count(uri, check)
        if not document.is_collection or document.head.deleted:
            return 0
        row_count = sum(row is not None for row in document.rows.values())
        if not _shows_base(document):
            return row_count
        before = self._view.rows_of(uri, list(document.rows))
        return self._view.count(uri, check) - sum(row is not None for row in before) + row_count

    def indexes(self, uri: str) -> list[IndexDefinition]:
        document = self._fold.documents.get(uri)
        if document is None:
            return self._view.indexes(uri)
        return [_honest(document, number) for number in sorted(document.indexes)]

    def index_rows(
        self, uri: str, index: int, *, low: bytes = b"", high: bytes | None = None, limit: int, reverse: bool = False, copies: bool = False
    ) -> list[IndexRow]:
        document = self._fold.documents.get(uri)
        if document is None:
            return self._view.index_rows(uri, index, low=low, high=high, limit=limit, reverse=reverse, copies=copies)
        changed = {
            key: folded
            for (number, key), folded in document.index_rows.items()
            if number == index and low <= key and (high is None or key < high)
        }
        base: list[IndexRow] = []
        if _shows_base(document) and index not in document.dropped:
            most = limit + len(changed)
            base = self._view.index_rows(uri, index, low=low, high=high, limit=most, reverse=reverse, copies=copies)
        changed_rows = [IndexRow(key, row.item, row.body if copies else b"") for key, row in changed.items() if row.item is not None]
        unchanged = [row for row in base if row.key not in changed]
        return sorted([*unchanged, *changed_rows], reverse=reverse)[:limit]

    def changes(self, uri: str, *, after: int = 0, limit: int, reverse: bool = False) -> list[ChangePlace]:
        document = self._fold.documents.get(uri)
        if document is None or not document.places:
            return self._view.changes(uri, after=after, limit=limit, reverse=reverse)
        places = document.places
        if reverse:
            newest = [place for place in reversed(places) if not after or place.revision < after][:limit]
            rest = limit - len(newest)
            return newest + (self._view.changes(uri, after=after, limit=rest, reverse=True) if rest else [])
        oldest = self._view.changes(uri, after=after, limit=limit) if after + 1 < places[0].revision else []
        return oldest + [place for place in places if place.revision > after][: limit - len(oldest)]

    def heads(self, *, prefix: str = "", after: str = "", limit: int) -> list[DocumentHead]:
        documents = self._fold.documents
        base = [head for head in self._view.heads(prefix=prefix, after=after, limit=limit) if head.uri not in documents]
        changed = [document.head for uri, document in documents.items() if uri > after and uri.startswith(prefix)]
        return sorted([*base, *changed], key=lambda head: head.uri)[:limit]

    def expiring(self, before: int, limit: int) -> list[tuple[str, str]]:
        documents = self._fold.documents
        expiring_items = [
            (row.expires, uri, item)
            for uri, document in documents.items()
            if not document.head.deleted
            for item, row in document.rows.items()
            if row is not None and 0 < row.expires < before
        ]
        wanted = limit
        while True:
            base = self._view.expiring(before, wanted)
            shown = [(uri, item) for uri, item in base if uri not in documents or self._shows_stored(documents[uri], item)]
            if len(shown) >= limit or len(base) < wanted:
                break
            wanted *= 2  # those that are hidden here may be all items of a collection
        for uri, item in shown[:limit]:
            row = self._view.row(uri, item)
            if row is not None:
                expiring_items.append((row.expires, uri, item))
        return [(uri, item) for _, uri, item in sorted(expiring_items)[:limit]]

    # -- rows -------------------------------------------------------------------------------------------------

    def _folded(self, document: DocumentFold, item: str) -> DocumentRow | None:
        """A row that records have changed."""
        folded = document.rows[item]
        if folded is None or document.head.deleted:
            return None
        return folded.row(self._before(document, item) if folded.created is None else None)

    def _before(self, document: DocumentFold, item: str) -> DocumentRow | None:
        """The stored row, for the time of its creation."""
        return self._view.row(document.uri, item) if _same_life(document) else None

    def _shows_stored(self, document: DocumentFold, item: str) -> bool:
        return _shows_base(document) and item not in document.rows


class _ViewBase(FoldBase):
    """A view below a fold. Its life is 0, whatever the store calls it: it only must differ from those that begin in the records."""

    def __init__(self, view: DocumentView) -> None:
        self._view = view

    def stored_head(self, uri: str) -> FoldedHead | None:
        head = self._view.head(uri)
        return None if head is None else FoldedHead(head, offset=self._view.counted(uri))

    def stored_indexes(self, uri: str) -> dict[int, StoredIndex]:
        return {index.number: StoredIndex(index, 0, index.state == "ready") for index in self._view.indexes(uri)}


def _same_life(document: DocumentFold) -> bool:
    return document.life == 0


def _shows_base(document: DocumentFold) -> bool:
    """Whether stored rows that no record has changed are still there."""
    return _same_life(document) and not document.head.deleted


def _honest(document: DocumentFold, number: int) -> IndexDefinition:
    definition, stored = document.indexes[number].definition, document.stored_indexes.get(number)
    if definition.state == "ready" and (stored is None or stored.definition.state != "ready"):
        return msgspec.structs.replace(definition, state="building")
    return definition
