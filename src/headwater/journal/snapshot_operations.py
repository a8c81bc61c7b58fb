"""The operations on the snapshots of a journal."""

from __future__ import annotations

from headwater.core.errors import (
    BadBounds,
    BadConfig,
    Conflict,
    Damaged,
    Differs,
    DiskFull,
    Erased,
    LogGap,
    NotFound,
    OffsetGone,
    OutcomeUnknown,
    OwnedTopic,
    TooLarge,
    Unavailable,
    Undecryptable,
    UnknownJournal,
    UnreadableRecord,
    Unsupported,
)
from headwater.journal import answers
from headwater.journal import snapshot_requests as requests
from headwater.journal.bodies import JSON
from headwater.wire.operation import Operation, Role

_PATH = "/journals/{topic}/{id}/snapshots"
_CIPHER = (Undecryptable, BadConfig, Unsupported)
_READS = (UnknownJournal, Damaged, Unavailable, *_CIPHER, Erased, BadBounds, LogGap, UnreadableRecord, Differs, Conflict, OffsetGone)
_WRITES = (*_READS, OwnedTopic, DiskFull, OutcomeUnknown)


def _sent(request: requests.SaveSnapshot) -> tuple[str, bytes]:
    return JSON, b"" if request.body is None else requests.send_snapshot(request.body)


SNAPSHOTS_FIND = Operation(
    part="journal",
    name="snapshots_find",
    method="GET",
    path=_PATH,
    request=requests.FindSnapshots,
    answer=answers.SnapshotsFound,
    role=Role.READER,
    says="The snapshots of a journal, the newest first; or, with newest=true, the newest one that matches, with its payload.",
    errors=_READS,
    commands={"snapshot list {topic} {id}": "", "snapshot load {topic} {id}": "newest=true"},
)
SNAPSHOTS_SAVE = Operation(
    part="journal",
    name="snapshots_save",
    method="PUT",
    path=_PATH,
    request=requests.SaveSnapshot,
    answer=answers.SavedSnapshot,
    role=Role.WRITER,
    changes=True,
    patience=None,
    says="Save a snapshot of a journal: of its last event, or of an earlier one. The answer comes when it is durable.",
    statuses={201: "Where the snapshot lies."},
    content={JSON: {"$struct": requests.SnapshotBody}},
    sends=_sent,
    errors=(*_WRITES, NotFound, TooLarge),
    commands={"snapshot save {topic} {id}": ""},
)
SNAPSHOTS_DELETE = Operation(
    part="journal",
    name="snapshots_delete",
    method="DELETE",
    path=_PATH,
    request=requests.DeleteSnapshots,
    answer=answers.DeletedSnapshots,
    role=Role.WRITER,
    changes=True,
    says="Delete snapshots of a journal: by number, or by bounds. Its events stay.",
    errors=_WRITES,
    commands={"snapshot delete {topic} {id}": ""},
)
SNAPSHOTS = (SNAPSHOTS_FIND, SNAPSHOTS_SAVE, SNAPSHOTS_DELETE)
