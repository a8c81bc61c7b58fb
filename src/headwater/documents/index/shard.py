"""A shard of a collection: the items behind one id up to another, whose rows of an index are made apart from those of other shards, in any
process that can read the store.

The rows are made of one view, in which the index is there: so every item of before the index is in it, or has changed since and has its
row already. Where the store is shared, who makes the rows adds them. Elsewhere they travel to the owner of the partition, its one writer.
The owner alone says up to which id the index has its rows, in the order of the shards, and of the fold to which they were added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from headwater.core.document_errors import UnknownIndex
from headwater.core.errors import Conflict
from headwater.documents.change import IndexDefinition
from headwater.documents.index.keys import index_keys
from headwater.documents.store import DocumentRow, DocumentStore, DocumentView, IndexRow
from headwater.wire import json

SHARD: Final = 25_000
"""Items of a shard."""
_PAGE: Final = 1000  # items that are read at once, and rows that are added at once
_MOST: Final = 32 << 20  # bytes of rows that travel: an index of many fields must not fill the memory of those that they pass
_decode = json.decoder(dict[str, Any])


class IndexShard(msgspec.Struct, frozen=True):
    """Items with `after` < id <= `upto`; to the end of the collection, where it is None."""

    uri: str
    number: int
    after: str = ""
    upto: str | None = None


class ShardRows(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a shard. `last`: up to which id; of a shard whose rows are too long, it lies before the shard's end (`cut`).

    `done`: nothing lies behind. `rows` are empty where they were added at once, to the fold `fold`; `count`: how many there are.
    """

    after: str
    last: str
    done: bool = False
    cut: bool = False
    count: int = 0
    unlike: int = 0
    fold: str = ""
    rows: list[IndexRow] = []


class BuiltSlice(NamedTuple):
    """What a slice did. `last`: the last id that it has looked at. `done`: nothing is left."""

    last: str
    rows: int
    unlike: int
    done: bool


class ShardRun(Protocol):
    """Shards of one index that are worked off elsewhere, in the order of the ids."""

    async def ready(self) -> bool:
        """Whether it can begin, or has begun. Until then the caller does a share itself, and asks again."""
        ...

    async def next(self, after: str) -> ShardRows | None:
        """The next shard's rows; the first one's items lie behind an id. None: it has ended, and the caller goes on by itself."""
        ...

    async def aclose(self) -> None:
        """End it. Ending twice is no error."""
        ...


class ShardSource(Protocol):
    """Begins runs."""

    async def begin(self, store: DocumentStore, uri: str, number: int, after: str) -> ShardRun | None:
        """A run over the items behind an id; None where these are few, or nobody can take them now. Errors: those of the store."""
        ...


def building_index(view: DocumentView, uri: str, number: int) -> IndexDefinition | None:
    """An index that is being built; None where it is ready, has failed or is being deleted. Errors: `UnknownIndex`."""
    definition = next((index for index in view.indexes(uri) if index.number == number), None)
    if definition is None:
        raise UnknownIndex(f"The store has no index {number} of {uri}.")
    return definition if definition.state == "building" else None


def rows_of_items(definition: IndexDefinition, items: Sequence[DocumentRow]) -> tuple[list[IndexRow], int]:
    """The rows of items, and how many of them hold a value of another type than the index says."""
    keys, rows, unlike = index_keys(definition), list[IndexRow](), 0
    for item in items:
        try:
            body = _decode(item.body)
        except json.UNREADABLE:
            continue
        key = keys.key(item.item, body)
        if key is not None:
            rows.append(IndexRow(key, item.item))
            unlike += keys.unlike(body)
    return rows, unlike


def cut_shards(store: DocumentStore, uri: str, number: int, *, after: str, limit: int, each: int = SHARD) -> list[IndexShard]:
    """The next shards behind an id, at most so many. The last one is open where the collection ends before. Errors: those of the store."""
    with store.view() as view:
        cuts: list[str | None] = list(view.cuts(uri, after=after, every=each, limit=limit))
    if len(cuts) < limit:
        cuts.append(None)
    shards: list[IndexShard] = []
    for upto in cuts:
        shards.append(IndexShard(uri, number, after, upto))
        after = upto or after
    return shards


def index_shard(store: DocumentStore, shard: IndexShard, *, most: int = _MOST) -> ShardRows:
    """Make the rows of a shard; where the store is shared, add them. Blocking, in any process. Doing it twice changes nothing.

    Errors: `UnknownIndex`, `Conflict` where the index is no longer being built, or the store was folded anew; those of the store.
    """
    rows, count, unlike, length = list[IndexRow](), 0, 0, 0
    last, high = shard.after, None if shard.upto is None else f"{shard.upto}\0"
    with store.view() as view:
        definition, fold = building_index(view, shard.uri, shard.number), view.fold()
        if definition is None:
            raise Conflict(f"Index {shard.number} of {shard.uri} is no longer being built.", hint="See it: `headwater doc index list`.")
        while True:
            items = view.rows(shard.uri, low=f"{last}\0" if last else "", high=high, limit=_PAGE)
            new_rows, other = rows_of_items(definition, items)
            count, unlike = count + len(new_rows), unlike + other
            if store.shared:
                store.add_index_rows(shard.uri, shard.number, new_rows, fold=fold)
            else:
                rows += new_rows
                length += sum(len(row.key) + len(row.item) for row in new_rows)
            last = items[-1].item if items else last
            if len(items) < _PAGE:
                break
            if length > most:
                return ShardRows(after=shard.after, last=last, cut=True, count=count, unlike=unlike, fold=fold, rows=rows)
    done = shard.upto is None
    return ShardRows(after=shard.after, last=shard.upto or last, done=done, count=count, unlike=unlike, fold=fold, rows=rows)


def add_shard(store: DocumentStore, uri: str, number: int, shard: ShardRows) -> BuiltSlice | None:
    """Add the rows of a shard, or say that they are there. None: the index is no longer being built. For the owner. Blocking.

    Errors: `UnknownIndex`; `Conflict` where the store was folded anew; those of the store. Doing it twice changes nothing.
    """
    with store.view() as view:
        if building_index(view, uri, number) is None:
            return None
    after = shard.after
    for begin in range(0, max(1, len(shard.rows)), _PAGE):
        rows, end = shard.rows[begin : begin + _PAGE], begin + _PAGE >= len(shard.rows)
        last = shard.last if end else rows[-1].item
        store.add_index_rows(uri, number, rows, after=after, last=last, complete=shard.done and end, fold=shard.fold)
        after = last
    return BuiltSlice(shard.last, shard.count, shard.unlike, shard.done)
