"""Performs the operations on indexes of collections, and on views."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote

from headwater.core.clock import Clock
from headwater.core.errors import AlreadyExists
from headwater.core.ids import Ids, random_id
from headwater.documents import answers, index_requests
from headwater.documents.answers import HalLink, HyperStorageIndex, HyperStorageIndexCreated
from headwater.documents.calls import IndexCall, deleted_index, new_index, unknown_index
from headwater.documents.change import ChangeRecord, IndexDefinition
from headwater.documents.index.builds import IndexBuilds
from headwater.documents.index.definition import is_alike
from headwater.documents.index.shard import ShardSource
from headwater.documents.index.templates import TemplateIndexes
from headwater.documents.open_documents import OpenDocuments
from headwater.wire.operation import Reply

_logger = logging.getLogger("headwater.documents")
_INDEXES = "/hyper-storage/indexes"


class DocumentIndexing:
    """Indexes and views of the documents that `opened` gives."""

    def __init__(self, opened: Callable[[], Awaitable[OpenDocuments]], *, clock: Clock, ids: Ids = random_id) -> None:
        self._opened, self._clock, self._ids = opened, clock, ids
        self._builds = IndexBuilds(self, clock=clock)
        self._looks: set[asyncio.Task[None]] = set()
        self._templates: TemplateIndexes | None = None

    # -- builds -----------------------------------------------------------------------------------------------

    def watch(self, documents: OpenDocuments, shards: ShardSource | None = None) -> None:
        """Go on with the builds of every partition that this process takes. `shards`: who takes large ones."""
        self._builds.shards = shards

        def taken(number: int) -> None:
            look = asyncio.ensure_future(self._builds.look(documents.reads(number).store))
            self._looks.add(look)
            look.add_done_callback(self._looked)

        documents.activated.append(taken)
        self._templates = TemplateIndexes(documents, self._make)
        self._templates.start()

    @property
    def templates(self) -> TemplateIndexes:
        """What gives collections the indexes of their templates, once there are documents."""
        assert self._templates is not None
        return self._templates

    def _looked(self, look: asyncio.Task[None]) -> None:
        self._looks.discard(look)
        if not look.cancelled() and (error := look.exception()) is not None:
            _logger.warning("The indexes that are being built were not found: %s", error)

    async def change_index(self, uri: str, number: int, change: Callable[[IndexDefinition], IndexDefinition]) -> bool:
        """As `IndexRecorder.change_index`."""

        def decide(indexes: Sequence[IndexDefinition], _: int) -> IndexDefinition | None:
            index = next((definition for definition in indexes if definition.number == number and definition.state != "deleting"), None)
            return None if index is None else change(index)

        return await (await self._opened()).change(uri, IndexCall(uri, decide)) is not None

    async def aclose(self, *, patience: float = 0.0) -> None:
        """Stop the builds; another process goes on with them. `patience`: seconds in which they may end by themselves."""
        await asyncio.gather(*self._looks, return_exceptions=True)
        if self._templates is not None:
            await self._templates.aclose()
        if patience:
            try:
                async with self._clock.timeout(patience):
                    await self._builds.wait()
            except TimeoutError:
                pass
        await self._builds.stop()

    async def _make(self, uri: str, wanted: IndexDefinition) -> None:
        documents = await self._opened()
        made = await documents.change(uri, new_index(uri, wanted))
        assert isinstance(made, ChangeRecord)
        assert made.index is not None
        self._builds.begin(documents.reads(documents.partition_of(uri)).store, uri, made.index)

    # -- indexes ----------------------------------------------------------------------------------------------

    async def index_list(self, request: index_requests.CollectionRequest) -> list[HyperStorageIndex]:
        """The indexes of a collection, sorted by id."""
        uri = request.collection()
        return sorted((self._shown(uri, index) for index in await self._indexes(uri)), key=lambda shown: shown.index_id)

    async def index_get(self, request: index_requests.IndexRequest) -> HyperStorageIndex:
        """Errors: `UnknownIndex`."""
        uri = request.collection()
        return self._shown(uri, await self._index(uri, request.index))

    async def index_post(self, request: index_requests.HyperStorageIndexPost) -> Reply[HyperStorageIndexCreated]:
        """Errors: `AlreadyExists`, `BadFilter`."""
        uri, wanted = request.collection(), request.new.definition(request.new.index_id or self._ids()[:16])
        if request.dry_run:
            if any(index.id == wanted.id for index in await self._indexes(uri)):
                raise _exists(uri, wanted.id)
            return _created(uri, wanted.id, 200)
        await self._make(uri, wanted)
        return _created(uri, wanted.id, 201)

    async def index_put(self, request: index_requests.HyperStorageIndexPut) -> Reply[HyperStorageIndexCreated]:
        """Errors: `AlreadyExists` where it is there and another one; `BadFilter`."""
        uri, wanted = request.collection(), request.new.definition(request.index)
        for again in (True, False):
            existing = next((index for index in await self._indexes(uri) if index.id == wanted.id and index.state != "deleting"), None)
            if existing is not None:
                if is_alike(existing, wanted):
                    return _created(uri, wanted.id, 200)
                raise _exists(uri, wanted.id)
            if request.dry_run:
                return _created(uri, wanted.id, 200)
            try:
                await self._make(uri, wanted)
                break
            except AlreadyExists:  # another request has made it meanwhile
                if not again:
                    raise
        return _created(uri, wanted.id, 201)

    async def index_delete(self, request: index_requests.HyperStorageIndexDelete) -> None:
        """Errors: `UnknownIndex`."""
        uri = request.collection()
        index = await self._index(uri, request.index)
        if index.state == "deleting":
            raise unknown_index(uri, request.index, ())
        if not request.dry_run:
            await (await self._opened()).change(uri, deleted_index(uri, request.index))

    def _shown(self, uri: str, index: IndexDefinition) -> HyperStorageIndex:
        build = self._builds.progress(uri, index.number)
        return HyperStorageIndex(
            index_id=index.id,
            path=uri,
            sort_by=[
                answers.ShownSortItem(field_name=field.field_name, order=field.order, field_type=field.field_type)
                for field in index.sort_by
            ],
            filter_by=index.filter_by,
            materialize=index.materialize,
            status=index.state,
            rows=index.rows if build is None else build.rows,
            built=index.built if build is None else build.built,
            unlike=index.unlike if build is None else build.unlike,
            error=index.error,
        )

    async def _indexes(self, uri: str) -> Sequence[IndexDefinition]:
        documents = await self._opened()

        def look() -> Sequence[IndexDefinition]:
            with documents.view(uri) as view:
                return view.indexes(uri)

        return await asyncio.to_thread(look)

    async def _index(self, uri: str, id: str) -> IndexDefinition:
        # Of one that is being deleted and one of the same id that was made since, the newer is meant.
        indexes = await self._indexes(uri)
        matching = [index for index in indexes if index.id == id]
        if not matching:
            raise unknown_index(uri, id, indexes)
        return matching[-1]


def _created(uri: str, id: str, status: int) -> Reply[HyperStorageIndexCreated]:
    address = f"{_INDEXES}/{quote(uri, safe='~')}/{quote(id, safe='')}"
    made = HyperStorageIndexCreated(index=id, path=uri, links={"location": HalLink(address)})
    return Reply(made, status, {"Location": address} if status == 201 else {})


def _exists(uri: str, id: str) -> AlreadyExists:
    return AlreadyExists(f"{uri} has another index {id!r:.60}.", hint=f"Drop it first: `headwater doc index drop {uri} {id}`.")
