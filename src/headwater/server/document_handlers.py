"""Handlers of the operations on documents that are hot, that stream, or that have bodies and headers of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from headwater.client.documents_performer import DocumentsPerformer
from headwater.core.document_errors import BadPath
from headwater.core.errors import BadInput, BadMethod, BadType, Forbidden
from headwater.documents.answers import CONTENT, HyperStorageTransaction, StoredContent, TransactionListing, show_written
from headwater.documents.bodies import patch_kind, read_batch, read_new
from headwater.documents.etag import etag
from headwater.documents.follow_operations import FEED_LINES, TRANSACTION, TRANSACTIONS_LIST
from headwater.documents.follow_requests import PollContent
from headwater.documents.index_operations import INDEX_POST, INDEX_PUT, VIEW_PUT
from headwater.documents.index_requests import HyperStorageIndexNew, HyperStorageIndexPost, HyperStorageIndexPut, PutView, ViewNew
from headwater.documents.operations import (
    BATCH,
    CONTENT_DELETE,
    CONTENT_GET,
    CONTENT_PATCH,
    CONTENT_POST,
    CONTENT_PUT,
    DOCUMENTS,
)
from headwater.documents.path import parse_path
from headwater.documents.requests import ContentRequest, ContentWithBody, WriteBatch
from headwater.documents.schema_operations import SCHEMA_PUT
from headwater.documents.schema_requests import PutSchema
from headwater.documents.template_operations import TEMPLATE_PUT
from headwater.documents.template_requests import PutTemplate, TemplateNew
from headwater.documents.write import Draft, Verb, WrittenDocument
from headwater.server.call import ALLOW, Call, ClientGone
from headwater.server.hot import HotAnswer, HotCall, HotReply
from headwater.server.stream import EventStream
from headwater.wire import json
from headwater.wire.operation import Operation, Reply

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.server.handlers import Handlers

_LARGE = 1 << 20  # bytes: parsing a larger body would delay other requests, so a thread does it
_JSON = (b"application/json", b"")


class DocumentHandlers:
    """One method for each operation of the same name."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._performer: DocumentsPerformer = handlers.backend.performer(DOCUMENTS.name)

    # -- content ----------------------------------------------------------------------------------------------

    async def content_get(self, call: Call) -> ASGIApp:
        answer = await self._performed(CONTENT_GET, call, await call.request())
        assert isinstance(answer, Reply)
        content: StoredContent = answer.value
        if answer.status == 304:
            return Response(status_code=304, headers=dict(answer.headers))
        return Response(bytes(content.body), answer.status or 200, dict(answer.headers), "application/json")

    def content_get_hot(self, call: HotCall) -> HotReply | None:
        """`content_get` on the hot path, for a document or item that can be read at once."""
        if call.query:
            return None
        try:
            path = parse_path(call.variables["path"])
        except BadPath:
            return None
        content = None if path.is_collection else self._performer.read_here(path)
        if content is None:
            return None
        return HotReply(content.body, b"hyperbus-revision: %d\r\netag: %b\r\n" % (content.head_revision, etag(content.revision).encode()))

    async def content_put(self, call: Call) -> ASGIApp:
        return await self._write(CONTENT_PUT, call)

    async def content_post(self, call: Call) -> ASGIApp:
        return await self._write(CONTENT_POST, call)

    async def content_patch(self, call: Call) -> ASGIApp:
        return await self._write(CONTENT_PATCH, call, patch=patch_kind(call.header(b"content-type")))

    async def content_delete(self, call: Call) -> ASGIApp:
        return self._handlers.answered(CONTENT_DELETE, call, await self._performed(CONTENT_DELETE, call, await call.request()))

    async def _write(self, operation: Operation[Any, Any], call: Call, **more: Any) -> ASGIApp:
        request: ContentWithBody = await call.request()
        _one_document(call)
        full_request = msgspec.structs.replace(request, body=await call.body(), **more)
        return self._handlers.answered(operation, call, await self._performed(operation, call, full_request))

    async def _performed(self, operation: Operation[Any, Any], call: Call, request: ContentRequest) -> Any:
        try:
            return await self._handlers.backend.perform(operation, request, who=call.who)
        except BadMethod:
            call.scope[ALLOW] = _allowed(request)
            raise

    def content_put_hot(self, call: HotCall) -> HotAnswer | None:
        """`content_put` on the hot path."""
        return self._write_hot(call, "put")

    def content_patch_hot(self, call: HotCall) -> HotAnswer | None:
        """`content_patch` on the hot path, of merge patches."""
        return self._write_hot(call, "patch")

    def content_post_hot(self, call: HotCall) -> HotAnswer | None:
        """`content_post` on the hot path."""
        return self._write_hot(call, "post")

    def _write_hot(self, call: HotCall, verb: Verb) -> HotAnswer | None:
        if call.query or call.content_type not in _JSON:
            return None
        try:
            path = parse_path(call.variables["path"])
        except BadPath:
            return None
        if path.is_collection != (verb == "post"):  # which the application refuses
            return None
        begun = self._performer.begin(Draft(path=path, verb=verb, body=call.body))
        return None if begun is None else HotAnswer(begun, _written)

    async def batch(self, call: Call) -> ASGIApp:
        request: WriteBatch = await call.request()
        if call.body_kind() != "lines":
            raise BadType("A batch is lines.", hint="Add the header Content-Type: application/x-ndjson")
        body = await call.body()
        lines = await asyncio.to_thread(read_batch, body) if len(body) > _LARGE else read_batch(body)
        if call.caller.rules is not None:
            for line in lines:
                call.caller.rules.check("write", line.path)
        full_request = msgspec.structs.replace(request, lines=lines)
        return self._handlers.answered(BATCH, call, await self._handlers.backend.perform(BATCH, full_request, who=call.who))

    # -- indexes, templates, views and schemas ------------------------------------------------------------------------------------

    async def index_post(self, call: Call) -> ASGIApp:
        request: HyperStorageIndexPost = await call.request()
        _one_document(call)
        full_request = msgspec.structs.replace(request, new=read_new(await call.body(), HyperStorageIndexNew))
        return self._handlers.answered(INDEX_POST, call, await self._handlers.backend.perform(INDEX_POST, full_request, who=call.who))

    async def index_put(self, call: Call) -> ASGIApp:
        request: HyperStorageIndexPut = await call.request()
        _one_document(call)
        full_request = msgspec.structs.replace(request, new=read_new(await call.body(), HyperStorageIndexNew))
        return self._handlers.answered(INDEX_PUT, call, await self._handlers.backend.perform(INDEX_PUT, full_request, who=call.who))

    async def view_put(self, call: Call) -> ASGIApp:
        request: PutView = await call.request()
        _one_document(call)
        new = read_new(await call.body(), ViewNew)
        if not call.caller.reaches(f"{CONTENT}/{new.template_uri}".encode()):  # else a view would show what its maker may not read
            raise Forbidden(
                f"The token may not read {new.template_uri!r:.80}, which the view would show.",
                hint="Ask whoever runs the server for a token with its prefix.",
            )
        full_request = msgspec.structs.replace(request, new=new)
        return self._handlers.answered(VIEW_PUT, call, await self._handlers.backend.perform(VIEW_PUT, full_request, who=call.who))

    async def template_put(self, call: Call) -> ASGIApp:
        request: PutTemplate = await call.request()
        _one_document(call)
        full_request = msgspec.structs.replace(request, new=read_new(await call.body(), TemplateNew))
        return self._handlers.answered(TEMPLATE_PUT, call, await self._handlers.backend.perform(TEMPLATE_PUT, full_request, who=call.who))

    async def schema_put(self, call: Call) -> ASGIApp:
        request: PutSchema = await call.request()
        _one_document(call)
        full_request = msgspec.structs.replace(request, body=await call.body())
        return self._handlers.answered(SCHEMA_PUT, call, await self._handlers.backend.perform(SCHEMA_PUT, full_request, who=call.who))

    # -- changes ----------------------------------------------------------------------------------------------

    async def transactions(self, call: Call) -> ASGIApp:
        """Those of a collection may be of items that the token may not read."""
        listing = await self._handlers.backend.perform(TRANSACTIONS_LIST, await call.request(), who=call.who)
        assert isinstance(listing, TransactionListing)
        rules = call.caller.rules
        if rules is not None:
            listing = TransactionListing([transaction for transaction in listing.items if rules.allow("read", transaction.path)])
        return self._handlers.answered(TRANSACTIONS_LIST, call, listing)

    async def transaction(self, call: Call) -> ASGIApp:
        transaction = await self._handlers.backend.perform(TRANSACTION, await call.request(), who=call.who)
        assert isinstance(transaction, HyperStorageTransaction)
        if call.caller.rules is not None and not call.caller.rules.allow("read", transaction.path):
            raise Forbidden(
                "The token may not read what this transaction has written.",
                hint="Ask whoever runs the server for a token with read= and its path.",
            )
        return self._handlers.answered(TRANSACTION, call, transaction)

    async def feed(self, call: Call) -> ASGIApp:
        request: PollContent = await call.request()
        request.check()
        handlers = self._handlers
        chunks = await self._performer.follow.frames(request)  # an error of the request is an answer, not a stream
        return EventStream(chunks, streams=handlers.streams, stop=handlers.stop, ids=handlers.ids)

    async def feed_lines(self, call: Call) -> ASGIApp:
        request: PollContent = await call.request()
        request.check()
        finding = asyncio.ensure_future(self._handlers.backend.perform(FEED_LINES, request, who=call.who))
        waits = [finding] if not request.waits() else [finding, *map(asyncio.ensure_future, (_gone(call), self._handlers.stop.wait()))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not finding.done() and not self._handlers.stop.is_set():
                raise ClientGone
            return self._handlers.answered(FEED_LINES, call, finding.result() if finding.done() else b"")
        finally:
            for wait in waits:
                wait.cancel()


async def _gone(call: Call) -> None:
    await call.body()
    await call.gone()


def _one_document(call: Call) -> None:
    """Errors: `BadType` for what is not one JSON value, with the header to add."""
    if call.body_kind() != "json":
        raise BadType("A document is one JSON value, and these are lines.", hint="Add the header Content-Type: application/json")


def _allowed(request: ContentRequest) -> str:
    """The methods of what a path names."""
    try:
        collection = request.resource.is_collection
    except BadInput:
        collection = False
    return "DELETE, GET, HEAD, OPTIONS, POST" if collection else "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"


def _written(written: WrittenDocument) -> HotReply:
    reply = show_written(written)
    headers = "".join(f"{name.lower()}: {value}\r\n" for name, value in reply.headers.items())
    return HotReply(json.encode(reply.value), headers.encode("ascii"), reply.status)
