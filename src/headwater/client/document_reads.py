"""Reads of documents in this process: content as it is now, and what there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import BadInput
from headwater.documents import answers, requests
from headwater.documents.answers import StoredContent, next_link
from headwater.documents.decisions import check_condition, is_view, not_found
from headwater.documents.etag import condition_of, etag, matches
from headwater.documents.hal import hal_page
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import ResourcePath, parse_path
from headwater.documents.query import CollectionQuery, QueryPage, run_query
from headwater.documents.query_budget import QueryLimits
from headwater.documents.row_pages import RowPages
from headwater.documents.settings import DocumentSettings
from headwater.documents.store import DocumentHead, DocumentRow
from headwater.documents.write import Precondition
from headwater.wire.operation import Reply
from headwater.wire.times import show_time

_HEADS = 1000
_ROWS = 50  # items of an export that are read at once, unless `_READ` bytes end that before
_READ = 1 << 20
_EXPORTED = 8 << 20  # bytes of bodies after which a page of an export ends


class DocumentReads:
    """Reads of the documents that `opened` gives."""

    def __init__(self, opened: Callable[[], Awaitable[OpenDocuments]], settings: DocumentSettings, clock: Clock) -> None:
        self._opened, self._clock = opened, clock
        self._limits = QueryLimits(
            size=settings.page_size, skip_max=settings.skip_max, max_reads=settings.max_reads, seconds=settings.query_timeout.seconds
        )

    async def content(self, request: requests.HyperStorageContentGet) -> Reply[StoredContent]:
        """A document or an item, or a page of a collection. Errors: `DocumentNotFound`, `NotMatched`; those of queries."""
        documents, path = await self._opened(), request.resource
        if path.is_collection:
            return await self._page(documents, path, request)
        parameter = next((written for field, written in requests.OF_QUERIES.items() if getattr(request, field) is not None), None)
        if parameter is not None:
            raise BadInput(f"`{parameter}` is of collections, and {path.text} is none.", hint="The path of a collection ends with ~.")
        head, row = await documents.read(path)
        if head is None or row is None:
            raise not_found(path)
        return answered(request, path, row.body, tag=row.revision, revision=head.revision)

    async def _page(self, documents: OpenDocuments, path: ResourcePath, request: requests.HyperStorageContentGet) -> Reply[StoredContent]:
        query = CollectionQuery(
            size=request.size,
            filter=request.filter or "",
            sort=request.sort or "",
            skip_max=request.skip_max,
            cursor=request.cursor or "",
            count=request.counted,
        )
        head, page = await asyncio.to_thread(self._queried, documents, path, query)
        parameters = {
            written: str(value) for field, written in requests.OF_QUERIES.items() if (value := getattr(request, field)) is not None
        }
        following = page.cursor or None
        body = hal_page(
            path.uri,
            parameters,
            [row.body for row in page.rows],
            next=following,
            count=page.total,
            explain=page.explanation if request.explained else None,
        )
        reply = answered(request, path, body, tag=head.revision, revision=head.revision, next=following)
        if following is None:
            return reply
        return Reply(reply.value, reply.status, {**reply.headers, "Link": next_link(path.uri, parameters, following)})

    def _queried(self, documents: OpenDocuments, path: ResourcePath, query: CollectionQuery) -> tuple[DocumentHead, QueryPage]:
        """Blocking. Errors: `DocumentNotFound`; those of `run_query`."""
        with documents.view(path.uri) as view:
            head = view.head(path.uri)
            if head is None or head.deleted:
                raise not_found(path)
            return head, run_query(view, path.uri, query, clock=self._clock, limits=self._limits)

    async def listing(self, request: requests.ListContent) -> answers.ContentListing:
        """Documents and collections by path; deleted ones are left out."""
        documents = await self._opened()
        heads = await asyncio.to_thread(lambda: list(islice(_heads(documents, request), request.limit + 1)))
        items = [
            answers.ListedContent(path=head.uri, revision=head.revision, created=show_time(head.created), modified=show_time(head.modified))
            for head in heads[: request.limit]
        ]
        return answers.ContentListing(items, items[-1].path if len(heads) > request.limit else None)

    async def exported(self, request: requests.ExportContent) -> answers.ContentExport:
        """Documents and items with their bodies. Each page of a collection is as it is when its turn comes. Errors: `BadInput` for an
        `after` outside the prefix: a token may read below the prefix alone."""
        if request.after and not parse_path(request.after).uri.startswith(request.prefix):
            raise BadInput(
                f"`after` {request.after:.80} is not below the prefix {request.prefix:.80}.",
                hint="Give as `after` the `next` of an export with the same prefix.",
            )
        documents = await self._opened()
        return await asyncio.to_thread(_export, documents, request)


def answered(
    request: requests.HyperStorageContentGet, path: ResourcePath, body: bytes, *, tag: int, revision: int, next: str | None = None
) -> Reply[StoredContent]:
    """What was found, unless a condition of the request says otherwise: 304, or `NotMatched`."""
    condition = condition_of(request.if_match, request.if_none_match)
    check_condition(Precondition(condition.match), tag, path)
    headers = {"ETag": etag(tag), "Hyperbus-Revision": str(revision)}
    content = StoredContent(body=msgspec.Raw(body), revision=revision, etag=etag(tag), next=next)
    if condition.none_match is not None and matches(condition.none_match, tag):
        return Reply(content, 304, headers)
    return Reply(content, 200, headers)


def _export(documents: OpenDocuments, request: requests.ExportContent) -> answers.ContentExport:
    items: list[answers.ExportedContent] = []
    size = 0
    for path, row in _contents(documents, request):
        if len(items) == request.limit or size >= _EXPORTED:
            return answers.ContentExport(items, items[-1].path)
        expires = show_time(row.expires) if row.expires else None
        items.append(answers.ExportedContent(path=path.text, body=msgspec.Raw(row.body), expires=expires))
        size += len(row.body)
    return answers.ContentExport(items)


def _contents(documents: OpenDocuments, request: requests.ExportContent) -> Iterator[tuple[ResourcePath, DocumentRow]]:
    """Documents and items behind a path, but those of views."""
    after = parse_path(request.after) if request.after else ResourcePath("")
    if after.item and _is_read(documents, after.uri):
        yield from _items(documents, after.uri, after.item)
    for head in _heads(documents, requests.ListContent(prefix=request.prefix, after=after.uri, limit=request.limit)):
        if head.uri.endswith("~"):
            if not is_view(head.settings):
                yield from _items(documents, head.uri, "")
            continue
        with documents.view(head.uri) as view:
            row = view.row(head.uri)
        if row is not None:  # else it was deleted since
            yield ResourcePath(head.uri), row


def _is_read(documents: OpenDocuments, uri: str) -> bool:
    """Whether an export has the items of a collection: it is there, and no view."""
    with documents.view(uri) as view:
        head = view.head(uri)
    return head is not None and not head.deleted and not is_view(head.settings)


def _items(documents: OpenDocuments, uri: str, after: str) -> Iterator[tuple[ResourcePath, DocumentRow]]:
    pages, ended = RowPages(_ROWS, _READ), False
    while not ended:
        with documents.view(uri) as view:
            rows, ended = pages.page(view, uri, after)
        for row in rows:
            yield ResourcePath(uri, row.item), row
            after = row.item


def _heads(documents: OpenDocuments, request: requests.ListContent) -> Iterator[DocumentHead]:
    parts = [_heads_of(documents, number, request) for number in range(documents.partitions)]
    return (head for head in merge(*parts, key=attrgetter("uri")) if not head.deleted)


def _heads_of(documents: OpenDocuments, number: int, request: requests.ListContent) -> Iterator[DocumentHead]:
    after = request.after
    while True:
        with documents.partition_view(number) as view:
            heads = view.heads(prefix=request.prefix, after=after, limit=min(request.limit + 1, _HEADS))
        yield from heads
        if not heads:
            return
        after = heads[-1].uri
