"""What records make of documents and collections: one fold for SQLite, for Cassandra and for the tail that no store has yet.

A life of a collection lasts until the whole of it is deleted. It is named by the offset of the record that ended the one before it, plus 1,
so that folding a record twice gives the same name; the first is 0. Rows of a life that has ended are never seen again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from headwater.core.errors import Differs
from headwater.documents.change import IndexDefinition, ResourceChange
from headwater.documents.digest import PAGE, all_changes, all_heads, all_index_rows, all_rows
from headwater.documents.index.keys import index_keys
from headwater.documents.store import AppendedRecord, ChangePlace, DocumentHead, DocumentRow, DocumentView
from headwater.wire.json import UNREADABLE, decoder

_decode = decoder(dict[str, Any])


class StoredIndex(msgspec.Struct, frozen=True):
    """An index and how far it was built. `since`: the revision of the collection when the index came; later changes have their rows by
    themselves. `complete`: the items of before have theirs, too."""

    definition: IndexDefinition
    since: int
    complete: bool = False
    offset: int = -1
    """Of the record with which the index came; -1 where the store need not know."""


class FoldedHead(msgspec.Struct, frozen=True):
    """A head, its life, and the offset of the last record that it counts."""

    head: DocumentHead
    life: int = 0
    offset: int = -1


class FoldedRow(msgspec.Struct, frozen=True, gc=False):
    """A row as records leave it. `created` is None where the row was there before them: it keeps its time."""

    item: str
    body: bytes
    revision: int
    created: int | None
    modified: int
    expires: int
    offset: int

    def row(self, before: DocumentRow | None) -> DocumentRow:
        """As a reader gets it. `before`: the stored one."""
        created = self.created if self.created is not None else before.created if before is not None else self.modified
        return DocumentRow(self.item, self.body, self.revision, created, self.modified, self.expires)


class FoldedIndexRow(NamedTuple):
    """A row of an index as records leave it. `item`: None where it is removed. `body`: of the item, where the index is materialized."""

    item: str | None
    offset: int
    body: bytes = b""


class FoldBase(ABC):
    """What is stored below a fold."""

    @abstractmethod
    def stored_head(self, uri: str) -> FoldedHead | None:
        """The head of a document or collection."""

    @abstractmethod
    def stored_indexes(self, uri: str) -> dict[int, StoredIndex]:
        """The indexes of a collection by number."""


class DocumentFold:
    """One document or collection: what records change of it."""

    def __init__(self, uri: str, stored: FoldedHead | None, indexes: dict[int, StoredIndex]) -> None:
        self.uri, self.stored, self.stored_indexes = uri, stored, indexes
        self.is_collection = uri.endswith("~")
        # A head that no change has made counts as deleted: there is nothing to read, and the first change makes it.
        self.head = stored.head if stored is not None else DocumentHead(uri=uri, revision=0, deleted=True)
        self.life = stored.life if stored is not None else 0
        self.offset = stored.offset if stored is not None else -1
        self.indexes = dict(indexes)
        self._kept = _kept(indexes)
        self.rows: dict[str, FoldedRow | None] = {}
        """By item, of the present life; None: removed."""
        self.index_rows: dict[tuple[int, bytes], FoldedIndexRow] = {}
        """By index and key."""
        self.places: list[ChangePlace] = []
        self.ended: list[int] = []
        """Lives that ended."""
        self.dropped: list[int] = []
        """Numbers of indexes that are gone, with all their rows."""
        self.to_fill: list[int] = []
        """Numbers of indexes that are ready, though their items of before have no rows: the store is folded anew."""

    def add(self, appended: AppendedRecord) -> None:
        """Fold one more record. Errors: `Differs` where its revision does not follow, and nothing of it is folded."""
        offset, _, record = appended
        changes, revision = record.changes, self.head.revision
        for change in changes:
            revision += 1
            if change.revision != revision:
                raise Differs(
                    f"The record at offset {offset} is revision {change.revision} of {self.uri}; the store has revision {revision - 1}.",
                    hint="The store has missed records: fold it anew with `headwater doc rebuild`.",
                )
        if record.ended_indexes:
            self._end_indexes(record.ended_indexes)
        if changes:
            self._add_changes(changes, appended)
        if record.index is not None:
            self._add_index(record.index, offset)
        if record.dropped_index and self.indexes.pop(record.dropped_index, None) is not None:
            self._kept = _kept(self.indexes)
            self.dropped.append(record.dropped_index)
            for row in [row for row in self.index_rows if row[0] == record.dropped_index]:
                del self.index_rows[row]
        settings = bytes(record.settings)
        if record.last_id or settings:
            head = self.head
            self.head = msgspec.structs.replace(head, last_id=record.last_id or head.last_id, settings=settings or head.settings)
        self.offset = offset

    def _add_changes(self, changes: tuple[ResourceChange, ...], appended: AppendedRecord) -> None:
        offset, time, record = appended
        ends = [number for number, change in enumerate(changes) if change.method == "delete" and not change.item]
        head, deleted = self.head, self.head.deleted
        if self.is_collection and not deleted and (ends or record.generation > head.generation):
            self._end_life(offset + 1)
        # What one record does before it deletes the whole collection leaves nothing behind.
        for change in changes[ends[-1] :] if ends else changes:
            if change.item or not self.is_collection:
                self._add_row(change, offset, time)
        self.places.extend([ChangePlace(change.revision, offset, time) for change in changes])
        reborn = bool(ends and ends[-1] + 1 < len(changes))
        self.head = DocumentHead(
            uri=self.uri,
            revision=changes[-1].revision,
            generation=record.generation,
            deleted=bool(ends) and not reborn,
            created=time if deleted or reborn else head.created,
            modified=time,
            last_id=head.last_id,
            settings=head.settings,
        )

    def _end_life(self, life: int) -> None:
        if self.stored is not None and self.life == self.stored.life:
            self.ended.append(self.life)
        self.life = life
        self.rows.clear()
        self.index_rows.clear()

    def _add_row(self, change: ResourceChange, offset: int, time: int) -> None:
        item, rows = change.item, self.rows
        for number, key in change.obsolete.items():
            self.index_rows[number, key] = FoldedIndexRow(None, offset)
        if change.method == "delete":
            rows[item] = None
            return
        before = rows.get(item)
        created = time if change.created or (item in rows and before is None) else before.created if before is not None else None
        body = change.state
        rows[item] = FoldedRow(item, body, change.revision, created, time, change.expires, offset)
        if self._kept:
            for number, key in keys_of_item(self._kept, item, body):
                copy = body if self.indexes[number].definition.materialize else b""
                self.index_rows[number, key] = FoldedIndexRow(item, offset, copy)

    def _end_indexes(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if (index := self.indexes.get(number)) is not None:
                definition = msgspec.structs.replace(index.definition, state="deleting")
                self.indexes[number] = msgspec.structs.replace(index, definition=definition)
        self._kept = _kept(self.indexes)

    def _add_index(self, definition: IndexDefinition, offset: int) -> None:
        before = self.indexes.get(definition.number)
        if before is None:
            before = StoredIndex(definition, self.head.revision, offset=offset)
        filled = definition.state == "ready" and not before.complete
        if filled:
            self.to_fill.append(definition.number)
        self.indexes[definition.number] = StoredIndex(definition, before.since, before.complete or filled, before.offset)
        self._kept = _kept(self.indexes)


class PartitionFold:
    """The documents and collections of a partition that records change."""

    def __init__(self, base: FoldBase) -> None:
        self._base = base
        self._documents: dict[str, DocumentFold] = {}

    def add(self, appended: AppendedRecord) -> DocumentFold:
        """Fold one more record; records of one document come in the order of their offsets. Errors: as `DocumentFold.add`."""
        uri = appended.record.uri
        document = self._documents.get(uri)
        if document is None:
            base = self._base
            document = DocumentFold(uri, base.stored_head(uri), base.stored_indexes(uri) if uri.endswith("~") else {})
            self._documents[uri] = document
        # A store that writes rows before the offset has some of them twice after a crash: the head says which.
        if appended.offset > document.offset:
            document.add(appended)
        return document

    @property
    def documents(self) -> Mapping[str, DocumentFold]:
        """By uri."""
        return self._documents


def keys_of_item(definitions: Sequence[IndexDefinition], item: str, body: bytes) -> list[tuple[int, bytes]]:
    """The number and the key of each index that takes an item. A body that is no object is in none: it must not stop the fold."""
    try:
        values = _decode(body)
    except UNREADABLE:
        return []
    keys = [(definition.number, index_keys(definition).key(item, values)) for definition in definitions]
    return [(number, key) for number, key in keys if key is not None]


def _kept(indexes: Mapping[int, StoredIndex]) -> list[IndexDefinition]:
    """The definitions whose rows follow the changes."""
    return [index.definition for index in indexes.values() if index.definition.state != "deleting"]


def folds_of_view(view: DocumentView) -> Iterator[DocumentFold]:
    """Everything that a view holds, as folds over nothing: several for a large collection, one after another."""
    for head in all_heads(view):
        indexes = {
            index.number: StoredIndex(index, head.revision, index.state == "ready", view.applied() - 1) for index in view.indexes(head.uri)
        }
        parts: list[Iterator[Any]] = [all_rows(view, head.uri), all_changes(view, head.uri)]
        parts += [all_index_rows(view, head.uri, number) for number in indexes]
        while True:
            fold = DocumentFold(head.uri, None, {})
            fold.head, fold.indexes, fold.offset = head, indexes, view.applied() - 1
            rows, places, *index_rows = [list(islice(part, PAGE)) for part in parts]
            fold.rows = {row.item: FoldedRow(row.item, row.body, row.revision, row.created, row.modified, row.expires, 0) for row in rows}
            fold.places = places
            fold.index_rows = {
                (number, row.key): FoldedIndexRow(row.item, 0, row.body)
                for number, page in zip(indexes, index_rows, strict=True)
                for row in page
            }
            yield fold
            if max(len(rows), len(places), *map(len, index_rows)) < PAGE:
                break
