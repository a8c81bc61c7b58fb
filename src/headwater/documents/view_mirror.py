"""Mirrors the documents or items that a view shows into its collection, as the owner of the view."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from headwater.core.document_errors import UnfitBody
from headwater.core.errors import BadInput, TooLarge
from headwater.documents.body import body_bytes, item_value, state_value, without_nulls
from headwater.documents.draft_body import read_batch
from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent
from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.partition import DocumentPartition
from headwater.documents.path import ResourcePath, parse_path
from headwater.documents.prefix_feed import PrefixFeeds
from headwater.documents.view import FILLING, ViewDefinition, later_position, mirrored_id, moved_view, view_settings
from headwater.documents.write import BatchDraft, Draft

_logger = logging.getLogger("headwater.documents")
_RECORD = 100  # changes of one record
_RECORD_BYTES = 1 << 20
_UNNOTED = 1000  # events of the source after which the position is noted, though nothing was mirrored
_PAGE = 500


class _Wanted(NamedTuple):
    """An item of the view that shows a state of the source, and the position behind the event that says so. `given`: by a snapshot."""

    item: str
    state: bytes
    position: str
    given: bool


class _PlacedDraft(NamedTuple):
    draft: Draft
    position: str


class SourceEvent(NamedTuple):
    """An event of what a view shows, and the position behind it."""

    event: FeedEvent
    position: str


class ViewMirror:
    """One view. It writes through `partition` alone: once another process owns that, every write fails, and the next owner's mirror goes on
    from the newest record. So every change of the source is mirrored once, however often the owner changes or dies.

    A change that leaves the item of the view as it is, is no change of the view.
    """

    def __init__(self, documents: OpenDocuments, feeds: DocumentFeeds, partition: DocumentPartition, uri: str) -> None:
        self._documents, self._feeds, self._partition, self.uri = documents, feeds, partition, uri
        self._definition = ViewDefinition(template_uri="")
        self._position = ""
        self._unnoted = 0
        self._seen: set[str] | None = None  # items that filling has found, where the view had items before

    async def run(self) -> None:
        """Fill the view where it is not, then follow, until the view is deleted. Errors: those of the log and the store; `NotOwner`."""
        resume_point = await asyncio.to_thread(self._resumed)
        if resume_point is None:
            return
        self._definition, self._position = resume_point
        self._accepts = compile_filter(self._definition.filter).accepts if self._definition.filter else None
        if not self._position:
            await self._begin_filling()
        async with aclosing(self._source()) as source:
            async for portion in source:
                for start in range(0, len(portion), _RECORD):
                    await self._mirror(portion[start : start + _RECORD])

    def _resumed(self) -> tuple[ViewDefinition, str] | None:
        """The view and where to go on; None where it is no view."""
        with self._documents.view(self.uri) as view:
            head = view.head(self.uri)
            places = view.changes(self.uri, limit=1, reverse=True)
        settings = view_settings(head.settings if head is not None else b"")
        if settings.view is None:
            return None
        if not settings.position:
            return settings.view, ""
        history = self._feeds.history_of(self.uri)
        return settings.view, later_position(settings.position, history.source_at(places[0]) if places else "")

    async def _source(self) -> AsyncGenerator[Sequence[SourceEvent]]:
        after = self._position or None
        if collection := self._definition.collection:
            revision = None if after is None else int(after)
            async with aclosing(self._feeds.follow(parse_path(collection), after=revision, snapshot=True)) as following:
                async for events in following:
                    yield [SourceEvent(event, event.position) for event in events]
        else:
            async with aclosing(PrefixFeeds(self._feeds).follow(self._definition.prefix, after=after, snapshot=True)) as below:
                async for placed in below:
                    yield [SourceEvent(event, position) for event, position in placed]

    # -- filling ----------------------------------------------------------------------------------------------

    async def _begin_filling(self) -> None:
        await self._partition.call(moved_view(self.uri, ""))
        empty = await asyncio.to_thread(lambda: not self._rows(""))
        self._position, self._seen = "", None if empty else set()

    async def _end_filling(self, position: str) -> None:
        """Remove what the source does not have, and note the position from which the mirror follows."""
        seen_items, self._seen, item = self._seen, None, ""
        while seen_items is not None and (rows := await asyncio.to_thread(self._rows, item)):
            item = rows[-1]
            await self._write([_PlacedDraft(self._draft(id, None), "") for id in rows if id not in seen_items], FILLING)
        await self._partition.call(moved_view(self.uri, position))
        self._position = position

    def _rows(self, after: str) -> list[str]:
        with self._documents.view(self.uri) as view:
            return [row.item for row in view.rows(self.uri, low=f"{after}\0" if after else "", limit=_PAGE)]

    # -- mirroring --------------------------------------------------------------------------------------------

    async def _mirror(self, portion: Sequence[SourceEvent]) -> None:
        wanted: list[_Wanted] = []
        for event, position in portion:
            if event.kind in ("reset", "end") or (not event.item and event.method == "delete" and self._definition.collection):
                await self._put(wanted, self._position)
                wanted = []
                await self._turn(event, position)
                continue
            id = mirrored_id(self._definition, event)
            if id is not None:
                wanted.append(_Wanted(id, event.state, position, event.kind == "snapshot"))
        await self._put(wanted, portion[-1].position)

    async def _turn(self, event: FeedEvent, position: str) -> None:
        """What concerns the view as a whole."""
        if event.kind == "reset":
            await self._begin_filling()
        elif event.kind == "end":
            await self._end_filling(position)
        elif event.kind == "snapshot":
            self._seen = set()
        else:  # the source's collection is deleted, and so is what the view shows of it
            if await asyncio.to_thread(self._rows, ""):
                await self._write([_PlacedDraft(Draft(path=parse_path(self.uri), verb="delete"), position)], position)
            self._position = position

    async def _put(self, wanted: Sequence[_Wanted], position: str) -> None:
        drafts = await asyncio.to_thread(self._drafts, wanted) if wanted else []
        await self._write(drafts, position or FILLING)
        if not position:
            return  # within a snapshot
        self._unnoted = 0 if drafts else self._unnoted + 1
        self._position = position
        if self._unnoted >= _UNNOTED:
            await self._partition.call(moved_view(self.uri, position))
            self._unnoted = 0

    def _drafts(self, wanted: Sequence[_Wanted]) -> list[_PlacedDraft]:
        """The writes that make items of the view what they are to be, one after the other. Blocking: the filter is asked here."""
        ids = list(dict.fromkeys(wanted_item.item for wanted_item in wanted))
        with self._documents.view(self.uri) as view:
            rows = view.rows_of(self.uri, ids)
        bodies = {id: None if row is None else row.body for id, row in zip(ids, rows, strict=True)}
        drafts: list[_PlacedDraft] = []
        for id, state, position, given in wanted:
            body = self._body(id, state)
            if given and self._seen is not None:
                (self._seen.discard if body is None else self._seen.add)(id)
            if bodies[id] != body:
                drafts.append(_PlacedDraft(self._draft(id, body), position))
                bodies[id] = body
        return drafts

    def _draft(self, id: str, body: bytes | None) -> Draft:
        path = ResourcePath(self.uri, id)
        return Draft(path=path, verb="delete") if body is None else Draft(path=path, verb="put", body=body)

    def _body(self, id: str, state: bytes) -> bytes | None:
        """The item of the view for a state of the source; None where it is not shown. What is no object cannot be an item."""
        value = state_value(state) if state else None
        if not isinstance(value, dict) or (self._accepts is not None and not self._accepts(value)):
            return None
        try:
            return body_bytes(item_value(id, without_nulls(value)))
        except UnfitBody:
            return None

    async def _write(self, drafts: Sequence[_PlacedDraft], source: str) -> None:
        """Append drafts as few records. The last one has the position `source`; each before it, that of its last draft, so that a mirror
        which goes on there makes nothing twice."""
        records: list[list[_PlacedDraft]] = []
        size = 0
        for placed in drafts:
            if not records or size + len(placed.draft.body) > _RECORD_BYTES:
                records.append([])
                size = 0
            records[-1].append(placed)
            size += len(placed.draft.body)
        for number, record in enumerate(records):
            position = source if number == len(records) - 1 else self._at(record[-1])
            try:
                await self._append([placed.draft for placed in record], position)
            except (BadInput, TooLarge):
                for placed in record:  # one that does not fit must not hold up the others
                    try:
                        await self._append([placed.draft], self._at(placed))
                    except (BadInput, TooLarge) as error:
                        _logger.warning("%s is not shown in the view: %s", placed.draft.path.text, error)

    def _at(self, placed: _PlacedDraft) -> str:
        """Where a mirror would go on behind a draft; within a snapshot, where it was before."""
        return placed.position or self._position or FILLING

    async def _append(self, drafts: Sequence[Draft], source: str) -> None:
        batch = BatchDraft(uri=self.uri, drafts=tuple(drafts), source=source)
        await self._partition.call(await asyncio.to_thread(read_batch, batch))
