"""What is left of a region without the beginning of its log, or without a map: every table begins with what can still be read of it."""

from __future__ import annotations

import msgspec

from headwater.wal.layout import RecordKind
from headwater.wal.region_meta import RegionMeta
from headwater.wal.table_meta import TableMeta


class _Rest(msgspec.Struct):
    """Of one table. `known`: whether its numbers were known before its records. `offsets`: by sequence."""

    next: int = 1
    marked: int = 1
    watermark: int = 0
    known: bool = False
    offsets: dict[int, int] = msgspec.field(default_factory=dict)


class Remainder:
    """Takes the records that are left, in the order of their offsets. `watermark` and `epoch` are those of a `RegionMeta`."""

    def __init__(self, *, watermark: int, tables: dict[int, tuple[int, int, int]] | None = None) -> None:
        """`tables`: next, marked and watermark of those that are known."""
        self.watermark, self.epoch = watermark, 0
        self.lost: list[str] = []  # by `meta`: what is missing of known tables
        self._tables = {number: _Rest(*known, known=True) for number, known in (tables or {}).items()}

    def apply(self, kind: RecordKind, table: int, sequence: int, count: int, offset: int) -> None:
        """As `RegionMeta.apply`; no record is refused, because it may build on one that is gone."""
        self.watermark = offset + 1
        if kind is RecordKind.DROP:
            self._tables.pop(table, None)
            return
        rest = self._tables.setdefault(table, _Rest())
        if kind is RecordKind.MARK:  # its table was written up to there, so that its numbers do not begin anew
            rest.marked, rest.next = max(rest.marked, sequence), max(rest.next, sequence)
        else:
            rest.offsets.update(dict.fromkeys(range(sequence, sequence + count), offset))
            rest.next, rest.watermark = max(rest.next, sequence + count), offset + 1

    def pass_over(self, offset: int) -> None:
        """As `RegionMeta.pass_over`."""
        self.watermark = offset + 1

    def meta(self) -> RegionMeta:
        """The state: of each table the last sequences without a gap. What was live when the log was cleaned has none."""
        meta = RegionMeta(watermark=self.watermark, epoch=self.epoch)
        for number, rest in self._tables.items():
            first = rest.next
            while first > rest.marked and first - 1 in rest.offsets:
                first -= 1
            if rest.known and first > rest.marked:
                self.lost.append(f"table {number} has lost {rest.marked} to {first - 1}")
            offsets = [rest.offsets[sequence] for sequence in range(first, rest.next)]
            meta.tables[number] = TableMeta(next=rest.next, marked=first, watermark=rest.watermark, offsets=offsets)
        return meta
