"""Performs the operations on documents in this process."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from headwater.client.document_batches import DocumentBatches
from headwater.client.document_care import DocumentCare
from headwater.client.document_changes import DocumentChanges
from headwater.client.document_indexing import DocumentIndexing
from headwater.client.document_loops import DocumentLoops
from headwater.client.document_reads import DocumentReads
from headwater.client.document_schemas import DocumentSchemas
from headwater.client.document_templates import DocumentTemplates
from headwater.client.document_viewing import DocumentViewing
from headwater.client.document_workers import DocumentWorkers
from headwater.client.local import LocalLog
from headwater.cluster import OwnedPartition, Ownership, PartitionOwner
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, HeadwaterError
from headwater.core.ids import Ids, random_id
from headwater.core.metrics import Metrics
from headwater.core.settings import Settings
from headwater.documents import answers, operations, requests
from headwater.documents.answers import show_written
from headwater.documents.base import FOLDER, DocumentBases
from headwater.documents.follow_operations import CARE, FEED, FOLLOWING
from headwater.documents.index.spark_build import SparkBuilds
from headwater.documents.index_operations import INDEXING, VIEWS
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.path import ResourcePath
from headwater.documents.schema_operations import SCHEMAS
from headwater.documents.settings import DOCUMENTS_SECTION
from headwater.documents.store import DocumentStores
from headwater.documents.store_address import open_stores
from headwater.documents.template_operations import TEMPLATING
from headwater.documents.write import Draft, WrittenDocument
from headwater.log import Log
from headwater.wire.operation import Operation, Reply

_audit = logging.getLogger("headwater.audit")
_FREQUENT = {
    operations.CONTENT_PUT,
    operations.CONTENT_PATCH,
    operations.CONTENT_POST,
    operations.CONTENT_DELETE,
    operations.BATCH,
}
_BUILDS = 10.0  # seconds in which a program that ends finishes the indexes that it builds
_PASSING = 30.0  # seconds that a partition may take to end its writes when the group gives it to another process


def measure(metrics: Metrics, performer: DocumentsPerformer, log: object) -> None:
    """Let the metrics read what the documents do."""
    metrics.add(performer.metrics)


async def opens(performer: DocumentsPerformer, log: object) -> None:
    """Begin to serve: look after the partitions of documents."""
    await performer.serve()


async def closes(performer: DocumentsPerformer, log: object) -> None:
    """Finish the calls under way, and let others own the partitions."""
    await performer.aclose()


def forget_owner(performer: DocumentsPerformer, address: str) -> None:
    """Look for the owner of a partition anew, where this server was remembered as one."""
    performer.forget_owner(address)


class FoundContent(NamedTuple):
    """A document or item that was read at once. `head_revision`: of the document or collection."""

    body: bytes
    revision: int
    head_revision: int


class DocumentsPerformer:
    """One method for each operation of the same name, here or in its helpers. Belongs to one event loop."""

    def __init__(
        self,
        *,
        log: LocalLog,
        clock: Clock | None = None,
        settings: Settings | None = None,
        address: str = "",
        ids: Ids = random_id,
        topic: str = TOPIC,
    ) -> None:
        """`topic`: its name, for tests that share brokers."""
        self._log, self._ids, self._address, self._topic = log, ids, address, topic
        self.clock, self.settings = clock or SystemClock(), settings or Settings()
        self._opening = asyncio.Lock()
        self._documents: OpenDocuments | None = None
        self._stores: DocumentStores | None = None
        self._owners: Ownership | None = None
        self._making = threading.Lock()  # of the ownership
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quick = False
        self._closed = False
        section = DOCUMENTS_SECTION.of(self.settings)
        self.reads = DocumentReads(self.opened, section, self.clock)
        self.indexing = DocumentIndexing(self.opened, clock=self.clock, ids=ids)
        self.follow = DocumentChanges(self.opened, clock=self.clock, query_seconds=section.query_timeout.seconds)
        self.viewing = DocumentViewing(self.opened, self.follow.feeds)
        self.templates = DocumentTemplates(self.opened, lambda: self.indexing.templates)
        self.schemas = DocumentSchemas(self.opened)
        self.batches = DocumentBatches(self.opened, ids=ids)
        self.care = DocumentCare(self.opened, self.settings.store.engine, self._owner_of)
        self.metrics = DocumentMetrics()
        self._loops: DocumentLoops | None = None
        self.workers: DocumentWorkers | None = None
        """Those with which this one shares the partitions; None: there are no others."""

    # -- how it runs ------------------------------------------------------------------------------------------

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str = "") -> Any:
        helpers = (
            (VIEWS, self.viewing),
            (INDEXING, self.indexing),
            (TEMPLATING, self.templates),
            (SCHEMAS, self.schemas),
            (CARE, self.care),
            (FOLLOWING, self.follow),
        )
        performs: Any = next((helper for operations, helper in helpers if operation in operations), self)
        answer = await getattr(performs, operation.name)(request)
        if operation.changes and operation not in _FREQUENT and not getattr(request, "dry_run", False):
            _audit.info("%s: %s %s", who or "this process", operation.id, msgspec.structs.asdict(request))
        return answer

    async def stream(self, operation: Operation[Any, Any], request: Any) -> AsyncIterator[Any]:
        assert operation is FEED
        async for change in self.follow.changes(request):
            yield change

    async def opened(self) -> OpenDocuments:
        """The documents, which are opened at the first call. Errors: `Closed`; those of the log and the store."""
        if self._documents is None:
            async with self._opening:
                if self._closed:
                    raise Closed("This headwater is closed.", hint="Open it again.")
                if self._documents is None:
                    log = await self._log.open()
                    self._loop = asyncio.get_running_loop()
                    self._stores = await asyncio.to_thread(open_stores, self.settings, self._data(log), clock=self.clock)
                    self._quick = log.engine == "embedded" and self.settings.store.engine == "sqlite"
                    self._documents = OpenDocuments(
                        log,
                        self._stores,
                        lambda: self._ownership(log),
                        settings=DOCUMENTS_SECTION.of(self.settings),
                        clock=self.clock,
                        ids=self._ids,
                        metrics=self.metrics,
                        bases=DocumentBases(self._data(log) / FOLDER, kept=self._stores.base_files(), clock=self.clock, ids=self._ids),
                        quick=self._quick,
                        topic=self._topic,
                    )
                    if self.workers is not None:
                        self._documents.homes = self.workers.homes(log.engine, self.clock)
                    shards = SparkBuilds(self.settings, self._data(log), log.address, clock=self.clock)
                    self.indexing.watch(self._documents, shards if shards.possible else None)
        return self._documents

    async def serve(self) -> None:
        """Open the documents, and look after them. Beginning twice is no error."""
        documents, log = await self.opened(), await self._log.open()
        if self._loops is None:
            folder = self._data(log) / "store" / "documents" / "recovery"
            self._loops = DocumentLoops(
                documents,
                lambda: self._ownership(log),
                templates=self.indexing.templates,
                folder=folder,
                clock=self.clock,
                metrics=self.metrics,
            )
            self.metrics.read = documents.status
            self._loops.start()
            await self.viewing.start()
            if self.workers is not None:
                await self.workers.start()

    async def aclose(self) -> None:
        """Finish the calls under way. Closing twice is no error."""
        workers, self.workers = self.workers, None
        if workers is not None:
            await workers.aclose()
        self._closed = True
        self.metrics.read = tuple
        loops, self._loops = self._loops, None
        if loops is not None:
            await loops.stop()
        await self.viewing.aclose()
        await self.follow.aclose()
        # A server is closed by who looks after it; a program that ends would leave a small index unbuilt until another one comes.
        await self.indexing.aclose(patience=0.0 if loops is not None else _BUILDS)
        documents, self._documents = self._documents, None
        if documents is not None:
            await documents.aclose()
        owners, self._owners = self._owners, None
        if owners is not None:
            await asyncio.to_thread(owners.close)
        stores, self._stores = self._stores, None
        if stores is not None:
            await asyncio.to_thread(stores.close)

    def _data(self, log: Log) -> Path:
        return Path(log.address.path) if log.engine == "embedded" else self.settings.data

    def _ownership(self, log: Log) -> Ownership:
        with self._making:
            if self._owners is None:
                if log.engine == "embedded":
                    from headwater.cluster.local import LocalOwnership

                    self._owners = LocalOwnership(log, Path(log.address.path) / "owners", address=self._address, clock=self.clock)
                else:
                    from headwater.cluster.kafka import KafkaOwnership

                    self._owners = KafkaOwnership(log, address=self._address, passing=self._passing, clock=self.clock)
            return self._owners

    def _owner_of(self, number: int) -> PartitionOwner | None:
        """Who owns a partition; None where nobody does, or where it cannot be found out. Blocking."""
        documents = self._documents
        if documents is None:
            return None
        try:
            return self._ownership(documents.log).owner(documents.topic_name, number)
        except (HeadwaterError, OSError):  # such as in a directory of another user, where a look cannot lock
            return None

    def forget_owner(self, address: str) -> None:
        """As `Ownership.forget_owner`."""
        if self._owners is not None:
            self._owners.forget_owner(address)

    def _passing(self, owned: OwnedPartition) -> None:
        """The group gives a partition to another process: end its writes. Called in a thread of the ownership."""
        documents = self._documents
        if documents is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(documents.release(owned.partition), self._loop).result(_PASSING)

    # -- content ----------------------------------------------------------------------------------------------

    async def content_list(self, request: requests.ListContent) -> answers.ContentListing:
        return await self.reads.listing(request)

    async def content_export(self, request: requests.ExportContent) -> answers.ContentExport:
        return await self.reads.exported(request)

    async def content_get(self, request: requests.HyperStorageContentGet) -> Reply[answers.StoredContent]:
        if request.since is not None or request.revision is not None or request.at is not None:
            return await self.follow.earlier(request)
        return await self.reads.content(request)

    def read_here(self, path: ResourcePath) -> FoundContent | None:
        """A document or item, where this event loop may read it and it is there; None otherwise."""
        if not self._quick or self._documents is None:
            return None
        began = time.perf_counter()
        point = self._documents.point(path)
        self.metrics.read_seconds.observe(time.perf_counter() - began)
        return None if point.row is None else FoundContent(point.row.body, point.row.revision, point.revision)

    def begin(self, draft: Draft) -> asyncio.Future[WrittenDocument] | None:
        """Begin a write, where the documents are open."""
        return None if self._documents is None else asyncio.ensure_future(self._documents.write(draft))

    async def content_put(self, request: requests.HyperStorageContentPut) -> Reply[answers.HyperStorageTransactionCreated]:
        return show_written(await self._written(request))

    async def content_patch(self, request: requests.HyperStorageContentPatch) -> Reply[answers.HyperStorageTransactionCreated]:
        return show_written(await self._written(request))

    async def content_post(self, request: requests.HyperStorageContentPost) -> Reply[answers.HyperStorageTransactionCreated]:
        return show_written(await self._written(request))

    async def content_delete(self, request: requests.HyperStorageContentDelete) -> Reply[answers.HyperStorageTransactionCreated]:
        return show_written(await self._written(request), tagged=False)

    async def _written(self, request: requests.ContentWrite) -> WrittenDocument:
        documents = await self.opened()
        written = await documents.write(request.draft())
        if not written.applied and request.waits():
            await self.follow.wait_applied(written.partition, written.offset, request.waits())
        return written

    async def batch(self, request: requests.WriteBatch) -> bytes:
        return await self.batches.batch(request)
