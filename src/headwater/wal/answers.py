"""The answers of the operations on regions: their JSON, and its description for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]


class RegionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A region, and the offsets that its log keeps: from `start` up to, not including, `end`.

    `problem`: why nothing else is known of it.
    """

    namespace: str
    region: int
    start: Count
    end: Count
    settings: dict[str, str] = {}
    problem: str = ""


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """A table. `last`: the last sequence that was written; `flushed`: everything up to it is flushed.

    `live`: how many payloads are not flushed; `offset`: the lowest one that they lie at, null where there is none. `watermark`: the offset
    behind the table's last entry.
    """

    table: int
    last: int
    flushed: int
    live: Count
    offset: Count | None
    watermark: Count


class SnapshotState(msgspec.Struct, frozen=True, kw_only=True):
    """A stored snapshot: its first and its last record in the meta topic, and the first offset that it does not know."""

    first: Count
    last: Count
    watermark: Count


class RegionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a region holds. Bytes of `live` and `pinned` are about right: by the mean size of some records.

    `safe`: nothing below this offset is needed. `pinned`: the records that are kept because of one table alone, see `why`. `open`: the
    process that answered owns it. `owner`: who owns it, where that is known. `bytes`: of its log on disk; null on Kafka. `problems`: why
    snapshots could not be used when the state was recovered.
    """

    namespace: str
    region: int
    start: Count
    end: Count
    watermark: Count
    safe: Count
    tables: Count
    live_entries: Count
    live_bytes: Count
    pinned_entries: Count
    pinned_bytes: Count
    bytes: Count | None
    snapshots: list[SnapshotState]
    problems: list[str]
    open: bool
    owner: str
    settings: dict[str, str]


class LastSequence(msgspec.Struct, frozen=True):
    """The last sequence of a table; 0 where it has none."""

    sequence: int


class Written(msgspec.Struct, frozen=True):
    """The sequence of the last payload. They are durable."""

    sequence: int


class ShownEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One payload of a table."""

    table: int
    sequence: int
    offset: Count
    payload: Annotated[Any, msgspec.Meta(description="Text, JSON, hex or $binary, as `decode` says.")]


class EntriesPage(msgspec.Struct, frozen=True):
    """A page of payloads; the Link header leads to the next."""

    items: list[ShownEntry]
    next: str | None


class TableMarked(msgspec.Struct, frozen=True, kw_only=True):
    """What is flushed by now: everything up to `sequence`. `clamped`: more was asked for than was written."""

    table: int
    sequence: int
    clamped: bool
    dry_run: bool = False


class TableDropped(msgspec.Struct, frozen=True, kw_only=True):
    """The table is gone, with `live` payloads that were not flushed."""

    table: int
    last: int
    live: Count
    dry_run: bool = False


class TableMoved(msgspec.Struct, frozen=True, kw_only=True):
    """So many payloads were copied to the end of the log."""

    table: int
    entries: Count
    dry_run: bool = False


class RegionCleaned(msgspec.Struct, frozen=True, kw_only=True):
    """The log begins at `start` now, and has `removed` fewer offsets. `moved`: the tables that pinned more than `pin_limit`."""

    start: Count
    removed: Count
    moved: list[int] = []
    dry_run: bool = False


class RegionRecovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a region's state was recovered from. `lost`: something of its log is lost, and every table goes on with what
    is left.

    `records`: how many of its log were read beside the snapshot. `problems`: why snapshots could not be used.
    """

    tables: Count
    live: Count
    records: Count
    watermark: Count
    problems: list[str]
    lost: bool
    dry_run: bool = False


class RegionClosed(msgspec.Struct, frozen=True):
    """Whether it was open in the process that answered."""

    closed: bool


class RegionDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The region is gone, with so many offsets of its log."""

    namespace: str
    region: int
    offsets: Count
    dry_run: bool = False


class RegionVerified(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state is the one that the log tells. `problems`: why other snapshots could not be used."""

    tables: Count
    live: Count
    watermark: Count
    compared: Literal["full scan", "older snapshot"]
    records: Count
    problems: list[str] = []


class PinningTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that needs the log from `offset` on, since the time of that record."""

    table: int
    offset: Count
    since: str | None
    sequence: int
    live: Count


class PinnedLog(msgspec.Struct, frozen=True, kw_only=True):
    """Which table pins the log. `entries` and `bytes` are the records that could go without it: those up to the table that comes next.

    `table` is null where everything is flushed. `tables`: those that need the oldest records, the pinning one first. `advice`: what to do.
    """

    namespace: str
    region: int
    table: int | None
    since: str | None
    entries: Count
    bytes: Count
    tables: list[PinningTable]
    advice: list[str]


class RegionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a region. `first` and `last`: the sequences of a write or a move; of a mark, everything up to `last` is
    flushed; of a drop, the table ended at `last`. Of a clean, the log begins at `offset` now. Of a pin, `table` holds the log from `offset`
    on: so many `bytes` could go without it."""

    kind: Literal["write", "mark", "drop", "move", "clean", "pin"]
    offset: Count
    time: str | None = None
    table: int | None = None
    first: int | None = None
    last: int | None = None
    bytes: int | None = None
