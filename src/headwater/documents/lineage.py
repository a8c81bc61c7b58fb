"""Whether a store was folded from this very log, and not from a copy of it that went on otherwise."""

from __future__ import annotations

from headwater.core.errors import Differs, OffsetGone
from headwater.documents.change import decode_record
from headwater.documents.store import DocumentView
from headwater.log import Log
from headwater.log.record import Topic

_BACK = 100  # records, in search of one that changes a document: others leave no place in the store


def check_lineage(log: Log, view: DocumentView, topic: Topic, number: int) -> None:
    """Compare the last change that a store has applied with the record of the log at its offset. Blocking; a few records are read.

    Two copies of one directory have logs of the same generation. Where both went on, the store of one lies at offsets that the other has,
    too, with other records: it would be taken for right, and the records that it lacks be left out for ever.
    Errors: `Differs`; those of the log and the store.
    """
    applied = view.applied()
    back = 1 if log.engine == "kafka" else _BACK  # only the record before an applied offset is known to count
    start = max(log.bounds(topic.name, number).start, applied - back)
    try:
        records = log.read(topic.name, number, start, limit=applied - start) if start < applied else ()
    except OffsetGone:
        return
    name = f"{topic.name}/{number}"
    for record in reversed(records):
        if record.value is None or record.offset is None or record.offset >= applied:
            continue
        logged = decode_record(record.value, f"{name} at {record.offset}")
        if not logged.changes:
            continue
        revision = logged.changes[-1].revision
        places = view.changes(logged.uri, after=revision - 1, limit=1)
        if not places or places[0] != (revision, record.offset, record.timestamp):
            raise Differs(
                f"The store of {name} was folded from a copy of the log that went on otherwise: it has another record at {record.offset}.",
                hint="Bring back the store that belongs to the log, or fold it anew with `headwater doc rebuild`.",
            )
        return
