"""What is asked of regions: the requests of the operations, with what cannot be asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from headwater.core.errors import BadBounds, BadInput
from headwater.core.units import Duration
from headwater.log.json_form import Decoder
from headwater.wal.bounds import Included, SequenceRange, sequence_range
from headwater.wal.layout import MAX_ID
from headwater.wal.payloads import check_payloads
from headwater.wal.region_topics import RegionTopics, checked_id, region_topics
from headwater.wal.settings import RegionSettings
from headwater.wire.operation import DryRun, Request, described, placed

EVENT_ID = "^[0-9]{1,18}$"
_DURATION = "^[1-9][0-9]{0,8}(?:\\.[0-9]{1,3})?(?:ms|s|m|h|d)$"
_TABLES = re.compile(r"^[0-9]{1,20}(?:,[0-9]{1,20})*$")
Namespace = Annotated[str, described("The namespace of the region.", pattern="^[A-Za-z0-9][A-Za-z0-9.-]{0,99}$")]
RegionNumber = Annotated[int, described("The number of the region, from 0 to 2^64-1: /wal/wal/7", unsigned=True)]
TableNumber = Annotated[int, described("The number of the table, from 0 to 2^64-1.", unsigned=True)]


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
    period: Annotated[
        str | None, described("When its log closes a segment, too: hour, day or month of the UTC calendar, or a duration.")
    ] = None
    max_record: Annotated[str | None, described("The largest write, such as 16MiB.")] = None
    disposal: Annotated[str | None, described("What becomes of the files of removed segments, such as secure-delete.")] = None
    replication: Annotated[int | None, described("On how many brokers of Kafka it is kept.")] = None

    @property
    def settings(self) -> RegionSettings:
        return RegionSettings(
            segment=self.segment, period=self.period, max_record=self.max_record, disposal=self.disposal, replication=self.replication
        )


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

    after: Annotated[int | None, described("The id of the last event that was seen: go on behind it.")] = None
    last_event: Annotated[
        str | None, placed("header", "The id of the last event that was seen. Outranks `after`.", pattern=EVENT_ID, name="Last-Event-ID")
    ] = None

    @property
    def last(self) -> int | None:
        """The id of the last event that was seen."""
        return self.after if self.last_event is None else int(self.last_event)
