"""The door to the indexes of a collection."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.client.backend import Backend
from headwater.core.errors import BadInput
from headwater.documents import index_operations as ask
from headwater.documents import index_requests as requests
from headwater.documents.answers import HyperStorageIndex, HyperStorageIndexCreated
from headwater.documents.index_requests import HyperStorageIndexNew, HyperStorageIndexSortItem


class CollectionIndexes:
    """The indexes of a collection: `await shop.indexes.create("by-price", sort="price:decimal")`. Errors: `BadPath`, `Unavailable`."""

    def __init__(self, backend: Backend, path: str) -> None:
        self._backend, self._path = backend, path

    async def create(
        self,
        index: str | None = None,
        *,
        sort: str | Sequence[HyperStorageIndexSortItem] = "",
        filter: str | None = None,
        materialize: bool = False,
        dry_run: bool = False,
    ) -> HyperStorageIndexCreated:
        """Make an index, which is built in the background. `sort`: fields with commas between, a - before those that fall, and :decimal
        behind those that hold numbers, such as "-price:decimal,name"; none: by id; or the fields themselves. `filter`: of its
        items.

        Errors: `AlreadyExists`, `BadFilter`.
        """
        new = HyperStorageIndexNew(index_id=index, sort_by=sort_items(sort), filter_by=filter, materialize=materialize)
        return await self._backend.ask(ask.INDEX_POST, requests.HyperStorageIndexPost(path=self._path, new=new, dry_run=dry_run))

    async def put(
        self,
        index: str,
        *,
        sort: str | Sequence[HyperStorageIndexSortItem] = "",
        filter: str | None = None,
        materialize: bool = False,
        dry_run: bool = False,
    ) -> HyperStorageIndexCreated:
        """As `create`; an index of this id that is there and the same stays as it is. Errors: `AlreadyExists` where it is another one."""
        new = HyperStorageIndexNew(sort_by=sort_items(sort), filter_by=filter, materialize=materialize)
        return await self._backend.ask(ask.INDEX_PUT, requests.HyperStorageIndexPut(path=self._path, index=index, new=new, dry_run=dry_run))

    async def list(self) -> Sequence[HyperStorageIndex]:
        """Every index of the collection, and how far it is built."""
        return await self._backend.ask(ask.INDEX_LIST, requests.CollectionRequest(path=self._path))

    async def status(self, index: str) -> HyperStorageIndex:
        """An index, and how far it is built. Errors: `UnknownIndex`."""
        return await self._backend.ask(ask.INDEX_GET, requests.IndexRequest(path=self._path, index=index))

    async def drop(self, index: str, *, dry_run: bool = False) -> None:
        """Drop an index. Errors: `UnknownIndex`."""
        await self._backend.ask(ask.INDEX_DELETE, requests.HyperStorageIndexDelete(path=self._path, index=index, dry_run=dry_run))


def sort_items(sort: str | Sequence[HyperStorageIndexSortItem]) -> tuple[HyperStorageIndexSortItem, ...]:
    """The fields of an order that is written such as "-price:decimal,name". Errors: `BadInput`."""
    if not isinstance(sort, str):
        return tuple(sort)
    items = []
    for written in filter(None, (part.strip() for part in sort.split(","))):
        name, _, kind = written.lstrip("+-").partition(":")
        if kind not in ("", "text", "decimal") or not name:
            raise BadInput(f"{written!r:.60} is no field of an order.", hint='Write it such as "-price:decimal".')
        items.append(
            HyperStorageIndexSortItem(
                field_name=name, order="desc" if written.startswith("-") else "asc", field_type="decimal" if kind == "decimal" else "text"
            )
        )
    return tuple(items)
