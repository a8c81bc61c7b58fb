"""The operations on regions: the table from which routes, checks, OpenAPI, remote calls and references are made."""

from __future__ import annotations

from headwater.core.errors import (
    BadBounds,
    Conflict,
    Damaged,
    Differs,
    DiskFull,
    Fenced,
    NotOwner,
    OffsetGone,
    OutcomeUnknown,
    OwnedTopic,
    RegionNotFound,
    Timeout,
    TooLarge,
    Unavailable,
    UnknownTable,
)
from headwater.wal import answers
from headwater.wal.payloads import send_payloads
from headwater.wal.requests import (
    ChangeRegion,
    ChangeTable,
    CloseRegion,
    FollowRegion,
    ListRegions,
    MarkTable,
    NamespaceRequest,
    NewRegion,
    ReadEntries,
    RecoverRegion,
    RegionRequest,
    ScanRegion,
    TableRequest,
    WriteEntries,
)
from headwater.wal.settings import WAL_SECTION
from headwater.wire.operation import Operation, Paging, Role, Schema
from headwater.wire.part import PartDefinition

# -- the table --------------------------------------------------------------------------------------------------

_REGION = "/wal/{namespace}/{region}"
_TABLE = f"{_REGION}/tables/{{table}}"
_ENTRIES = f"{_TABLE}/entries"
_KNOWN = (RegionNotFound, Damaged, Unavailable)
_OWNS = (*_KNOWN, NotOwner, Fenced, OwnedTopic, Conflict, DiskFull, OutcomeUnknown)
_READS = (*_KNOWN, BadBounds, OffsetGone)
_PAYLOAD: Schema = {"description": 'Text is stored as its UTF-8, {"$binary": base64} as its bytes, and any other JSON as it is written.'}
_PAYLOADS: dict[str, Schema] = {
    "application/json": {
        "type": "object",
        "properties": {"payloads": {"type": "array", "minItems": 1, "items": {**_PAYLOAD, "not": {"type": "null"}}}},
        "required": ["payloads"],
        "additionalProperties": False,
    },
    "application/x-ndjson": {"type": "string", "description": "One payload a line."},
    "application/octet-stream": {"type": "string", "format": "binary", "description": "One payload, as it is."},
}

REGIONS = Operation(
    part="wal",
    name="regions",
    method="GET",
    path="/wal",
    request=ListRegions,
    answer=list[answers.RegionSummary],
    role=Role.READER,
    says="Every region, sorted by namespace and number.",
    paging=Paging(by=("namespace", "region"), usual=100, most=1000),
    errors=(Unavailable,),
)
REGIONS_OF = Operation(
    part="wal",
    name="regions_of",
    method="GET",
    path="/wal/{namespace}",
    request=NamespaceRequest,
    answer=list[answers.RegionSummary],
    role=Role.READER,
    says="The regions of a namespace, sorted by number.",
    paging=Paging(by=("namespace", "region"), usual=100, most=1000),
    errors=(Unavailable,),
)
CREATE = Operation(
    part="wal",
    name="create",
    method="PUT",
    path=_REGION,
    request=NewRegion,
    answer=answers.RegionSummary,
    role=Role.OPERATOR,
    changes=True,
    says="Create a region. One that is there stays as it is, unless other settings are given.",
    statuses={201: "Created.", 200: "It was there."},
    errors=(Conflict, OwnedTopic, DiskFull, Unavailable),
)
STATISTICS = Operation(
    part="wal",
    name="statistics",
    method="GET",
    path=_REGION,
    request=RegionRequest,
    answer=answers.RegionStatistics,
    role=Role.READER,
    says="What a region holds: offsets, tables, live and pinned entries, snapshots, its owner.",
    errors=_KNOWN,
    commands={"stats {namespace}/{region}": ""},
)
OPEN = Operation(
    part="wal",
    name="open",
    method="POST",
    path=f"{_REGION}/open",
    request=RegionRequest,
    answer=answers.RegionRecovered,
    role=Role.WRITER,
    changes=True,
    patience=None,
    says="Own a region and recover its state. A write does so, too.",
    errors=_OWNS,
)
TAKE_OVER = Operation(
    part="wal",
    name="take_over",
    method="POST",
    path=f"{_REGION}/take-over",
    request=RegionRequest,
    answer=answers.RegionRecovered,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Own a region although a living process owns it, whose writes are refused from then on.",
    errors=_OWNS,
)
CLOSE = Operation(
    part="wal",
    name="close",
    method="POST",
    path=f"{_REGION}/close",
    request=CloseRegion,
    answer=answers.RegionClosed,
    role=Role.WRITER,
    changes=True,
    says="Let another process own a region. The next write opens it again.",
    errors=_OWNS,
)
DELETE = Operation(
    part="wal",
    name="delete",
    method="DELETE",
    path=_REGION,
    request=ChangeRegion,
    answer=answers.RegionDeleted,
    role=Role.OPERATOR,
    changes=True,
    says="Delete a region with all of its tables, for good.",
    errors=(RegionNotFound, NotOwner, OwnedTopic, Conflict, Unavailable),
)
TABLES = Operation(
    part="wal",
    name="tables",
    method="GET",
    path=f"{_REGION}/tables",
    request=RegionRequest,
    answer=list[answers.TableState],
    role=Role.READER,
    says="Every table of a region, sorted by number.",
    paging=Paging(by=("table",), usual=1000, most=10_000, numbered=True),
    errors=_KNOWN,
)
SEQUENCE_NUM = Operation(
    part="wal",
    name="sequence_num",
    method="GET",
    path=_TABLE,
    request=TableRequest,
    answer=answers.LastSequence,
    role=Role.READER,
    says="The last sequence of a table; 0 for an unknown one.",
    errors=_KNOWN,
)
READ_PAGE = Operation(
    part="wal",
    name="read_page",
    method="GET",
    path=_ENTRIES,
    request=ReadEntries,
    answer=answers.EntriesPage,
    role=Role.READER,
    says="Live payloads of a table: a page; all as lines (Accept: application/x-ndjson); or all as events (Accept: text/event-stream).",
    continues="from",
    errors=_READS,
)
READ_LINES = Operation(
    part="wal",
    name="read_lines",
    method="GET",
    path=_ENTRIES,
    request=ReadEntries,
    answer=answers.ShownEntry,
    kind="stream",
    role=Role.READER,
    says="Every live payload of a table between two bounds, one a line.",
    media="application/x-ndjson",
    errors=_READS,
)
READ = Operation(
    part="wal",
    name="read",
    method="GET",
    path=_ENTRIES,
    request=ReadEntries,
    answer=answers.ShownEntry,
    kind="stream",
    role=Role.READER,
    says="Every live payload of a table between two bounds, as events. A failure in the midst of it is an event, too.",
    media="text/event-stream",
    errors=_READS,
)
WRITE = Operation(
    part="wal",
    name="write",
    method="POST",
    path=_ENTRIES,
    request=WriteEntries,
    answer=answers.Written,
    role=Role.WRITER,
    changes=True,
    patience=None,
    says="Write payloads as one record: a list, lines of them, or one as it is. The answer comes when they are durable.",
    statuses={201: "The sequence of the last one."},
    content=_PAYLOADS,
    sends=send_payloads,
    errors=(*_OWNS, TooLarge, Timeout),
)
MARK_DELETE_UP_TO = Operation(
    part="wal",
    name="mark_delete_up_to",
    method="POST",
    path=f"{_TABLE}/mark",
    request=MarkTable,
    answer=answers.TableMarked,
    role=Role.WRITER,
    changes=True,
    says="Forget the payloads of a table up to a sequence, with it: they are safe elsewhere.",
    errors=(*_OWNS, UnknownTable),
    commands={"mark {namespace}/{region} {table}": ""},
)
DROP_TABLE = Operation(
    part="wal",
    name="drop_table",
    method="DELETE",
    path=_TABLE,
    request=ChangeTable,
    answer=answers.TableDropped,
    role=Role.OPERATOR,
    changes=True,
    says="Forget a table and all of its payloads, for good.",
    errors=(*_OWNS, UnknownTable),
    commands={"drop {namespace}/{region} {table}": ""},
)
MOVE = Operation(
    part="wal",
    name="move",
    method="POST",
    path=f"{_TABLE}/move",
    request=ChangeTable,
    answer=answers.TableMoved,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Copy the live payloads of a table to the end of the log, so that it no longer pins what lies before.",
    errors=(*_OWNS, UnknownTable),
)
SCAN_LINES = Operation(
    part="wal",
    name="scan_lines",
    method="GET",
    path=f"{_REGION}/scan",
    request=ScanRegion,
    answer=answers.ShownEntry,
    kind="stream",
    role=Role.READER,
    says="The live payloads of all tables in the order of the log, one a line; or as events (Accept: text/event-stream).",
    media="application/x-ndjson",
    errors=_READS,
)
SCAN = Operation(
    part="wal",
    name="scan",
    method="GET",
    path=f"{_REGION}/scan",
    request=ScanRegion,
    answer=answers.ShownEntry,
    kind="stream",
    role=Role.READER,
    says="The live payloads of all tables in the order of the log, as events. A failure in the midst of it is an event, too.",
    media="text/event-stream",
    errors=_READS,
)
CLEAN = Operation(
    part="wal",
    name="clean",
    method="POST",
    path=f"{_REGION}/clean",
    request=ChangeRegion,
    answer=answers.RegionCleaned,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Store the state of a region, and remove what no table needs from the beginning of its log.",
    errors=_OWNS,
)
RECOVER = Operation(
    part="wal",
    name="recover",
    method="POST",
    path=f"{_REGION}/recover",
    request=RecoverRegion,
    answer=answers.RegionRecovered,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Recover the state of a region and store it anew; with `accept_loss` also where the beginning of its log is lost.",
    errors=_OWNS,
)
VERIFY = Operation(
    part="wal",
    name="verify",
    method="POST",
    path=f"{_REGION}/verify",
    request=RegionRequest,
    answer=answers.RegionVerified,
    kind="job",
    role=Role.READER,
    patience=None,
    says="Compare the stored state of a region with the one that its log tells.",
    errors=(*_KNOWN, Differs),
)
WHY = Operation(
    part="wal",
    name="why",
    method="GET",
    path=f"{_REGION}/why",
    request=RegionRequest,
    answer=answers.PinnedLog,
    role=Role.READER,
    says="Which table pins the log of a region, since when, how much of it, and what to do.",
    errors=_KNOWN,
)
EVENTS = Operation(
    part="wal",
    name="events",
    method="GET",
    path=f"{_REGION}/events",
    request=FollowRegion,
    answer=answers.RegionEvent,
    kind="stream",
    role=Role.READER,
    says="Writes, marks, drops, moves, cleans and pins of a region as they happen: events whose id is the offset.",
    media="text/event-stream",
    errors=_KNOWN,
)

WAL = PartDefinition(
    name="wal",
    door="wal",
    operations=(
        REGIONS, REGIONS_OF, CREATE, STATISTICS, OPEN, TAKE_OVER, CLOSE, DELETE, TABLES, SEQUENCE_NUM, READ_PAGE, READ_LINES, READ, WRITE,
        MARK_DELETE_UP_TO, DROP_TABLE, MOVE, SCAN_LINES, SCAN, CLEAN, RECOVER, VERIFY, WHY, EVENTS,
    ),
    performs="headwater.client.wal_performer:WalPerformer",
    offers="headwater.client.wal:WriteAheadLog",
    handlers="headwater.server.wal_handlers:WalHandlers",
    measures="headwater.client.wal_performer:measure",
    opens="headwater.client.wal_performer:opens",
    closes="headwater.client.wal_performer:closes",
    commands="headwater.cli.wal:group",
    tables={"wal": "headwater.wal.spark_tables:region_table"},
    sections=(WAL_SECTION,),
    instead="headwater.wal.region_topics:instead",
    chapter="headwater.server.tour.wal_chapter:wal_chapter",
)  # fmt: skip
