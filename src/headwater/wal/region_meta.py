"""The fold of a region's log: what every record changes. Pure: the same records give the same state, from whatever snapshot they go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.wal.layout import MalformedRecord, RecordKind
from headwater.wal.table_meta import TableMeta, write_entries

_RUN = 4  # records: for fewer, a look at all columns takes longer than it saves


class RegionChanges(NamedTuple):
    """What records say, in columns: their kinds, tables and sequences, and how many payloads each has."""

    kinds: Sequence[RecordKind]
    tables: Sequence[int]
    sequences: Sequence[int]
    counts: Sequence[int]


class RegionMeta:
    """The state of a region after its records below `watermark`.

    `watermark`: the first offset that is not applied. `epoch`: that of the newest claim before it, with which `headwater.log.epochs.Epochs`
    goes on. `tables`: by number, those that were written and not dropped. `generation`: of the topic that its offsets are of; "" where
    that is not known. It is no part of what two states are compared by.
    """

    __slots__ = ("epoch", "generation", "tables", "watermark")

    def __init__(self, *, watermark: int = 0, epoch: int = 0, tables: dict[int, TableMeta] | None = None, generation: str = "") -> None:
        self.watermark, self.epoch, self.tables = watermark, epoch, {} if tables is None else tables
        self.generation = generation

    def apply(self, kind: RecordKind, table: int, sequence: int, count: int, offset: int) -> None:
        """Apply the record at `offset`; `count`: of its payloads. Errors: `MalformedRecord`; then nothing has changed."""
        if offset < self.watermark:
            self._check_order(offset)
        known = self.tables.get(table)
        if known is not None and kind is RecordKind.ENTRY:
            known.write(sequence, count, offset)
        elif known is None:
            if kind is not RecordKind.ENTRY:
                raise MalformedRecord(f"it is a {kind.name.lower()} of table {table}, which has no entries")
            known = TableMeta()
            known.write(sequence, count, offset)
            self.tables[table] = known
        elif kind is RecordKind.MARK:
            known.mark(sequence)
        elif kind is RecordKind.MOVE:
            known.move(sequence, count, offset)
        else:
            if sequence != known.next:
                raise MalformedRecord(f"it drops table {table} at {sequence}, where {known.next} is next")
            del self.tables[table]
        self.watermark = offset + 1

    def apply_all(self, changes: RegionChanges, offsets: Sequence[int]) -> None:
        """Apply records at ascending offsets. Errors: `MalformedRecord`; then those before it are applied."""
        if self._apply_run(changes, offsets):
            return
        rows = zip(*changes, offsets, strict=True)
        while True:
            self.watermark, other = write_entries(self.tables, rows, self.watermark)
            if other is None:
                return
            self.apply(*other)

    def _apply_run(self, changes: RegionChanges, offsets: Sequence[int]) -> bool:
        """Apply entries of one payload each, all of one table, that lie one behind the other: so most commits are. False: others are."""
        kinds, tables, sequences, counts = changes
        length = len(tables)
        if length < _RUN or tables.count(tables[0]) < length or kinds.count(RecordKind.ENTRY) < length or counts.count(1) < length:
            return False
        table, first = self.tables.get(tables[0]), offsets[0]
        if table is None or not isinstance(offsets, range) or offsets.step != 1 or len(offsets) != length or first < self.watermark:
            return False
        if not table.write_run(sequences, first):
            return False
        self.watermark = first + length
        return True

    def pass_over(self, offset: int) -> None:
        """The record at `offset` does not count: a claim, or a record of a writer that had lost the region."""
        self._check_order(offset)
        self.watermark = offset + 1

    def copied(self) -> RegionMeta:
        """A copy to read from, which later changes of this one leave as it is. Takes little longer than counting the tables."""
        tables = {number: table.copied() for number, table in self.tables.items()}
        return RegionMeta(watermark=self.watermark, epoch=self.epoch, tables=tables, generation=self.generation)

    @property
    def safe_offset(self) -> int:
        """The lowest offset that some table needs; the watermark where all is flushed. Nothing below it is ever read again."""
        return min((offset for table in self.tables.values() if (offset := table.safe_offset) is not None), default=self.watermark)

    @property
    def live(self) -> int:
        """How many payloads are not flushed."""
        return sum(table.live for table in self.tables.values())

    def _check_order(self, offset: int) -> None:
        if offset < self.watermark:
            raise MalformedRecord(f"it lies before {self.watermark}, up to where the log was applied")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RegionMeta):
            return NotImplemented
        return (self.watermark, self.epoch, self.tables) == (other.watermark, other.epoch, other.tables)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RegionMeta(watermark={self.watermark}, epoch={self.epoch}, tables={self.tables})"
