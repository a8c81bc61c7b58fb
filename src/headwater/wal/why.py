"""Which table pins a region's log: the one whose oldest live payload lies lowest. Nothing behind it can be removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.log import Log
from headwater.wal.answers import PinnedLog, PinningTable
from headwater.wal.recovery import Beat
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics
from headwater.wal.sizes import measured
from headwater.wire.times import show_time

_SHOWN = 10  # tables that are told


class Pin(NamedTuple):
    """A table that needs the log from `offset` on; its first live payload is `sequence`."""

    offset: int
    table: int
    sequence: int
    last: int
    live: int


class Pins(NamedTuple):
    """The tables with live payloads, the one that needs the oldest record first; and where the log ends."""

    tables: Sequence[Pin]
    watermark: int

    @property
    def pinned(self) -> tuple[int, int]:
        """The offsets that could go without the first table: from, and up to."""
        if not self.tables:
            return self.watermark, self.watermark
        return self.tables[0].offset, self.tables[1].offset if len(self.tables) > 1 else self.watermark


def pins_of(meta: RegionMeta) -> Pins:
    """The tables that need something of the log."""
    pins = [
        Pin(offset, number, table.marked, table.next - 1, table.live)
        for number, table in meta.tables.items()
        if (offset := table.safe_offset) is not None
    ]
    return Pins(sorted(pins), meta.watermark)


def why(log: Log, topics: RegionTopics, pins: Pins, beat: Beat = lambda: None) -> PinnedLog:
    """What pins the log, since when, how much of it, and what to do. Blocking: it reads what is pinned. `beat`: as for `measured`."""
    size = measured(log, topics.data, *pins.pinned, beat)
    shown = pins.tables[:_SHOWN]
    records = log.read_at(topics.data, 0, [pin.offset for pin in shown])
    tables = [
        PinningTable(
            table=pin.table,
            offset=pin.offset,
            since=None if record is None else show_text(record.timestamp),
            sequence=pin.sequence,
            live=pin.live,
        )
        for pin, record in zip(shown, records, strict=True)
    ]
    first = pins.tables[0] if pins.tables else None
    return PinnedLog(
        namespace=topics.namespace,
        region=topics.region,
        table=None if first is None else first.table,
        since=tables[0].since if tables else None,
        entries=size.records,
        bytes=size.bytes,
        tables=tables,
        advice=[] if first is None else _advice(topics, first),
    )


def show_text(timestamp: int | None) -> str | None:
    """A record's time for people and programs."""
    return None if timestamp is None else str(show_time(timestamp))


def _advice(topics: RegionTopics, pin: Pin) -> list[str]:
    return [
        f"Flush table {pin.table}, then say so: `headwater wal mark {topics} {pin.table} {pin.last}`.",
        f"Or copy its {pin.live} live payload{'' if pin.live == 1 else 's'} to the end: `headwater wal move {topics} {pin.table}`.",
        f"Then give the space back: `headwater wal clean {topics}`.",
    ]
