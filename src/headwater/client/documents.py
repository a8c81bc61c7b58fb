"""The door to documents: paths, batches, transactions, and the care of their store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from headwater.client.backend import Backend
from headwater.client.collection_views import CollectionViews
from headwater.client.document_rebuild import rebuilt_everywhere
from headwater.client.document_resource import Resource, feed_request, followed
from headwater.client.document_status import status_everywhere
from headwater.client.document_value import BatchWrite, DocumentChange, batch_line, decoded
from headwater.client.index_templates import IndexTemplates
from headwater.core.errors import BadInput, HeadwaterError, Timeout
from headwater.documents import follow_operations as follow_ask
from headwater.documents import follow_requests as follow
from headwater.documents import operations as ask
from headwater.documents import requests
from headwater.documents.answers import (
    ExportedContent,
    HyperStorageTransaction,
    HyperStorageTransactionCreated,
    ListedContent,
    TransactionState,
)
from headwater.documents.care_answers import DocumentsStatus, DocumentTrail, RebuiltDocuments, VerifiedDocuments
from headwater.documents.path import parse_path
from headwater.wire.problems import error_of, problem_in

_PAGE = 1000
_LINES = 500  # writes of one request of a batch


class Documents:
    """Every document and collection: `doc = await hw.documents["shop/settings"].get()`.

    Errors of every call: `BadPath`, `BadInput`, `Unavailable`; over HTTP also `Unreachable`.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def views(self) -> CollectionViews:
        """Collections that mirror documents and items."""
        return CollectionViews(self._backend)

    @property
    def templates(self) -> IndexTemplates:
        """Indexes of every collection whose path fits."""
        return IndexTemplates(self._backend)

    def __getitem__(self, path: str) -> Resource:
        """A document, a collection (its path ends with ~) or an item. Does no I/O. Errors: `BadPath`."""
        if not isinstance(path, str):
            raise BadInput(f"{path!r:.60} is no path.", hint='Write it such as hw.documents["shop/catalogue~"].')
        return Resource(self._backend, parse_path(path).text)

    async def list(self, prefix: str = "", after: str = "") -> AsyncIterator[ListedContent]:
        """The documents and collections whose paths begin so, by path. `after`: those behind this path."""
        while True:
            page = await self._backend.ask(ask.CONTENT_LIST, requests.ListContent(prefix=prefix, after=after, limit=_PAGE))
            for item in page.items:
                yield item
            if page.next is None:
                return
            after = page.next

    async def export(self, prefix: str = "", after: str = "") -> AsyncIterator[ExportedContent]:
        """The documents and items of documents and collections whose paths begin so, with their bodies, and with the time at which they
        expire. Items of views are left out. `after`: those behind this path."""
        while True:
            page = await self._backend.ask(ask.CONTENT_EXPORT, requests.ExportContent(prefix=prefix, after=after))
            for item in page.items:
                yield item
            if page.next is None:
                return
            after = page.next

    async def batch(
        self, writes: Sequence[BatchWrite], *, timeout: float | None = None
    ) -> Sequence[HyperStorageTransactionCreated | HeadwaterError]:
        """Many writes, each done by itself, those of one document or collection in their order: method, path and body of each, such as
        ("put", "shop/settings", {"open": True}), or a `BatchLine`. Returns, for each, its transaction or the error that it met. `timeout`:
        the seconds that each request of some hundred writes may take. Errors: `Timeout` then; they may be done or not."""
        outcomes: list[HyperStorageTransactionCreated | HeadwaterError] = []
        for at in range(0, len(writes), _LINES):
            request = requests.WriteBatch(lines=tuple(map(batch_line, writes[at : at + _LINES])))
            try:
                async with asyncio.timeout(timeout):
                    answered = await self._backend.ask(ask.BATCH, request)
            except TimeoutError:
                raise Timeout(f"The batch was not done within {timeout:g} s.", hint="Send it again: it may be done or not.") from None
            outcomes += map(read_outcome, answered.splitlines())
        return outcomes

    async def feed(self, prefix: str, after: str | None = None, *, snapshot: bool = False) -> AsyncIterator[DocumentChange]:
        """The changes of everything below a path, such as "shop/", those behind a position and then those that come, for ever."""
        if not prefix.endswith("/"):
            raise BadInput(
                f"{prefix!r:.60} is no prefix of paths.", hint='End it with a slash, or follow one path: hw.documents["a"].feed().'
            )
        async for change in followed(self._backend, feed_request(prefix, after, snapshot=snapshot)):
            yield change

    async def transactions(
        self, path: str | None = None, *, state: TransactionState | None = None, limit: int = 100
    ) -> Sequence[HyperStorageTransaction]:
        """Transactions, the newest first: of one document or collection, or of all. `state`: "accepted" are those that the store lacks, the
        oldest first where no path is given; "applied", "indexed" and "published", which are the same, are those that it has with their
        indexes, among the newest. A transaction itself says accepted or published."""
        return (await self._backend.ask(follow_ask.TRANSACTIONS_LIST, follow.ListTransactions(path=path, state=state, limit=limit))).items

    async def transaction(self, transaction: str, *, wait: int = 0) -> HyperStorageTransaction:
        """How far a write is. `wait`: seconds to wait until it is published. Errors: `NotFound`."""
        request = follow.FindTransaction(transaction=transaction, prefer=f"wait={wait}" if wait else None)
        return await self._backend.ask(follow_ask.TRANSACTION, request)

    async def status(self) -> DocumentsStatus:
        """The partitions of documents: who owns them, how far the store is, what waits. Those of other servers as these see them; their
        state is `Unknown` where they cannot be asked."""
        return await status_everywhere(self._backend)

    async def trail(self, path: str, *, limit: int = 100) -> DocumentTrail:
        """A document on its way: its newest records in the log, and what the store has of it."""
        return await self._backend.ask(follow_ask.TRAIL, follow.DocumentTrailRequest(path=path, limit=limit))

    async def verify(self, *, progress: Callable[[int, int], None] | None = None) -> VerifiedDocuments:
        """Compare the store with what the log says. `progress`: is told, about once a second, how many records are folded, and of how many.
        Errors: `Differs` with the first difference; `LogGap` where the log was deleted."""
        job = await self._backend.start(follow_ask.VERIFY, follow.VerifyDocuments())
        while progress is not None and (status := await job.status(1)).state == "running":
            progress(status.done, status.total)
        return await job.result()

    async def rebuild(self, *, partitions: Sequence[int] = (), why: str = "", dry_run: bool = False) -> RebuiltDocuments:
        """Make the store anew from the log: all of it, or these partitions. What other servers own is made anew there. Errors: `LogGap`
        where the log was deleted; `NotOwner` with the partitions that are left, because their owners cannot be asked."""
        return await rebuilt_everywhere(self._backend, follow.RebuildDocuments(partitions=tuple(partitions), why=why, dry_run=dry_run))


def read_outcome(line: bytes) -> HyperStorageTransactionCreated | HeadwaterError:
    """What became of a write of a batch."""
    problem = problem_in(line)
    return error_of(problem.status, line) if problem is not None else decoded(line, HyperStorageTransactionCreated, "the answer")
