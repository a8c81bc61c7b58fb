"""Records of documents for tests of stores, and a model that says what a store must hold after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headwater.documents.change import EMPTY, ChangeRecord, IndexDefinition, Method, ResourceChange, SortField
from headwater.documents.digest import all_changes, all_heads, all_index_rows, all_rows
from headwater.documents.index.keys import index_keys
from headwater.documents.store import AppendedRecord, ChangePlace, DocumentHead, DocumentRow, DocumentStore, DocumentView, IndexRow
from headwater.wire import json

BEGAN = 1_700_000_000_000
Step = tuple[Method, str, Mapping[str, Any] | None]
"""A change: what is done, to which item, and the body after it."""


def definition(number: int, *fields: str, state: str = "building", filter_by: str = "", materialize: bool = False) -> IndexDefinition:
    """An index over fields, each with a minus where it descends."""
    order = tuple(SortField(field.lstrip("-"), "desc" if field.startswith("-") else "asc") for field in fields)
    made = IndexDefinition(id=f"index-{number}", number=number, sort_by=order, filter_by=filter_by, materialize=materialize)
    return msgspec.structs.replace(made, state=state)


class RecordedDocuments:
    """Makes the records that a writer would make, and keeps the model: plain dicts, changed step by step."""

    def __init__(self) -> None:
        self.records: list[AppendedRecord] = []
        self.end = 0
        self.heads: dict[str, DocumentHead] = {}
        self.rows: dict[str, dict[str, DocumentRow]] = {}
        self.indexes: dict[str, dict[int, IndexDefinition]] = {}
        self.places: dict[str, list[ChangePlace]] = {}

    # -- records ----------------------------------------------------------------------------------------------

    def put(self, uri: str, item: str = "", /, *, expires: int = 0, last_id: str = "", **fields: Any) -> AppendedRecord:
        """Put a document or an item."""
        return self.write(uri, [("put", item, fields)], expires=expires, last_id=last_id)

    def patch(self, uri: str, item: str = "", /, **fields: Any) -> AppendedRecord:
        """Patch fields of a document or an item that is there."""
        return self.write(uri, [("patch", item, {**json.decoder(dict)(self.rows[uri][item].body), **fields})])

    def delete(self, uri: str, item: str = "") -> AppendedRecord:
        """Delete a document, an item or a whole collection."""
        return self.write(uri, [("delete", item, None)])

    def write(self, uri: str, steps: Sequence[Step], *, expires: int = 0, last_id: str = "") -> AppendedRecord:
        """One record of several changes."""
        before, time, offset = self._head(uri), BEGAN + self.end * 10, self.end
        generation = before.generation + 1 if before.deleted and before.revision else before.generation
        revision, created, deleted, changes = before.revision, before.created, before.deleted, []
        rows, places = self.rows.setdefault(uri, {}), self.places.setdefault(uri, [])
        for method, item, body in steps:
            revision += 1
            row = rows.pop(item, None)
            obsolete = dict(self._keys(uri, item, row.body)) if row is not None and item else {}
            if method == "delete":
                if not item:
                    rows.clear()
                    deleted = True
                changes.append(ResourceChange(method=method, revision=revision, item=item, obsolete=obsolete))
            else:
                text = json.encode(body)
                rows[item] = DocumentRow(item, text, revision, row.created if row else time, time, expires)
                event = msgspec.Raw(text if method == "put" else b'{"patched":true}')
                after = EMPTY if method == "put" else msgspec.Raw(text)
                if deleted:
                    created, deleted = time, False
                changes.append(
                    ResourceChange(
                        method=method,
                        revision=revision,
                        item=item,
                        event=event,
                        body=after,
                        created=row is None,
                        expires=expires,
                        obsolete=obsolete,
                    )
                )
            places.append(ChangePlace(revision, offset, time))
        self.heads[uri] = DocumentHead(
            uri=uri,
            revision=revision,
            generation=generation,
            deleted=deleted,
            created=created,
            modified=time,
            last_id=last_id or before.last_id,
            settings=before.settings,
        )
        return self._append(ChangeRecord(uri=uri, generation=generation, changes=tuple(changes), last_id=last_id))

    def set_index(self, uri: str, index: IndexDefinition) -> AppendedRecord:
        """Set an index as it is from here on."""
        self.heads[uri] = self._head(uri)
        self.indexes.setdefault(uri, {})[index.number] = index
        return self._append(ChangeRecord(uri=uri, generation=self._head(uri).generation, index=index))

    def drop_index(self, uri: str, number: int) -> AppendedRecord:
        """Drop an index."""
        self.heads[uri] = self._head(uri)
        self.indexes.setdefault(uri, {}).pop(number, None)
        return self._append(ChangeRecord(uri=uri, generation=self._head(uri).generation, dropped_index=number))

    def set_settings(self, uri: str, **fields: Any) -> AppendedRecord:
        """Set the settings of a collection."""
        text = json.encode(fields)
        self.heads[uri] = msgspec.structs.replace(self._head(uri), settings=text)
        return self._append(ChangeRecord(uri=uri, generation=self._head(uri).generation, settings=msgspec.Raw(text)))

    def skip(self) -> None:
        """An offset that no record of documents has, such as a claim's."""
        self.end += 1

    # -- the model --------------------------------------------------------------------------------------------

    def index_rows(self, uri: str, number: int, *, copies: bool = False) -> list[IndexRow]:
        """Every row that an index must have once it is ready. `copies`: with the items, where it is materialized."""
        index = self.indexes[uri][number]
        keys, copied = index_keys(index), copies and index.materialize
        pairs = [(keys.key(item, json.decoder(dict)(row.body)), row) for item, row in self.rows.get(uri, {}).items()]
        return sorted(IndexRow(key, row.item, row.body if copied else b"") for key, row in pairs if key is not None)

    def apply_to(self, store: DocumentStore, cuts: Sequence[int] = ()) -> None:
        """Apply all records, in calls that end at these offsets."""
        start = 0
        for stop in [*sorted({cut for cut in cuts if cut < self.end}), self.end]:
            store.apply([record for record in self.records if start <= record.offset < stop], stop)
            start = stop

    def check(self, view: DocumentView) -> None:
        """Assert that a view holds exactly the model."""
        assert {head.uri: head for head in all_heads(view)} == self.heads
        for uri, head in self.heads.items():
            rows, indexes = self.rows.get(uri, {}), self.indexes.get(uri, {})
            assert view.head(uri) == head
            assert list(all_rows(view, uri)) == [rows[item] for item in sorted(rows)]
            assert view.count(uri) == (len(rows) if uri.endswith("~") else 0)
            assert list(all_changes(view, uri)) == self.places.get(uri, [])
            shown = {index.number: index for index in view.indexes(uri)}
            assert {number: index.id for number, index in shown.items()} == {number: index.id for number, index in indexes.items()}
            for number, index in shown.items():
                if index.state == "ready":
                    assert list(all_index_rows(view, uri, number)) == self.index_rows(uri, number, copies=True)
        expiring = [(row.expires, uri, item) for uri, rows in self.rows.items() for item, row in rows.items() if row.expires]
        assert view.expiring(1 << 60, 1000) == [(uri, item) for _, uri, item in sorted(expiring)]

    def _head(self, uri: str) -> DocumentHead:
        return self.heads.get(uri) or DocumentHead(uri=uri, revision=0, deleted=True)

    def _keys(self, uri: str, item: str, body: bytes) -> list[tuple[int, bytes]]:
        values = json.decoder(dict)(body)
        pairs = [(number, index_keys(index).key(item, values)) for number, index in self.indexes.get(uri, {}).items()]
        return [(number, key) for number, key in pairs if key is not None]

    def _append(self, record: ChangeRecord) -> AppendedRecord:
        appended = AppendedRecord(self.end, BEGAN + self.end * 10, record)
        self.records.append(appended)
        self.end += 1
        return appended
