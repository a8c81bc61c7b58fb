"""Transactions: what became of accepted writes. A transaction is a record of the log, and its id names the record's place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from headwater.core.document_errors import DocumentNotFound
from headwater.core.errors import BadBounds, BadInput
from headwater.documents.change import Method, ResourceChange
from headwater.documents.epoch_before import epoch_before
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import ResourcePath
from headwater.documents.replay import replay
from headwater.documents.store import AppendedRecord
from headwater.documents.tail import read_appended
from headwater.documents.write import transaction_id

TransactionState = Literal["accepted", "applied"]
_ID = re.compile(r"([0-9a-f]{1,3})-([0-9a-f]{1,16})-([0-9a-f]{1,16})")


class TransactionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One change. It is accepted and published once it is durable: the log is the feed. It is indexed once the store has applied it."""

    id: str
    path: str
    method: Method
    revision: int
    partition: int
    offset: int
    time: int
    """When it was accepted, in ms."""
    state: TransactionState
    accepted: bool = True
    applied: bool
    indexed: bool
    published: bool = True


def transaction_status(documents: OpenDocuments, id: str) -> TransactionStatus:
    """The status of one transaction. Blocking. Errors: `BadInput` for what is no id; `DocumentNotFound` where there is none."""
    named = _ID.fullmatch(id)
    if named is None:
        raise BadInput(f"{id!r:.60} is no transaction.", hint="Give an id as a write has returned it.")
    number, offset, revision = (int(text, 16) for text in named.groups())
    if number < documents.partitions:
        try:
            record = documents.log.read_at(documents.topic_name, number, [offset])[0]
        except BadBounds:
            record = None
        if record is not None and record.key is not None:
            appended = read_appended(record, documents.topic_name, number)
            for change in appended.record.changes:
                if change.revision == revision:
                    return _status(number, appended, change, documents.applied(number))
    raise DocumentNotFound(f"There is no transaction {id}.", hint="The log keeps transactions as long as `documents.keep` says.")


def transactions_of(documents: OpenDocuments, uri: str, *, limit: int = 100) -> list[TransactionStatus]:
    """The transactions of a document or collection, the newest first. Blocking."""
    if documents.topic is None:
        return []
    number = documents.partition_of(uri)
    with documents.view(uri) as view:
        places = view.changes(uri, limit=limit, reverse=True)
    start = documents.log.bounds(documents.topic_name, number).start
    offsets = sorted({place.offset for place in places if place.offset >= start}, reverse=True)
    records = documents.log.read_at(documents.topic_name, number, offsets)
    applied = documents.applied(number)
    appended_records = (read_appended(record, documents.topic_name, number) for record in records if record is not None)
    return _newest_first(number, appended_records, applied)[:limit]


def pending_transactions(documents: OpenDocuments, *, limit: int = 100) -> list[TransactionStatus]:
    """The transactions of all partitions that are accepted and not applied, the oldest of each first. Blocking."""
    pending: list[TransactionStatus] = []
    for number in range(documents.partitions):
        reads, applied = documents.reads(number), documents.applied(number)
        for appended in reads.tail.records(applied, reads.end()):
            pending += [_status(number, appended, change, applied) for change in appended.record.changes]
            if len(pending) >= limit:
                return pending[:limit]
    return pending


def latest_transactions(documents: OpenDocuments, *, limit: int = 100) -> list[TransactionStatus]:
    """The newest transactions of all partitions, the newest first. Blocking."""
    latest: list[TransactionStatus] = []
    for number in range(documents.partitions):
        bounds = documents.log.bounds(documents.topic_name, number)
        log, topic, start = documents.log, documents.topic_name, max(bounds.start, bounds.end - limit)
        slices = replay(log, topic, number, start, bounds.end, epoch=epoch_before(log, topic, number, start))
        appended_records = [appended for records, _ in slices for appended in records]
        latest += _newest_first(number, reversed(appended_records), documents.applied(number))
    return sorted(latest, key=lambda transaction: transaction.time, reverse=True)[:limit]


def _newest_first(number: int, records: Iterable[AppendedRecord], applied: int) -> list[TransactionStatus]:
    return [_status(number, appended, change, applied) for appended in records for change in _reversed(appended.record.changes)]


def _reversed(changes: Sequence[ResourceChange]) -> Sequence[ResourceChange]:
    return changes[::-1]


def _status(number: int, appended: AppendedRecord, change: ResourceChange, applied: int) -> TransactionStatus:
    done = appended.offset < applied  # rows of indexes are written with the applied offset, or before it
    return TransactionStatus(
        id=transaction_id(number, appended.offset, change.revision),
        path=ResourcePath(appended.record.uri, change.item).text,
        method=change.method,
        revision=change.revision,
        partition=number,
        offset=appended.offset,
        time=appended.time,
        state="applied" if done else "accepted",
        applied=done,
        indexed=done,
    )
