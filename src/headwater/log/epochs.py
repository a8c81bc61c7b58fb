"""Which records of a claimed partition count. Owner and folds ask `Epochs` about each record, in order: one rule for both.

On Kafka a broker cannot refuse a stale writer's append, so the partition itself says who owned it when (rule P4). Any producer may write
there, with any headers. So a mark is believed only where a writer of ours can have put it:

  - A claim is a record without key and value that has the header `headwater.claim`, and not `headwater.epoch`.
  - Every record of a `Writer` has its epoch in the header `headwater.epoch`, and not `headwater.claim`.
  - The header is there once, and its value is 8 bytes: a number above 0. A claim's is at most its own offset plus one, a record's at most
    its own offset. That holds for every writer of ours, because a claimant takes the high watermark plus one. It is what makes
    that epoch higher than all before it, whatever was forged: no claimant has to search, and no mark locks later claimants out.
  - The partition's epoch is the highest mark so far. A record counts if it has this epoch or raises it: a claim may have been
    deleted from the log's beginning, and is then known by its writer's records.
  - A record without a mark counts until the first mark. A claim never counts, and neither does what only looks like one.
  - An owner may write its claim again, with the same epoch: that changes nothing, and tells whose the partition is when everything
    before it is deleted.
  - Of equal claims the first one wins: whoever made the second sees the first before its own, and claims again with a higher epoch
    before it writes anything.

An owner acknowledges a record once it has seen that this rule lets it count, so that every fold counts it, wherever that fold begins.
On the embedded engine a stale append is refused under the lock, records carry nothing, and everything passes here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from headwater.log.record import Header, Record

CLAIM = "headwater.claim"
EPOCH = "headwater.epoch"
_U64 = struct.Struct(">Q")
_HIGHEST = (1 << 64) - 1


class Kind(Enum):
    """What a record is to a fold."""

    COUNTED = "counted"
    CLAIM = "claim"  # of a writer of ours, whether it won or came too late
    STALE = "stale"  # of a Writer whose partition was claimed by another before
    FOREIGN = "foreign"  # of no Writer, in a claimed partition; or what only looks like a claim


class Epochs:
    """The fold. `epoch` is all of its state: keep it in a snapshot, and begin with it where the snapshot ends.

    A fold that begins in the middle without it cannot know of claims that lie before, and lets the first stale records pass.
    """

    __slots__ = ("epoch",)

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch

    def admits(self, record: Record) -> bool:
        """Whether the record, which the log has given, counts."""
        if not record.headers:
            return self.epoch == 0
        return self.kind(record.key is None and record.value is None, record.headers, record.offset or 0) is Kind.COUNTED

    def kind(self, empty: bool, headers: Sequence[Header], offset: int) -> Kind:
        """What the record at `offset` is. `empty`: it has neither key nor value."""
        claims, epochs = _values(headers)
        if claims:
            claim = _number(claims, offset + 1) if empty and not epochs else None
            if claim is None:
                return Kind.FOREIGN if empty or self.epoch else Kind.COUNTED
            self.epoch = max(self.epoch, claim)
            return Kind.CLAIM
        epoch = _number(epochs, offset)
        if epoch is None:
            return Kind.FOREIGN if self.epoch else Kind.COUNTED
        if epoch < self.epoch:
            return Kind.STALE
        self.epoch = epoch
        return Kind.COUNTED


def marks(headers: Iterable[Header]) -> tuple[int | None, int | None]:
    """The numbers in the headers for claims and for epochs; None where there is none, or not exactly one. Whether to believe them
    depends on the rest of the record, too: ask `Epochs`."""
    claims, epochs = _values(headers)
    return _number(claims, _HIGHEST), _number(epochs, _HIGHEST)


def mark(epoch: int) -> bytes:
    """An epoch as a header's value."""
    return _U64.pack(epoch)


def unmarked(record: Record) -> Record:
    """The record as its writer gave it: without the header that the engine added."""
    kept = tuple(header for header in record.headers if header[0] != EPOCH)
    return record if len(kept) == len(record.headers) else msgspec.structs.replace(record, headers=kept)


def _values(headers: Iterable[Header]) -> tuple[list[bytes | None], list[bytes | None]]:
    """What the headers for claims and for epochs hold."""
    claims: list[bytes | None] = []
    epochs: list[bytes | None] = []
    for name, value in headers:
        if name == EPOCH:
            epochs.append(value)
        elif name == CLAIM:
            claims.append(value)
    return claims, epochs


def _number(values: Sequence[bytes | None], highest: int) -> int | None:
    if len(values) != 1 or values[0] is None or len(values[0]) != _U64.size:
        return None
    number: int = _U64.unpack(values[0])[0]
    return number if 0 < number <= highest else None
