"""The operations on regions: the table from which routes, checks, OpenAPI, remote calls and references are made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from headwater.core.errors import (
    BadBounds,
    BadInput,
    Conflict,
    Damaged,
    Differs,
    DiskFull,
    Fenced,
    NotOwner,
    OffsetGone,
    OutcomeUnknown,
    RegionNotFound,
    Timeout,
    TooLarge,
    Unavailable,
    UnknownTable,
)
from headwater.core.units import Duration
from headwater.log.json_form import Decoder
from headwater.wal import answers
from headwater.wal.bounds import Included, SequenceRange, sequence_range
from headwater.wal.layout import MAX_ID
from headwater.wal.payloads import check_payloads, send_payloads
from headwater.wal.region_topics import RegionTopics, checked_id, region_topics
from headwater.wal.settings import WAL_SECTION, RegionSettings
from headwater.wire.operation import DryRun, Operation, Paging, Request, Role, Schema, described, placed
from headwater.wire.part import PartDefinition

EVENT_ID = "^[0-9]{1,18}$"
_DURATION = "^[1-9][0-9]{0,8}(?:\\.[0-9]{1,3})?(?:ms|s|m|h|d)$"
_TABLES = re.compile(r"^[0-9]{1,20}(?:,[0-9]{1,20})*$")
Namespace = Annotated[str, described("The namespace of the region.", pattern="^[A-Za-z0-9][A-Za-z0-9.-]{0,99}$")]
RegionNumber = Annotated[int, described("The number of the region, from 0 to 2^64-1: /wal/wal/7", unsigned=True)]
TableNumber = Annotated[int, described("The number of the table, from 0 to 2^64-1.", unsigned=True)]


# -- what is asked ----------------------------------------------------------------------------------------------


class ListRegions(Request, frozen=True, kw_only=True):
    """Nothing more."""


class NamespaceRequest(Request, frozen=True, kw_only=True):
    """A namespace."""

    namespace: Namespace

    def check(self) -> None:
        region_topics(self.namespace, 0)


class RegionRequest(NamespaceRequest, frozen=True, kw_only=True):
    """A region."""

    region: RegionNumber

    @property
    def topics(self) -> RegionTopics:
        """Errors: `BadInput`."""
        return region_topics(self.namespace, self.region)

    def check(self) -> None:
        region_topics(self.namespace, self.region)


class NewRegion(RegionRequest, frozen=True, kw_only=True):
    """Settings of a new region; what is left out is as configured for topics."""

    segment: Annotated[str | None, described("The size at which its log closes a segment, such as 64MiB.")] = None
    period: Annotated[str | None, described("The age at which its log closes a segment, such as 1h.")] = None
    max_record: Annotated[str | None, described("The largest write, such as 16MiB.")] = None

    @property
    def settings(self) -> RegionSettings:
        return RegionSettings(segment=self.segment, period=self.period, max_record=self.max_record)


class CloseRegion(RegionRequest, frozen=True, kw_only=True):
    """How it is closed."""

    graceful: Annotated[bool, described("Store its state first, so that the next opening reads nothing but that.")] = True


class ChangeRegion(RegionRequest, frozen=True, kw_only=True):
    """What is changed."""

    dry_run: DryRun = False


class RecoverRegion(ChangeRegion, frozen=True, kw_only=True):
    """What may be lost."""

    accept_loss: Annotated[bool, described("Where the beginning of the log is lost, let every table begin with what is left of it.")] = (
        False
    )


class TableRequest(RegionRequest, frozen=True, kw_only=True):
    """A table of a region."""

    table: TableNumber

    def check(self) -> None:
        super().check()
        checked_id(self.table, "table")


class ChangeTable(TableRequest, frozen=True, kw_only=True):
    """What is changed."""

    dry_run: DryRun = False


class MarkTable(ChangeTable, frozen=True, kw_only=True):
    """Up to where the table is flushed."""

    sequence: Annotated[
        int,
        msgspec.Meta(
            description="The last sequence that is safe elsewhere, up to 2^64-1.", extra_json_schema={"minimum": 0, "maximum": MAX_ID}
        ),
    ]

    def check(self) -> None:
        super().check()
        checked_id(self.sequence, "sequence")


class WriteEntries(TableRequest, frozen=True, kw_only=True):
    """Where the payloads of the body go."""

    timeout: Annotated[
        str | None,
        placed("query", "How long to wait until they are durable, such as 5s. Left out: as long as it takes.", pattern=_DURATION),
    ] = None
    payloads: Sequence[bytes] = ()

    @property
    def seconds(self) -> float | None:
        """Errors: `BadInput` for what is no duration."""
        waits = None if self.timeout is None else Duration.parse(self.timeout)
        if waits == 0:
            raise BadInput("A timeout of nothing leaves no time to write.", hint="Give such as 5s, or leave it out.")
        return None if waits is None else waits.seconds

    def check(self) -> None:
        super().check()
        check_payloads(self.payloads)
        _ = self.seconds


class ReadEntries(TableRequest, frozen=True, kw_only=True):
    """Which payloads of a table, and how they are shown."""

    start: Annotated[int | None, described("The first sequence. Left out: the first that is not flushed.", unsigned=True)] = msgspec.field(
        default=None, name="from"
    )
    stop: Annotated[int | None, described("The last sequence.", unsigned=True)] = msgspec.field(default=None, name="to")
    after: Annotated[int | None, described("The last sequence that was seen: go on behind it. Outranks `from`.", unsigned=True)] = None
    limit: Annotated[int | None, described("The most payloads: 100 unless said for a page, all otherwise.", least=1, most=10_000)] = None
    decode: Annotated[Decoder, described("How payloads are shown. What does not fit is shown as $binary.")] = "text"

    @property
    def range(self) -> SequenceRange:
        """Errors: `BadBounds`."""
        if self.after == MAX_ID:
            raise BadBounds(f"No sequence lies behind {MAX_ID}.", hint="Give a lower one.")
        first = self.start if self.after is None else self.after + 1
        return sequence_range("min" if first is None else Included(first), "max" if self.stop is None else Included(self.stop))

    def check(self) -> None:
        super().check()
        _ = self.range


class ScanRegion(RegionRequest, frozen=True, kw_only=True):
    """Which tables, and how payloads are shown."""

    tables: Annotated[str | None, described("Only these tables: their numbers, with commas between.", pattern=_TABLES.pattern)] = None
    decode: Annotated[Decoder, described("How payloads are shown. What does not fit is shown as $binary.")] = "text"

    @property
    def wanted(self) -> frozenset[int] | None:
        """Errors: `BadInput`."""
        if self.tables is None:
            return None
        if not _TABLES.fullmatch(self.tables):
            raise BadInput(f"{self.tables!r} are no numbers of tables.", hint="Write them such as tables=1,5,12.")
        return frozenset(checked_id(int(number), "table") for number in self.tables.split(","))

    def check(self) -> None:
        super().check()
        _ = self.wanted


class FollowRegion(RegionRequest, frozen=True, kw_only=True):
    """Where to go on."""

    after: Annotated[int | None, described("The id of the last event that was seen: go on behind it. Outranks Last-Event-ID.")] = None
    last_event: Annotated[
        str | None, placed("header", "The id of the last event that was seen.", pattern=EVENT_ID, name="Last-Event-ID")
    ] = None

    @property
    def last(self) -> int | None:
        """The id of the last event that was seen."""
        return self.after if self.after is not None else None if self.last_event is None else int(self.last_event)


# -- the table --------------------------------------------------------------------------------------------------

_REGION = "/wal/{namespace}/{region}"
_TABLE = f"{_REGION}/tables/{{table}}"
_ENTRIES = f"{_TABLE}/entries"
_KNOWN = (RegionNotFound, Damaged, Unavailable)
_OWNS = (*_KNOWN, NotOwner, Fenced, Conflict, DiskFull, OutcomeUnknown)
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
    errors=(Conflict, DiskFull, Unavailable),
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
    role=Role.OPERATOR,
    changes=True,
    says="Let another process own a region. The next write opens it again.",
    errors=_OWNS,
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
    says="Writes, marks, drops, moves and cleans of a region as they happen: events whose id is the offset.",
    media="text/event-stream",
    errors=_KNOWN,
)

WAL = PartDefinition(
    name="wal",
    door="wal",
    operations=(
        REGIONS, REGIONS_OF, CREATE, STATISTICS, OPEN, TAKE_OVER, CLOSE, TABLES, SEQUENCE_NUM, READ_PAGE, READ_LINES, READ, WRITE,
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
    chapter="headwater.server.tour.wal_chapter:wal_chapter",
)  # fmt: skip
