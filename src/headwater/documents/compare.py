"""Finds the first difference between two views of a partition of documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from headwater.documents.digest import all_changes, all_heads, all_index_rows, all_rows
from headwater.documents.store import DocumentHead, DocumentView


class Compared(NamedTuple):
    """What was compared, and the first difference; empty where there is none."""

    documents: int = 0
    rows: int = 0
    index_rows: int = 0
    difference: str = ""


def compare(wanted: DocumentView, actual: DocumentView, *, lacks_copies: bool = False) -> Compared:
    """Compare what the log says with what a store holds: heads, rows, places of changes, definitions, and rows of ready indexes.

    `lacks_copies`: rows of materialized indexes without a copy are no difference.
    """
    documents = rows = index_rows = 0
    for head, stored in _paired(all_heads(wanted), all_heads(actual), "uri"):
        uri = (head or stored).uri
        if head is None or stored is None:
            return Compared(documents, rows, index_rows, _one_sided(_name(uri), stored is None))
        if head != stored:
            return Compared(documents, rows, index_rows, _changed(_name(uri), head, stored))
        documents += 1
        for row, counterpart in _paired(all_rows(wanted, uri), all_rows(actual, uri), "item"):
            item = (row or counterpart).item
            name = f"Item {uri}/{item}" if item else f"Document {uri}"
            if row is None or counterpart is None:
                return Compared(documents, rows, index_rows, _one_sided(name, counterpart is None))
            if row != counterpart:
                return Compared(documents, rows, index_rows, _changed(name, row, counterpart))
            rows += 1
        for place, counterpart in _paired(all_changes(wanted, uri), all_changes(actual, uri), "revision"):
            if place != counterpart:
                name = f"{_name(uri)}, revision {(place or counterpart).revision}"
                if place is None or counterpart is None:
                    return Compared(documents, rows, index_rows, _one_sided(name, counterpart is None))
                says = f"lies at offset {counterpart.offset} of time {counterpart.time}, not at {place.offset} of {place.time}"
                return Compared(documents, rows, index_rows, f"{name}: {says}.")
        count, difference = _compared_indexes(wanted, actual, head, lacks_copies)
        index_rows += count
        if difference:
            return Compared(documents, rows, index_rows, difference)
    return Compared(documents, rows, index_rows)


def _compared_indexes(wanted: DocumentView, actual: DocumentView, head: DocumentHead, lacks_copies: bool) -> tuple[int, str]:
    """How many rows of indexes were compared, and the first difference."""
    uri, count = head.uri, 0
    for index, stored in _paired(iter(wanted.indexes(uri)), iter(actual.indexes(uri)), "number"):
        name = f"Index {(index or stored).id!r} of {uri}"
        if index is None or stored is None:
            return count, _one_sided(name, stored is None)
        if index != stored:
            return count, _changed(name, index, stored)
        if index.state != "ready":
            continue
        for row, stored_row in _paired(all_index_rows(wanted, uri, index.number), all_index_rows(actual, uri, index.number), "key"):
            if row != stored_row and not (lacks_copies and row is not None and stored_row == row._replace(body=b"")):
                item = (row or stored_row).item
                if row is None or stored_row is None:
                    return count, _one_sided(f"{name}, the row of item {item}", stored_row is None)
                if row.item != stored_row.item:
                    return count, f"{name}: the row of item {row.item} names {stored_row.item}."
                return count, f"{name}: the copy of item {item} is {stored_row.body!r:.200}, not {row.body!r:.200}."
            count += 1
    return count, ""


def _paired(wanted: Iterable[Any], actual: Iterable[Any], key: str) -> Iterator[tuple[Any, Any]]:
    """Both in their order, side by side by a key; the first that has no partner stands beside None, and is the last pair."""
    for left, right in zip_longest(wanted, actual):
        if left is None or right is None or getattr(left, key) == getattr(right, key):
            yield left, right
        elif _ordered(getattr(left, key)) < _ordered(getattr(right, key)):
            yield left, None
            return
        else:
            yield None, right
            return


def _ordered(key: Any) -> Any:
    return key.encode() if isinstance(key, str) else key


def _name(uri: str) -> str:
    return f"Collection {uri}" if uri.endswith("~") else f"Document {uri}"


def _one_sided(name: str, missing: bool) -> str:
    return f"{name}: the store lacks it." if missing else f"{name}: the log does not say it."


def _changed(name: str, wanted: msgspec.Struct, actual: msgspec.Struct) -> str:
    fields = [field for field in wanted.__struct_fields__ if getattr(wanted, field) != getattr(actual, field)]
    says = ", ".join(f"{field} is {getattr(actual, field)!r:.200}, not {getattr(wanted, field)!r:.200}" for field in fields)
    return f"{name}: {says}."
