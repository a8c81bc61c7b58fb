"""Records that are given as two columns: for callers that append many records of a key and a value alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from headwater.log.record import Record


class RecordColumns(Sequence[Record]):
    """A sequence of records, each with a key and a value. `encode` takes the columns as they are; records are made for others that ask."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Two columns of the same length."""
        self.keys, self.values = keys, values

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Record]:
        return map(Record, self.keys, self.values)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> RecordColumns: ...
    def __getitem__(self, place: int | slice) -> Record | RecordColumns:
        if isinstance(place, slice):
            return RecordColumns(self.keys[place], self.values[place])
        return Record(self.keys[place], self.values[place])
