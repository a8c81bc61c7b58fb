"""The operations on the copies of journals: compare them with the log, make them anew, expire journals, and decide about dead records."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import (
    Conflict,
    Damaged,
    Differs,
    DiskFull,
    LogGap,
    NotFound,
    NotOwner,
    Unavailable,
    UnknownJournal,
    UnknownPartition,
    UnreadableRecord,
)
from headwater.journal import care_requests as care
from headwater.journal.requests import JournalsRequest
from headwater.wire.operation import Operation, Role

_TOPIC = "/replication/{topic}"
_RECORD = f"{_TOPIC}/dead/{{partition}}/{{offset}}"
_KNOWN = (UnknownJournal, Damaged, Unavailable)
_CHANGES = (*_KNOWN, NotOwner, DiskFull, LogGap)

STATS = Operation(
    part="journal",
    name="stats",
    method="GET",
    path=f"{_TOPIC}/stats",
    request=JournalsRequest,
    answer=care.TopicStats,
    role=Role.READER,
    patience=None,
    says="Count what the log keeps and what the copy holds of a topic's journals, by partition, and how far the copy is behind.",
    errors=(*_KNOWN, Conflict),
)
FORKS = Operation(
    part="journal",
    name="forks",
    method="POST",
    path=f"{_TOPIC}/forks",
    request=JournalsRequest,
    answer=care.ForkReport,
    kind="job",
    role=Role.READER,
    patience=None,
    says="Numbers of journals that several events have, as two writers make them, copied or not: the first thousand.",
    errors=(*_KNOWN, Conflict, LogGap, UnreadableRecord),
)
VERIFY = Operation(
    part="journal",
    name="verify",
    method="POST",
    path=f"{_TOPIC}/verify",
    request=JournalsRequest,
    answer=care.VerifiedCopy,
    kind="job",
    role=Role.READER,
    patience=None,
    says="Compare the copy of a topic's journals with what the log says up to the copy's pointers.",
    errors=(*_KNOWN, Differs, LogGap, UnreadableRecord),
)
BASE = Operation(
    part="journal",
    name="base",
    method="POST",
    path=f"{_TOPIC}/base",
    request=care.WriteBase,
    answer=care.WrittenBase,
    kind="job",
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Verify the copy of a topic's journals, and keep it as the base from which `rebuild` begins once the log is deleted.",
    errors=(*_KNOWN, Differs, DiskFull, LogGap, UnreadableRecord),
)
REBUILD = Operation(
    part="journal",
    name="rebuild",
    method="POST",
    path=f"{_TOPIC}/rebuild",
    request=care.RebuildCopy,
    answer=care.RebuiltCopy,
    kind="job",
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Let the replicator make the copy of a topic's journals anew, from the beginning of the log or from its base. Reads stay right "
    "meanwhile, and scan more of the log; in Cassandra they are `LogGap` while a base is restored. Cancelling ends the waiting alone.",
    errors=(*_CHANGES, UnreadableRecord),
)
EXPIRE = Operation(
    part="journal",
    name="expire",
    method="POST",
    path=f"{_TOPIC}/expire",
    request=care.ExpireJournals,
    answer=care.ExpiredJournals,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Remove the copied journals of a topic whose day has come. A replicator does so once a day.",
    errors=(*_CHANGES, UnreadableRecord),
)
DEAD: Operation[JournalsRequest, Sequence[care.ShownDead]] = Operation(
    part="journal",
    name="dead",
    method="GET",
    path=f"{_TOPIC}/dead",
    request=JournalsRequest,
    answer=list[care.ShownDead],
    role=Role.READER,
    says="The records of a topic that cannot be decoded: those that are left out, and those that stop their partition.",
    errors=_KNOWN,
)
DEAD_SHOW = Operation(
    part="journal",
    name="dead_show",
    method="GET",
    path=_RECORD,
    request=care.DeadPlace,
    answer=care.DeadContent,
    role=Role.READER,
    says="A record with its bytes, and why it cannot be decoded.",
    errors=(*_KNOWN, NotFound, UnknownPartition),
    commands={"dead {topic} show {partition} {offset}": ""},
)
DEAD_QUARANTINE = Operation(
    part="journal",
    name="dead_quarantine",
    method="POST",
    path=f"{_RECORD}/quarantine",
    request=care.QuarantineRecord,
    answer=care.ShownDead,
    role=Role.OPERATOR,
    changes=True,
    says="Leave a record out that cannot be decoded: its partition goes on behind it.",
    errors=(*_CHANGES, NotFound, UnknownPartition),
    commands={"dead {topic} quarantine {partition} {offset}": ""},
)
DEAD_DROP = Operation(
    part="journal",
    name="dead_drop",
    method="POST",
    path=f"{_RECORD}/drop",
    request=care.DropRecord,
    answer=care.ShownDead,
    role=Role.OPERATOR,
    changes=True,
    says="As quarantine, by the name that dead things of every part have for it.",
    errors=(*_CHANGES, NotFound, UnknownPartition),
    commands={"dead {topic} drop {partition} {offset}": ""},
)
DEAD_RETRY = Operation(
    part="journal",
    name="dead_retry",
    method="POST",
    path=f"{_RECORD}/retry",
    request=care.RetryRecord,
    answer=care.RetriedRecord,
    role=Role.OPERATOR,
    changes=True,
    says="Count a record again that can be decoded by now. The copy of its partition is made anew.",
    errors=(*_CHANGES, NotFound, UnknownPartition, UnreadableRecord),
    commands={"dead {topic} retry {partition} {offset}": ""},
)
CARE = (STATS, FORKS, VERIFY, BASE, REBUILD, EXPIRE, DEAD, DEAD_SHOW, DEAD_QUARANTINE, DEAD_DROP, DEAD_RETRY)
