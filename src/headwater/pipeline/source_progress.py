"""How much of a source's copy is read: what the source says of its size when it plans the copy, and how far reading is in that unit."""

from __future__ import annotations

from typing import Literal, Self

import msgspec

from headwater.core.units import rounded_size

Unit = Literal["bytes", "documents", "offsets"]


class CopySize(msgspec.Struct, frozen=True, kw_only=True):
    """How much a copy will read. `estimate`: the source may hold more or less than that by the time it is read."""

    total: int
    unit: Unit
    estimate: bool = False

    @classmethod
    def about(cls, documents: int | None) -> Self | None:
        """The size by an estimate of the documents; None where the source has none: by that of 0, nothing could be told."""
        return cls(total=documents, unit="documents", estimate=True) if documents else None


class SourceProgress(CopySize, frozen=True, kw_only=True):
    """How much of a copy is read, runs before this one included. Exact ones never have read more than the total.

    `percent` is 100 only when all is read; None where more is read than was estimated: then nobody knows how much is left.
    """

    read: int
    percent: int | None

    @classmethod
    def of(cls, size: CopySize, read: int, *, copied: bool = False) -> Self:
        """`copied`: the copy is complete, whatever was counted on the way."""
        if not size.estimate:
            read = size.total if copied else max(0, min(read, size.total))
        percent = 100 if copied or not size.total else None if read > size.total else 100 * read // size.total
        return cls(total=size.total, unit=size.unit, estimate=size.estimate, read=read, percent=percent)

    def __str__(self) -> str:
        """For people: `12.4 MiB of 27.0 MiB, 45 %`, `300 of ~1,000 documents, ~30 %`."""
        mark = "~" if self.estimate else ""
        if self.unit == "bytes":
            amount = f"{rounded_size(self.read)} of {mark}{rounded_size(self.total)}"
        else:
            amount = f"{self.read:,} of {mark}{self.total:,} {self.unit}"
        return amount if self.percent is None else f"{amount}, {mark}{self.percent} %"
