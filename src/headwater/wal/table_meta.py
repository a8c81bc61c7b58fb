"""What a region knows of one table: its numbers, and where each live payload lies."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from headwater.wal.layout import MalformedRecord, RecordKind

_SPARE = 64  # offsets of flushed payloads that are kept before the column is shortened: each shortening copies what is left


_ENTRY = RecordKind.ENTRY
Row = tuple[RecordKind, int, int, int, int]  # a record's kind, table, sequence, number of payloads, and offset


class TableMeta:
    """The state of one table.

    `next`: the sequence of the next payload. `marked`: the first sequence that is not flushed. `watermark`: the offset behind the table's
    last entry. Sequences have no gaps, so the map from sequences to offsets is a column of offsets, 8 bytes each.

    The column only grows at its end: what would change it otherwise makes a new one. So a copy shares it, and takes no time.
    """

    __slots__ = ("_ascending", "_begin", "_offsets", "marked", "next", "watermark")

    def __init__(
        self,
        *,
        next: int = 1,
        marked: int = 1,
        watermark: int = 0,
        offsets: Iterable[int] | np.ndarray = (),
        ascending: bool | None = None,
    ) -> None:
        """`offsets`: of the live payloads, as numbers or as a column of int64. `ascending`: whether they ascend; None: it is to be seen."""
        self.next, self.marked, self.watermark = next, marked, watermark
        self._offsets = array("q", offsets.tobytes() if isinstance(offsets, np.ndarray) else offsets)
        self._begin = 0  # the place of `marked` in the column
        self._ascending = ascending if self._offsets else True  # None: not known yet
        if len(self._offsets) != next - marked:
            raise MalformedRecord(f"a table has {len(self._offsets)} offsets for the sequences {marked} to {next - 1}")

    @property
    def live(self) -> int:
        """How many payloads are not flushed."""
        return self.next - self.marked

    @property
    def safe_offset(self) -> int | None:
        """The lowest offset that the table needs; None where everything is flushed."""
        if not self.live:
            return None
        if self._ascending is None:
            column = self.column()
            self._ascending = bool((column[1:] >= column[:-1]).all())
        return self._offsets[self._begin] if self._ascending else int(self.column().min())

    def offsets(self, first: int, last: int) -> list[int]:
        """Where the live payloads of the sequences `first` to `last` lie, in their order. The others are left out."""
        begin, end = max(first, self.marked), min(last + 1, self.next)
        if begin >= end:
            return []
        shift = self._begin - self.marked
        return self._offsets[begin + shift : end + shift].tolist()

    def column_of(self, first: int, last: int) -> np.ndarray:
        """`offsets`, as a column."""
        begin, end = max(first, self.marked), min(last + 1, self.next)
        shift = self._begin - self.marked
        # Of a slice: an array whose own memory is looked at refuses to grow, and another thread may be writing.
        return np.frombuffer(self._offsets[begin + shift : end + shift], np.int64) if begin < end else np.zeros(0, np.int64)

    def write(self, sequence: int, count: int, offset: int) -> None:
        """Payloads were written. Errors: `MalformedRecord` for other numbers than the next ones."""
        if sequence != self.next:
            raise MalformedRecord(f"it has the sequence {sequence}, where {self.next} is next")
        if offset < self.watermark:
            self._ascending = None
        if count == 1:
            self._offsets.append(offset)
        else:
            self._offsets.extend([offset] * count)
        self.next = sequence + count
        self.watermark = offset + 1

    def write_many(self, sequences: np.ndarray, counts: np.ndarray, offsets: np.ndarray) -> bool:
        """`write` for the columns of many records in the order of the log. False, and nothing was done, where one is refused."""
        ends = sequences + counts
        if int(sequences[0]) != self.next or np.any(sequences[1:] != ends[:-1]):
            return False
        if offsets[0] < self.watermark:
            self._ascending = None
        self._offsets.frombytes(np.repeat(offsets, counts.astype(np.int64)).astype(np.int64).tobytes())
        self.next = int(ends[-1])
        self.watermark = int(offsets[-1]) + 1
        return True

    def write_run(self, sequences: Sequence[int], offset: int) -> bool:
        """`write` of one payload each, at one offset behind the other. False, and nothing was done, where a sequence is not the next."""
        length = len(sequences)
        if tuple(sequences) != tuple(range(self.next, self.next + length)) or offset < self.watermark:
            return False
        self._offsets.extend(range(offset, offset + length))
        self.next += length
        self.watermark = offset + length
        return True

    def mark(self, boundary: int) -> None:
        """Everything below `boundary` is flushed. Errors: `MalformedRecord` outside of what is live."""
        if not self.marked <= boundary <= self.next:
            raise MalformedRecord(f"it marks up to {boundary}, where the table has the sequences {self.marked} to {self.next - 1}")
        self._begin += boundary - self.marked
        self.marked = boundary
        if self._begin > max(_SPARE, len(self._offsets) // 2):
            self._offsets, self._begin = self._offsets[self._begin :], 0
        if self.marked == self.next:
            self._ascending = True

    def move(self, sequence: int, count: int, offset: int) -> None:
        """Payloads were copied to `offset`; those of them that are flushed stay so. Errors: `MalformedRecord` for ones never written."""
        if not 1 <= sequence <= sequence + count <= self.next:
            raise MalformedRecord(f"it moves {count} from {sequence} on, where the table ends at {self.next - 1}")
        shift = self._begin - self.marked
        begin, end = max(sequence, self.marked) + shift, sequence + count + shift
        if begin < end:
            self._offsets = self._offsets[:begin] + array("q", [offset]) * (end - begin) + self._offsets[end:]
            self._ascending = None
        self.watermark = offset + 1

    def copied(self) -> TableMeta:
        """A copy to read from, which later changes of this one leave as it is."""
        copy = TableMeta.__new__(TableMeta)
        copy.next, copy.marked, copy.watermark = self.next, self.marked, self.watermark
        copy._offsets, copy._begin, copy._ascending = self._offsets, self._begin, self._ascending
        return copy

    def column(self) -> np.ndarray:
        """A copy of the offsets of all live payloads, in the order of their sequences."""
        return self.column_of(self.marked, self.next - 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableMeta):
            return NotImplemented
        mine, theirs = (self.next, self.marked, self.watermark), (other.next, other.marked, other.watermark)
        return mine == theirs and np.array_equal(self.column(), other.column())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TableMeta(next={self.next}, marked={self.marked}, watermark={self.watermark}, offsets={self.column().tolist()})"


def write_entries(tables: dict[int, TableMeta], rows: Iterator[Row], watermark: int) -> tuple[int, Row | None]:
    """`TableMeta.write` for entries of one payload each, as long as they are of known tables and fit. For speed: no call for each.

    `watermark`: the first offset that is not applied. Returns the new one, and the first row that is another; None at the end.
    """
    for row in rows:
        kind, number, sequence, count, offset = row
        table = tables.get(number)
        if table is None or kind is not _ENTRY or count != 1 or sequence != table.next or offset < watermark:
            return watermark, row
        table._offsets.append(offset)
        table.next = sequence + 1
        table.watermark = watermark = offset + 1
    return watermark, None
