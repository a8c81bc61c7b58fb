"""Records of which each names the one before it, appended under a guard: whatever came in between would show."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import Conflict
from headwater.log import Guard, Record
from headwater.log.embedded.log import EmbeddedLog


def chained(log: EmbeddedLog, name: bytes) -> int:
    """Append a record that names the one before it, if that is still the last; return its offset."""

    def nothing_new(records: Sequence[Record]) -> None:
        if records:
            raise Conflict("Somebody was first.")

    bounds = log.bounds("t", 0)
    before = log.read("t", 0, bounds.end - 1)[0].value if bounds.end else b""
    return log.append("t", 0, [Record(b"k", name, (("before", before),))], guard=Guard(bounds.end, nothing_new))[0]


def sure(log: EmbeddedLog, name: bytes) -> None:
    """As `chained`; again where opening the partition has brought back a record whose writer died before its sync."""
    try:
        chained(log, name)
    except Conflict:
        chained(log, name)


def links(log: EmbeddedLog) -> dict[int, bytes | None]:
    """Every record by its offset, after a look whether each names the one before it."""
    found = log.read("t", 0, 0, limit=100_000)
    before: bytes | None = b""
    for record in found:
        assert record.headers == (("before", before),), f"a record came between the look and the append of {record.offset}"
        before = record.value
    return {record.offset or 0: record.value for record in found}
