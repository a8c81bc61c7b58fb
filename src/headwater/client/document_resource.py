"""The door to one path: a document, a collection with its items, or an item."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.client.backend import Backend
from headwater.client.collection_indexes import CollectionIndexes
from headwater.client.collection_schema import CollectionSchema
from headwater.client.document_value import (
    ANY_BODY,
    MISSING,
    SNAPSHOT,
    B,
    BatchWrite,
    ChangesSince,
    Document,
    DocumentChange,
    batch_line,
    begins_anew,
    change_of,
    decoded,
)
from headwater.core.errors import BadInput
from headwater.documents import follow_operations as follow_ask
from headwater.documents import follow_requests as follow
from headwater.documents import operations as ask
from headwater.documents import requests
from headwater.documents.answers import HyperStorageTransactionCreated, StoredContent
from headwater.documents.path import parse_path
from headwater.documents.requests import HyperStorageContentGet
from headwater.documents.write import PatchKind
from headwater.wire import json

if TYPE_CHECKING:
    from headwater.core.units import Duration

_FALLING = re.compile(r"(.+?)\s*:\s*(asc|desc)\s*", re.IGNORECASE)
_PAGE = 1000


class _Page(msgspec.Struct):
    embedded: _Embedded = msgspec.field(name="_embedded")
    count: int | None = None
    explain: Any = None


class _Embedded(msgspec.Struct):
    els: list[msgspec.Raw]


class Resource:
    """A document, a collection or an item: `shop = hw.documents["shop/catalogue~"]`, then `await shop.put("hat", {"price": 12})`.

    Calls of a collection name the item first; calls of a document or an item name none. Errors of every call: `BadPath`, `BadInput`,
    `DocumentNotFound`, `Unavailable`; over HTTP also `Unreachable`.
    """

    def __init__(self, backend: Backend, path: str) -> None:
        self._backend, self.path = backend, path

    @property
    def indexes(self) -> CollectionIndexes:
        """The indexes of a collection."""
        return CollectionIndexes(self._backend, self.path)

    @property
    def schema(self) -> CollectionSchema:
        """What the items of a collection must look like."""
        return CollectionSchema(self._backend, self.path)

    def __getitem__(self, item: str) -> Resource:
        """An item of a collection, by its id. Does no I/O. Errors: `BadPath`, `BadInput`."""
        return Resource(self._backend, self._at(item))

    # -- reading ----------------------------------------------------------------------------------------------

    async def get(
        self, item: str | None = None, *, type: type[B] = ANY_BODY, revision: int | None = None, at: int | None = None
    ) -> Document[B]:
        """A document or an item; of a collection without an item, its first page as HAL. `type`: what its body is decoded into, such as a
        `msgspec.Struct`. `revision`, `at` (ms): as it was then. Errors: `DocumentNotFound`; `OffsetGone` for history that is not kept."""
        path = self._at(item)
        content = await self._read(HyperStorageContentGet(path=path, revision=revision, at=at))
        return Document(path=path, body=decoded(bytes(content.body), type, path), revision=content.revision, etag=content.etag)

    async def query(
        self,
        filter: str | None = None,
        *,
        sort: str | None = None,
        size: int | None = None,
        skip_max: int | None = None,
        type: type[B] = ANY_BODY,
    ) -> AsyncIterator[B]:
        """The items of a collection that fulfil a filter, in an order such as "price:desc,name" or "-price,name", page by page.

        `size`: the most items; None: all. Errors: `BadFilter`; `QueryLimited` with the index that would help.
        """
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            raise BadInput(f"size={size!r:.40} is no number of items.", hint="Give 1 or more, or nothing for all.")
        left, cursor = size, None
        while True:
            page = min(left, requests.MOST_ITEMS) if left is not None else None
            request = HyperStorageContentGet(
                path=self._collection(), size=page, filter=filter, sort=_signed(sort), skip_max=skip_max, cursor=cursor
            )
            content = await self._read(request)
            items = _page(content).embedded.els
            for body in items[:left]:
                yield decoded(bytes(body), type, self.path)
            left, cursor = None if left is None else left - len(items), content.next
            if cursor is None or (left is not None and left <= 0):
                return

    async def count(self, filter: str | None = None) -> int:
        """How many items fulfil a filter. Errors: as of `query`."""
        page = _page(await self._read(HyperStorageContentGet(path=self._collection(), filter=filter, size=1, count="1")))
        assert page.count is not None
        return page.count

    async def explain(self, filter: str | None = None, *, sort: str | None = None, size: int | None = None) -> Any:
        """How a query is done: the index that it uses and why, how many items it reads, and what is left of its budget."""
        request = HyperStorageContentGet(path=self._collection(), filter=filter, sort=_signed(sort), size=size, explain="1")
        return _page(await self._read(request)).explain

    async def feed(
        self, after: int | str | None = None, *, snapshot: bool = False, filter: str | None = None
    ) -> AsyncIterator[DocumentChange]:
        """The changes of the document, the collection or the item, those behind a revision and then those that come, for ever.

        `after`: the revision, or the `position` of the last change that was seen; None: only what comes. `snapshot`: its state first.
        `filter`: a live query, of items that enter, change and leave. Without gaps; where history does not reach back, `reset` and a
        snapshot come.
        """
        async for change in followed(self._backend, feed_request(self.path, after, snapshot=snapshot, filter=filter)):
            yield change

    async def since(self, revision: int, item: str | None = None) -> ChangesSince:
        """What has changed after a revision: the states of items now, and which were deleted. For a client that was away; it asks again
        from the answer's `revision` on. Where history does not reach back so far, `reset` is true: read everything."""
        path = self._at(item)
        return decoded(bytes((await self._read(HyperStorageContentGet(path=path, since=revision))).body), ChangesSince, path)

    async def history(self, item: str | None = None, *, after: int | None = None, reverse: bool = False) -> AsyncIterator[DocumentChange]:
        """The changes that the log keeps, by revision. `after`: those behind a revision; with `reverse` those before it, newest first."""
        path = self._at(item)
        while True:
            request = follow.ReadHistory(path=path, after=after, limit=_PAGE, reverse=reverse)
            page = await self._backend.ask(follow_ask.HISTORY, request)
            for shown in page.items:
                yield change_of(shown)
            if page.next is None:
                return
            after = int(page.next)

    # -- writing ----------------------------------------------------------------------------------------------

    async def put(
        self,
        item: Any,
        body: Any = MISSING,
        *,
        if_match: str | int | None = None,
        if_none_match: str | int | None = None,
        ttl: str | Duration | None = None,
        idempotency_key: str | None = None,
    ) -> HyperStorageTransactionCreated:
        """Create or replace: `put(id, body)` an item of a collection, `put(body)` the document. Returns its revision, and whether it is
        new. `if_match`: an etag or a revision that it must have; `if_none_match="*"`: it must not be there. `ttl`: how long it lives.
        Errors: `NotMatched`, `UnfitBody`."""
        path, sent = self._named(item, body)
        request = requests.HyperStorageContentPut(
            path=path, body=json.encode_given(sent, "body"), ttl=_lived(ttl), **_conditions(if_match, if_none_match, idempotency_key)
        )
        return await self._backend.ask(ask.CONTENT_PUT, request)

    async def patch(
        self,
        item: Any,
        body: Any = MISSING,
        *,
        kind: PatchKind = "merge",
        if_match: str | int | None = None,
        ttl: str | Duration | None = None,
        idempotency_key: str | None = None,
    ) -> HyperStorageTransactionCreated:
        """Change fields: `patch(id, body)` of an item, `patch(body)` of the document. `kind`: merge, null removes a field (RFC 7386);
        operations, a list of them (RFC 6902); increment, numbers that are added. Errors: `DocumentNotFound`, `NotMatched`, `UnfitBody`."""
        path, sent = self._named(item, body)
        request = requests.HyperStorageContentPatch(
            path=path, body=json.encode_given(sent, "body"), patch=kind, ttl=_lived(ttl), **_conditions(if_match, None, idempotency_key)
        )
        return await self._backend.ask(ask.CONTENT_PATCH, request)

    async def post(
        self, body: Any, *, ttl: str | Duration | None = None, idempotency_key: str | None = None
    ) -> HyperStorageTransactionCreated:
        """Add an item to the collection, under an id that is greater than every one before it; `path` of the answer names it."""
        request = requests.HyperStorageContentPost(
            path=self.path, body=json.encode_given(body, "body"), ttl=_lived(ttl), **_conditions(None, None, idempotency_key)
        )
        return await self._backend.ask(ask.CONTENT_POST, request)

    async def delete(
        self, item: str | None = None, *, if_match: str | int | None = None, idempotency_key: str | None = None
    ) -> HyperStorageTransactionCreated:
        """Delete an item, the document, or without an item the whole collection. Errors: `DocumentNotFound`, `NotMatched`."""
        request = requests.HyperStorageContentDelete(path=self._at(item), **_conditions(if_match, None, idempotency_key))
        return await self._backend.ask(ask.CONTENT_DELETE, request)

    async def restore(
        self, item: str | int, revision: int | None = None, *, if_match: str | int | None = None, dry_run: bool = False
    ) -> HyperStorageTransactionCreated:
        """Give it the state again that it had: `restore(id, revision)` an item, `restore(revision)` the document. Errors: `OffsetGone`."""
        named, wanted = (None, item) if revision is None else (str(item), revision)
        if not isinstance(wanted, int):
            raise BadInput(f"{wanted!r:.40} is no revision.", hint="Give the number of a revision, such as 3.")
        request = follow.RestoreContent(path=self._at(named), revision=wanted, if_match=_tag(if_match), dry_run=dry_run)
        return await self._backend.ask(follow_ask.RESTORE, request)

    async def batch(self, writes: Sequence[BatchWrite], *, idempotency_key: str | None = None) -> Sequence[HyperStorageTransactionCreated]:
        """Several writes to the collection or the document that count together or not at all: method, path and body of each, such as
        ("put", "shop/catalogue~/hat", {"price": 12}). Errors: those of the first write that cannot be done."""
        request = requests.WriteBatch(atomic=True, lines=tuple(map(batch_line, writes)), idempotency=idempotency_key)
        answered = await self._backend.ask(ask.BATCH, request)
        return [decoded(line, HyperStorageTransactionCreated, self.path) for line in answered.splitlines()]

    # -- paths ------------------------------------------------------------------------------------------------

    async def _read(self, request: HyperStorageContentGet) -> StoredContent:
        return await self._backend.ask(ask.CONTENT_GET, request)

    def _at(self, item: str | None) -> str:
        if item is None:
            return self.path
        if not isinstance(item, str):
            raise BadInput(f"{item!r:.60} is no id of an item.", hint='Write it such as get("hat").')
        path = parse_path(f"{self._collection()}/{item}")
        if path.item != item:
            raise BadInput(f"{item!r:.60} is no id of an item.", hint="An id has no slash.")
        return path.text

    def _collection(self) -> str:
        if not parse_path(self.path).is_collection:
            raise BadInput(f"{self.path} is no collection.", hint="The path of a collection ends with ~.")
        return self.path

    def _named(self, item: Any, body: Any) -> tuple[str, Any]:
        return (self.path, item) if body is MISSING else (self._at(item), body)


def feed_request(path: str, after: int | str | None, *, snapshot: bool, filter: str | None = None) -> follow.PollContent:
    """A feed behind a position, or one that begins with a snapshot."""
    anew = snapshot or after == SNAPSHOT
    return follow.PollContent(
        path=path, after=None if after is None or after == SNAPSHOT else str(after), snapshot="1" if anew else None, filter=filter
    )


async def followed(backend: Backend, request: follow.PollContent) -> AsyncIterator[DocumentChange]:
    """The changes that a feed gives."""

    def behind(shown: Any) -> follow.PollContent:
        if begins_anew(shown):  # a snapshot that was cut off begins anew, wherever the feed began
            return msgspec.structs.replace(request, after=None, snapshot="1")
        return msgspec.structs.replace(request, after=shown.position or str(shown.revision), snapshot=None)

    async for shown in backend.stream(follow_ask.FEED, request, behind):
        yield change_of(shown)


def _page(content: StoredContent) -> _Page:
    return msgspec.json.decode(bytes(content.body), type=_Page)


def _signed(sort: str | None) -> str | None:
    """An order as HTTP writes it: "price:desc" is "-price"."""
    if sort is None:
        return None
    fields = []
    for field in sort.split(","):
        match = _FALLING.fullmatch(field.strip())
        fields.append(field if match is None else f"{'-' if match[2].lower() == 'desc' else ''}{match[1].lstrip('+')}")
    return ",".join(fields)


def _conditions(if_match: str | int | None, if_none_match: str | int | None, key: str | None) -> dict[str, str | None]:
    return {"if_match": _tag(if_match), "if_none_match": _tag(if_none_match), "idempotency": key}


def _tag(tag: str | int | None) -> str | None:
    return f'"{tag}"' if isinstance(tag, int) else tag


def _lived(ttl: str | Duration | None) -> str | None:
    return None if ttl is None else str(ttl)
