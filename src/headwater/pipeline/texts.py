"""Documents as one Arrow column, for whoever takes them by thousands, that look like a sequence of bytes to everybody else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Texts(Sequence[bytes]):
    """A sequence of documents. `column`: the same as Arrow's `binary`, without nulls."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column

    @classmethod
    def of_lines(cls, data: bytes) -> Texts:
        """Every line, without its end. The last one has one."""
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        offsets = np.zeros(len(ends) + 1, np.int32)
        np.add(ends, 1, out=offsets[1:], casting="unsafe")
        lines = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        return cls(pc.binary_slice(lines, 0, -1))

    @classmethod
    def within(cls, data: bytes, begins: Any, ends: Any) -> Texts:
        """The parts of some data between these places, which follow one another."""
        offsets = np.zeros(2 * len(begins) + 2, np.int32)
        offsets[1:-1:2], offsets[2:-1:2], offsets[-1] = begins, ends, len(data)
        parts = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        return cls(parts.take(pa.array(np.arange(1, len(offsets) - 1, 2))))

    def stand_between(self, first: bytes, last: bytes) -> bool:
        """Whether every one begins and ends with these bytes."""
        column = self.column
        offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
        if not len(column) or not np.all(offsets[1:] > offsets[:-1]):
            return False
        data = np.frombuffer(column.buffers()[2], np.uint8)
        return bool(np.all(data[offsets[:-1]] == ord(first)) and np.all(data[offsets[1:] - 1] == ord(last)))

    def contain(self, byte: bytes) -> bool:
        """Whether the byte is in one of them, or in what lies beside them in their column's buffer."""
        return bool(np.any(np.frombuffer(self.column.buffers()[2], np.uint8) == ord(byte)))

    @property
    def size(self) -> int:
        """The bytes of all."""
        return int(pc.sum(pc.binary_length(self.column)).as_py() or 0)

    @property
    def longest(self) -> int:
        return int(pc.max(pc.binary_length(self.column)).as_py() or 0)

    def __len__(self) -> int:
        return len(self.column)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.column.to_pylist())

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return Texts(self.column[at]) if isinstance(at, slice) else self.column[at].as_py()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
