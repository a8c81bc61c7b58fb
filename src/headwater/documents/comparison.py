"""Whether the store of a partition has what records of the log say."""

from __future__ import annotations

from typing import NamedTuple

from headwater.documents.change import ResourceChange
from headwater.documents.epoch_before import epoch_before
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.replay import replay
from headwater.documents.store import AppendedRecord, DocumentView
from headwater.documents.tail import read_appended

_MOST_LATER = 10_000  # changes of one document that are looked at for what became of an item


class ComparedChanges(NamedTuple):
    """How many changes the store lacks, or has otherwise; and the time over which those that were compared have come, in ms."""

    lacking: int = 0
    span: int = 0


def compare_changes(documents: OpenDocuments, number: int, start: int, end: int) -> ComparedChanges:
    """Compare the changes of the offsets [start, end) with the store. Blocking.

    Changes that the store has not applied yet are none of them: hot recovery looks after those. Errors: those of the log and the store.
    """
    reads = documents.reads(number)
    with reads.store.view() as view:
        end = min(end, view.applied())
        if start >= end:
            return ComparedChanges()
        log, topic = documents.log, documents.topic_name
        epoch = epoch_before(log, topic, number, start)
        records = [appended for slice, _ in replay(log, topic, number, start, end, epoch=epoch) for appended in slice]
        newest: dict[tuple[str, str], int] = {}
        for appended in records:
            for change in appended.record.changes:
                newest[appended.record.uri, change.item] = change.revision
        count = 0
        for appended in records:
            for change in appended.record.changes:
                last = newest[appended.record.uri, change.item] == change.revision
                count += not _has_place(view, appended, change) or (last and not _has_state(documents, view, number, appended, change))
        return ComparedChanges(count, max(0, records[-1].time - records[0].time) if records else 0)


def _has_place(view: DocumentView, appended: AppendedRecord, change: ResourceChange) -> bool:
    places = view.changes(appended.record.uri, after=change.revision - 1, limit=1)
    return bool(places) and places[0] == (change.revision, appended.offset, appended.time)


def _has_state(documents: OpenDocuments, view: DocumentView, number: int, appended: AppendedRecord, change: ResourceChange) -> bool:
    """Whether the row is as the change left it, or as a later change did."""
    uri = appended.record.uri
    head = view.head(uri)
    if head is None or head.revision < change.revision:
        return False
    if change.method == "delete" and not change.item:
        return head.revision > change.revision or head.deleted
    row = view.row(uri, change.item)
    if row is not None:
        if row.revision > change.revision:
            return True
        return change.method != "delete" and row.revision == change.revision and row.body == change.state
    return change.method == "delete" or head.deleted or _deleted_later(documents, view, number, uri, change)


def _deleted_later(documents: OpenDocuments, view: DocumentView, number: int, uri: str, change: ResourceChange) -> bool:
    places = view.changes(uri, after=change.revision, limit=_MOST_LATER)
    for record in documents.log.read_at(documents.topic_name, number, sorted({place.offset for place in places})):
        if record is None:
            continue
        for later in read_appended(record, documents.topic_name, number).record.changes:
            if later.revision > change.revision and later.method == "delete" and later.item in ("", change.item):
                return True
    return len(places) == _MOST_LATER  # too many to know
