"""The operations on journals: the table from which routes, checks, OpenAPI, remote calls and references are made."""

from __future__ import annotations

from headwater.core.errors import (
    AlreadyExists,
    BadBounds,
    BadConfig,
    Conflict,
    Damaged,
    Differs,
    DiskFull,
    Erased,
    Fenced,
    KeyReused,
    LogGap,
    NotFound,
    NotOwner,
    OffsetGone,
    OutcomeUnknown,
    OwnedTopic,
    TooLarge,
    Unavailable,
    Undecryptable,
    UnknownJournal,
    UnreadableRecord,
    Unsupported,
    WrongExpected,
)
from headwater.journal import answers, requests
from headwater.journal.bodies import JSON, LINES, BulkLine, content, send_append
from headwater.journal.care_operations import CARE
from headwater.journal.cipher_operations import CIPHER
from headwater.journal.projection_operations import PROJECTION_OPERATIONS
from headwater.journal.settings import JOURNAL_SECTION
from headwater.journal.snapshot_operations import SNAPSHOTS
from headwater.journal.transfer_operations import TRANSFER
from headwater.journal.write import Appended
from headwater.wire import json
from headwater.wire.operation import Operation, Paging, Role
from headwater.wire.part import PartDefinition

_TOPIC = "/journals/{topic}"
_JOURNAL = f"{_TOPIC}/{{id}}"
_EVENTS = f"{_JOURNAL}/events"
_KNOWN = (UnknownJournal, Damaged, Unavailable)
_CIPHER = (Undecryptable, BadConfig, Unsupported)
_READS = (*_KNOWN, *_CIPHER, Erased, BadBounds, LogGap, UnreadableRecord, Differs, Conflict, OffsetGone)
_WRITES = (*_KNOWN, *_CIPHER, LogGap, UnreadableRecord, Differs, NotOwner, Fenced, OwnedTopic, DiskFull, OutcomeUnknown, TooLarge)


def _sent(request: requests.AppendEvents) -> tuple[str, bytes]:
    return JSON, b"" if request.body is None else send_append(request.body)


def _sent_lines(request: requests.AppendMany) -> tuple[str, bytes]:
    return LINES, b"".join(json.encode({"id": line.id, **json.decoder(dict)(send_append(line))}) + b"\n" for line in request.lines)


LIST = Operation(
    part="journal",
    name="list",
    method="GET",
    path="/journals",
    request=requests.ListJournals,
    answer=list[answers.ShownJournals],
    role=Role.READER,
    says="Every topic of journals, sorted by name.",
    paging=Paging(by=("topic",), usual=100, most=1000),
    errors=(Unavailable,),
    commands={"topics": ""},
)
CREATE = Operation(
    part="journal",
    name="create",
    method="PUT",
    path=_TOPIC,
    request=requests.CreateJournals,
    answer=answers.ShownJournals,
    role=Role.OPERATOR,
    changes=True,
    says="Create a topic of journals. One that is there stays as it is; with a cipher, its new events are encrypted.",
    statuses={201: "Created.", 200: "It was there."},
    errors=(AlreadyExists, BadConfig, Conflict, Differs, OwnedTopic, DiskFull, Unavailable, Unsupported),
)
IDS = Operation(
    part="journal",
    name="ids",
    method="GET",
    path=_TOPIC,
    request=requests.LookAtJournals,
    answer=answers.TopicPage,
    role=Role.READER,
    says="The journals of a topic, by id: a page, or all as lines (Accept: application/x-ndjson); or its status, or its pointers. "
    "With Accept: text/event-stream, its events.",
    continues="after",
    errors=_READS,
    commands={"ids {topic}": "", "status {topic}": "view=status", "pointers {topic}": "view=pointers"},
)
ID_LINES = Operation(
    part="journal",
    name="id_lines",
    method="GET",
    path=_TOPIC,
    request=requests.LookAtJournals,
    answer=str,
    kind="stream",
    role=Role.READER,
    says="Every journal of a topic, one id a line.",
    media="application/x-ndjson",
    errors=_READS,
)
FOLLOW = Operation(
    part="journal",
    name="follow",
    method="GET",
    path=_TOPIC,
    request=requests.FollowJournals,
    answer=answers.ShownFollowedEvent,
    kind="stream",
    role=Role.READER,
    says="The events of a topic, those that were appended and then those that come: the id of each is the position to go on from.",
    media="text/event-stream",
    errors=(*_KNOWN, *_CIPHER, OffsetGone, UnreadableRecord, Differs, LogGap),
)
APPEND_MANY = Operation(
    part="journal",
    name="append_many",
    method="POST",
    path=_TOPIC,
    request=requests.AppendMany,
    answer=bytes,
    role=Role.WRITER,
    changes=True,
    patience=None,
    says="Append to many journals: a line is one Append, and each has its own line of the answer, an Append or a problem.",
    statuses={200: "A line for each line."},
    content={LINES: {"$struct": BulkLine}},
    sends=_sent_lines,
    media=LINES,
    errors=_WRITES,
)
HEAD = Operation(
    part="journal",
    name="head",
    method="GET",
    path=_JOURNAL,
    request=requests.HeadRequest,
    answer=answers.ShownHead,
    role=Role.READER,
    says="The head of a journal. Its ETag is its last number, which If-Match of an Append takes.",
    errors=(*_READS, NotFound),
    commands={"pointer {topic} {id}": ""},
)
PURGE = Operation(
    part="journal",
    name="purge",
    method="DELETE",
    path=_JOURNAL,
    request=requests.JournalRequest,
    answer=answers.JournalChanged,
    role=Role.OPERATOR,
    changes=True,
    says="Remove a journal, for good. One that is appended to later begins at 1.",
    errors=_WRITES,
)
READ_PAGE = Operation(
    part="journal",
    name="read_page",
    method="GET",
    path=_EVENTS,
    request=requests.ReadEvents,
    answer=answers.EventsPage,
    role=Role.READER,
    says="Events of a journal: a page; all as lines (Accept: application/x-ndjson); or all as events (Accept: text/event-stream).",
    continues="from",
    errors=_READS,
)
READ_LINES = Operation(
    part="journal",
    name="read_lines",
    method="GET",
    path=_EVENTS,
    request=requests.ReadEvents,
    answer=answers.ShownJournalEvent,
    kind="stream",
    role=Role.READER,
    says="The events of a journal, one a line.",
    media="application/x-ndjson",
    errors=_READS,
)
READ = Operation(
    part="journal",
    name="read",
    method="GET",
    path=_EVENTS,
    request=requests.ReadEvents,
    answer=answers.ShownJournalEvent,
    kind="stream",
    role=Role.READER,
    says="The events of a journal, as events. A failure in the midst of it is an event, too.",
    media="text/event-stream",
    errors=_READS,
)
APPEND = Operation(
    part="journal",
    name="append",
    method="POST",
    path=_EVENTS,
    request=requests.AppendEvents,
    answer=Appended,
    role=Role.WRITER,
    changes=True,
    patience=None,
    says="Append events as one record. The answer comes when they are durable.",
    statuses={201: "The numbers of the events, and where they lie."},
    content=content(),
    sends=_sent,
    errors=(*_WRITES, WrongExpected, KeyReused),
)
DELETE = Operation(
    part="journal",
    name="delete",
    method="DELETE",
    path=_EVENTS,
    request=requests.DeleteEvents,
    answer=answers.JournalChanged,
    role=Role.WRITER,
    changes=True,
    says="Delete the events of a journal up to a number, with it. Its last number stays.",
    errors=_WRITES,
)
MARK = Operation(
    part="journal",
    name="mark",
    method="POST",
    path=f"{_JOURNAL}/marks",
    request=requests.MarkJournal,
    answer=answers.JournalChanged,
    role=Role.WRITER,
    changes=True,
    says="Put a mark into the partition of a journal. Whoever has read it has read everything before it.",
    statuses={201: "Where the mark lies."},
    errors=_WRITES,
)
TRAIL = Operation(
    part="journal",
    name="trail",
    method="GET",
    path=f"{_JOURNAL}/trail",
    request=requests.TrailRequest,
    answer=answers.JournalTrail,
    role=Role.READER,
    says="A journal on its way: its newest records in the log, its head in the store, and how far the store lags behind.",
    errors=_READS,
)

JOURNAL = PartDefinition(
    name="journal",
    door="journals",
    operations=(
        LIST, CREATE, IDS, ID_LINES, FOLLOW, APPEND_MANY, HEAD, PURGE, READ_PAGE, READ_LINES, READ, APPEND, DELETE, MARK, TRAIL,
        *SNAPSHOTS, *CARE, *TRANSFER, *CIPHER, *PROJECTION_OPERATIONS,
    ),
    performs="headwater.client.journal_performer:JournalPerformer",
    offers="headwater.client.journals:Journals",
    handlers="headwater.server.journal_handlers:JournalHandlers",
    measures="headwater.server.journal_metrics:measure",
    opens="headwater.server.journal_replicator:opens",
    closes="headwater.server.journal_replicator:closes",
    commands="headwater.cli.journal:group",
    tables={"journal": "headwater.journal.spark_tables:journal_table"},
    sections=(JOURNAL_SECTION,),
    instead="headwater.journal.topic_hints:instead",
    chapter="headwater.server.tour.journal_chapter:journal_chapter",
)  # fmt: skip
