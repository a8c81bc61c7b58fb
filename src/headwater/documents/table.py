"""Documents as tables of Spark: `collection:a/b~`, the items of a collection; `feed:a/b~`, the changes of a document, collection or item.

Items are read from the store at one applied offset, by one task: two tasks would see two moments. Changes are read from the log, at the
places that the store has noted, and at those behind its applied offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from headwater.core.config import load
from headwater.core.document_errors import DocumentNotFound
from headwater.core.errors import BadBounds, BadInput, Conflict, OffsetGone, UnknownTopic
from headwater.core.settings import Settings
from headwater.documents.change import ResourceChange, decode_record
from headwater.documents.digest import all_changes
from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.path import ResourcePath, parse_path, partition_of
from headwater.documents.replay import replay
from headwater.documents.store import DocumentRow, DocumentView
from headwater.documents.store_address import open_stores
from headwater.log import Log
from headwater.log.record import Topic
from headwater.spark.tables import PlannedTable, Table
from headwater.wire.json import UNREADABLE, decoder

TOPIC = "hyper-storage"
COLLECTION_OPTIONS = {
    "fromId": "the first id",
    "toId": "the id before which the items end",
    "filter": "only items that this filter accepts, such as: price > 10",
}
FEED_OPTIONS = {"fromRevision": "the first revision", "toRevision": "the last revision"}
_TIME = pa.timestamp("us", "UTC")
_MOST = 4096  # rows of one batch
_decode = decoder(dict[str, Any])


class DocumentPart(msgspec.Struct, frozen=True, kw_only=True):
    """What one task reads. `settings`, `data`: where the store is. `applied`: as far as it was when the read was planned, at least."""

    settings: Settings
    data: str
    partition: int
    generation: str
    applied: int
    offsets: tuple[int, ...] = ()
    """Of the records with the changes that are read."""


class CollectionTable(PlannedTable):
    """The items of a collection, by id."""

    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("body", pa.string(), nullable=False),
            pa.field("revision", pa.int64(), nullable=False),
            pa.field("created", _TIME, nullable=False),
            pa.field("modified", _TIME, nullable=False),
            pa.field("expires", _TIME),
        ]
    )
    options = COLLECTION_OPTIONS
    unstreamed = "it is what a collection holds now"
    instead = "Use read instead of readStream, or follow its changes: feed:PATH."

    def __init__(self, uri: str, *, low: str = "", high: str | None = None, filter_by: str = "") -> None:
        self._uri, self._low, self._high, self._filter = uri, low, high, filter_by

    def check(self, log: Log) -> None:
        self.plan(log, 1)

    def plan(self, log: Log, split: int) -> list[DocumentPart]:
        topic = _topic(log, self._uri)
        part = _part(log, topic, self._uri)
        with open_stores(part.settings, Path(part.data)) as stores, stores.partition(part.partition, topic.generation).view() as view:
            head = view.head(self._uri)
            if head is None or head.deleted:
                raise _not_found(self._uri)
            return [msgspec.structs.replace(part, applied=view.applied())]

    def rows(self, log: Log, part: DocumentPart, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        accepts = compile_filter(self._filter).accepts if self._filter else None
        with open_stores(part.settings, Path(part.data)) as stores, stores.partition(part.partition, part.generation).view() as view:
            if view.applied() < part.applied:
                raise Conflict(
                    f"The store that the task opened ends at offset {view.applied()}, and the read was planned at {part.applied}.",
                    hint="Read the collection where its store is.",
                )
            for page in self._pages(view):
                yield _columns(self.schema, [_item(row) for row in page if accepts is None or _accepted(row, accepts)], wanted)

    def _pages(self, view: DocumentView) -> Iterator[list[DocumentRow]]:
        low = self._low
        while page := view.rows(self._uri, low=low, high=self._high, limit=_MOST):
            yield page
            low = page[-1].item + "\0"


class FeedTable(PlannedTable):
    """The changes of a document, a collection or an item, by revision."""

    schema = pa.schema(
        [
            pa.field("path", pa.string(), nullable=False),
            pa.field("method", pa.string(), nullable=False),
            pa.field("revision", pa.int64(), nullable=False),
            pa.field("body", pa.string()),
            pa.field("state", pa.string()),
            pa.field("timestamp", _TIME, nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
        ]
    )
    options = FEED_OPTIONS
    unstreamed = "its changes lie among those of other documents"
    instead = "Use read instead of readStream, or stream all records: topic:hyper-storage."

    def __init__(self, path: ResourcePath, *, first: int = 1, last: int | None = None) -> None:
        self._path, self._first, self._last = path, first, last

    def check(self, log: Log) -> None:
        self.plan(log, 1)

    def plan(self, log: Log, split: int) -> list[DocumentPart]:
        uri = self._path.uri
        topic = _topic(log, uri)
        part = _part(log, topic, uri)
        end = log.bounds(topic.name, part.partition).end
        with open_stores(part.settings, Path(part.data)) as stores, stores.partition(part.partition, topic.generation).view() as view:
            applied, is_known = view.applied(), view.head(uri) is not None
            offsets = {place.offset: None for place in all_changes(view, uri) if self._wants(place.revision)}
        for records, _ in replay(log, topic.name, part.partition, applied, end):
            for appended in records:
                if appended.record.uri == uri:
                    is_known = True
                    if any(self._wants(change.revision) for change in appended.record.changes):
                        offsets[appended.offset] = None
        if not is_known:
            raise _not_found(self._path.text)
        change_offsets = list(offsets)
        return [
            msgspec.structs.replace(part, applied=applied, offsets=tuple(change_offsets[begin : begin + split]))
            for begin in range(0, len(change_offsets), split)
        ]

    def rows(self, log: Log, part: DocumentPart, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        if log.topic(TOPIC).generation != part.generation:
            raise Conflict(f"Topic {TOPIC} was deleted and created again while it was read.", hint="Load it again.")
        for begin in range(0, len(part.offsets), _MOST):
            offsets = part.offsets[begin : begin + _MOST]
            change_rows: list[dict[str, Any]] = []
            for offset, record in zip(offsets, log.read_at(TOPIC, part.partition, offsets), strict=True):
                if record is None:
                    raise OffsetGone(
                        f"The record at offset {offset} of {TOPIC}/{part.partition}, which has a change of {self._path.text}, was deleted.",
                        hint="Begin later, with the option fromRevision.",
                    )
                value = decode_record(record.value, f"{TOPIC}/{part.partition} at offset {offset}")
                place = {"timestamp": record.timestamp or 0, "partition": part.partition, "offset": offset}
                change_rows += [{**self._cells(change), **place} for change in value.changes if self._shows(change)]
            yield _columns(self.schema, change_rows, wanted)

    def _wants(self, revision: int) -> bool:
        return self._first <= revision and (self._last is None or revision <= self._last)

    def _shows(self, change: ResourceChange) -> bool:
        """A change of the whole collection is one of each item."""
        return self._wants(change.revision) and (not self._path.item or change.item in ("", self._path.item))

    def _cells(self, change: ResourceChange) -> dict[str, Any]:
        return {
            "path": ResourcePath(self._path.uri, change.item).text,
            "method": change.method,
            "revision": change.revision,
            "body": bytes(change.event).decode() or None,
            "state": change.state.decode() or None,
        }


def collection_table(name: str, options: Mapping[str, str]) -> Table:
    """The table of `collection:name`. Errors: `BadInput`, among them `BadPath` and `BadFilter`."""
    path, lowercase_options = parse_path(name), {option.lower(): value for option, value in options.items()}
    if not path.is_collection:
        raise BadInput(f"{name!r:.80} is no collection.", hint="The name of a collection ends with ~, such as shop/prices~.")
    if text := lowercase_options.get("filter", ""):
        compile_filter(text)  # so that load() tells it, and not the first action
    return CollectionTable(path.uri, low=lowercase_options.get("fromid", ""), high=lowercase_options.get("toid"), filter_by=text)


def feed_table(name: str, options: Mapping[str, str]) -> Table:
    """The table of `feed:name`. Errors: `BadInput`, among them `BadPath` and `BadBounds`."""
    lowercase_options = {option.lower(): value for option, value in options.items()}
    first, last = _revision(lowercase_options.get("fromrevision", "1"), "fromRevision"), None
    if "torevision" in lowercase_options:
        last = _revision(lowercase_options["torevision"], "toRevision")
        if last < first:
            raise BadBounds(f"fromRevision {first} lies behind toRevision {last}.", hint="Exchange them.")
    return FeedTable(parse_path(name), first=first, last=last)


def _revision(text: str, option: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise BadInput(f"{option} is {text!r:.40}.", hint="A revision is a whole number from 1 on.")
    return int(text)


def _topic(log: Log, path: str) -> Topic:
    try:
        return log.topic(TOPIC)
    except UnknownTopic as error:
        raise _not_found(path) from error


def _part(log: Log, topic: Topic, uri: str) -> DocumentPart:
    settings = load().settings
    data = Path(log.address.path or settings.data).absolute()  # a task runs in another folder
    number = partition_of(uri, topic.partitions)
    return DocumentPart(settings=settings, data=str(data), partition=number, generation=topic.generation, applied=0)


def _not_found(path: str) -> DocumentNotFound:
    return DocumentNotFound(f"There is no {path}.", hint="See what there is with `headwater doc list`.")


def _item(row: DocumentRow) -> dict[str, Any]:
    return {
        "id": row.item,
        "body": row.body.decode(),
        "revision": row.revision,
        "created": row.created,
        "modified": row.modified,
        "expires": row.expires or None,
    }


def _accepted(row: DocumentRow, accepts: Any) -> bool:
    try:
        return bool(accepts(_decode(row.body)))
    except UNREADABLE:
        return False


def _columns(schema: pa.Schema, rows: list[dict[str, Any]], wanted: Sequence[str]) -> Mapping[str, pa.Array]:
    return {name: _column(schema.field(name), [row[name] for row in rows]) for name in wanted}


def _column(field: pa.Field, cells: list[Any]) -> pa.Array:
    return pa.array(cells, pa.timestamp("ms", "UTC") if field.type == _TIME else field.type)
