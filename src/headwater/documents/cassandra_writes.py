"""What records change, as writes to Cassandra: rows first, then heads, then the applied offset, each at the time of its record.

The steps of `DocumentStore.apply`; each waits for the one before.
  1. The uris of new documents, so that whoever removes the fold finds all rows.
  2. Rows, rows of indexes, places of changes, lives that ended. Rows of an index that is ready are filled up.
  3. Definitions of indexes.
  4. Heads. Each carries the offset of the last record that it counts.
  5. The applied offset.
A process that dies at any step leaves rows ahead of the applied offset. The next one folds the records again: those that a head counts are
passed over, the others write the same rows at the same times. Writes of an owner that was paused, and comes late, have older times than
what was written since, and do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from headwater.documents.cassandra_view import BUCKETS, DocumentTables, bucket
from headwater.documents.fold import DocumentFold, keys_of_item
from headwater.documents.store import IndexRow


def write_documents(tables: DocumentTables, documents: Sequence[DocumentFold], base: int) -> None:
    """Steps 1 to 4. `base`: microseconds."""
    write = tables.requests.write
    new_documents = [document for document in documents if document.stored is None]
    write(tables.about("put_uri", bucket(document.uri), document.uri, _last(document, base)) for document in new_documents)  # 1.
    write(request for document in documents for request in _row_writes(tables, document, base))  # 2.
    for document in documents:
        for number in document.to_fill:
            _fill(tables, document, number, base)
    write(request for document in documents for request in _index_writes(tables, document, base))  # 3.
    write(_head_write(tables, document, base) for document in documents)  # 4.


def remove_fold(tables: DocumentTables, time: int) -> None:
    """Remove all rows of a fold that does not count. `time`: later than they were written."""
    write = tables.requests.write
    for number in range(BUCKETS):
        for page in tables.pages("uris", number):
            uris = [uri for (uri,) in page]
            collections = [uri for uri in uris if uri.endswith("~")]
            indexes = tables.requests.all(tables.about("indexes", uri) for uri in collections)
            write(
                tables.timed("delete_index_rows", time, uri, index)
                for uri, rows in zip(collections, list(indexes), strict=True)
                for index, *_ in rows
            )
            for name in ("delete_content", "delete_indexes", "delete_changes"):
                write(tables.timed(name, time, uri) for uri in uris)
            write(tables.timed("delete_head", time, number, uri) for uri in uris)
    write(tables.timed(name, time) for name in ("delete_expiries", "delete_ended_lives"))


def _row_writes(tables: DocumentTables, document: DocumentFold, base: int) -> Iterator[Any]:
    uri, life, last = document.uri, document.life, _last(document, base)
    for item, row in document.rows.items():
        if row is None:
            yield tables.timed("delete_row", last, uri, life, item)
            continue
        values, time = (uri, life, item, row.revision, row.modified, row.expires, row.body), base + row.offset
        yield tables.about("change_row", *values, time) if row.created is None else tables.about("put_row", *values, row.created, time)
        if row.expires:
            yield tables.about("put_expiry", row.expires, uri, item, time)
    for (number, key), indexed in document.index_rows.items():
        if indexed.item is None:
            yield tables.timed("delete_index_row", base + indexed.offset, uri, number, life, key)
        else:
            index_row = IndexRow(key, indexed.item, indexed.body)
            yield tables.index_row(document.indexes[number].definition, uri, life, index_row, base + indexed.offset)
    for revision, offset, changed in document.places:
        yield tables.about("put_change", uri, revision, offset, changed, base + offset)
    for ended in document.ended:
        yield tables.about("end_life", uri, ended, last)


def _fill(tables: DocumentTables, document: DocumentFold, number: int, base: int) -> None:
    """Add the rows of items that were there before an index came and have not changed since."""
    uri, life, index = document.uri, document.life, document.indexes[number]
    for page in tables.pages("all_items", uri, life):
        tables.requests.write(
            tables.index_row(index.definition, uri, life, IndexRow(key, item, body), base + max(index.offset, 0))
            for item, revision, body in page
            if revision <= index.since
            for _, key in keys_of_item([index.definition], item, body)
        )


def _index_writes(tables: DocumentTables, document: DocumentFold, base: int) -> Iterator[Any]:
    uri, time = document.uri, _last(document, base)
    for number in document.dropped:
        yield tables.timed("delete_index_rows", time, uri, number)
        yield tables.timed("delete_index", time, uri, number)
    for number, index in document.indexes.items():
        if document.stored_indexes.get(number) != index:
            definition = msgspec.json.encode(index.definition).decode()
            yield tables.about("put_index", uri, number, definition, index.since, index.offset, time)
            if index.complete:
                yield tables.timed("complete_index", time, uri, number)


def _head_write(tables: DocumentTables, document: DocumentFold, base: int) -> Any:
    head = document.head
    state = (head.revision, head.generation, head.deleted, head.created, head.modified, head.last_id, head.settings)
    return tables.about("put_head", bucket(head.uri), head.uri, *state, document.life, document.offset, _last(document, base))


def _last(document: DocumentFold, base: int) -> int:
    """The time of the last record of a document."""
    return base + max(document.offset, 0)
