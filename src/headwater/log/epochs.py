"""The rule of claims: which records of a claimed partition count. The owner and all folds apply it with `Epochs`, record by record.

On Kafka a broker cannot refuse a stale writer's append, so the partition itself says who owned it when (rule P4). Any producer may write
there, with any headers. So a mark is believed only where a writer of ours can have put it:

  - A claim is a record without key and value that has the header `headwater.claim`, and not `headwater.epoch`.
  - Every record of a `Writer` has its epoch in the header `headwater.epoch`, and not `headwater.claim`. Records of a lent claim, which
    other processes write on the owner's behalf, have it in `headwater.lent` instead. Those are the owner's to this rule; which of them
    count, the owner decides and notes, because two attempts at one piece of work may both have written.
  - The header is there once, and its value is 8 bytes: an epoch above 0. An epoch is a position in its high 48 bits and 16 bits of the
    topic's id in its low ones (`epoch_at`). A claimant takes the high watermark plus one as the position. So the position of a claim is
    at most its own offset plus one, and that of a record at most its own offset. That makes a new epoch higher than all before
    it, whatever was forged: no claimant has to search, and no mark locks later claimants out.
  - The low bits make the epochs of a topic differ from those of an earlier topic of its name, whose positions are the same ones: a Writer
    of the old topic never holds the epoch of an owner of the new one.
  - The partition's epoch is the highest mark so far. A record counts if it has this epoch or raises it: a claim may have been
    deleted from the log's beginning, and is then known by its writer's records.
  - A record without a mark counts until the first mark. A claim never counts, and neither does a record that only looks like one.
  - An owner may write its claim again, with the same epoch. That changes nothing, and names the owner when everything before it is
    deleted.
  - Of equal claims the first one wins: whoever made the second sees the first before its own, and claims again with a higher epoch
    before it writes anything.

An owner acknowledges a record once it has seen that this rule lets it count, so that every fold counts it, wherever that fold begins.
The embedded engine refuses a stale append under the lock; its records carry no marks, and all of them pass here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from headwater.log.record import Header, Record

CLAIM = "headwater.claim"
EPOCH = "headwater.epoch"
LENT = "headwater.lent"
CLAIMANT = "headwater.claimant"  # of a claim: an id of the one who made it. It decides nothing here
_U64 = struct.Struct(">Q")
_TOPIC_BITS = 16
_HIGHEST = 1 << 64 - _TOPIC_BITS


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


def epoch_at(end: int, generation: str) -> int:
    """The epoch of a claim on a partition that ends at `end`. `generation`: `Topic.generation`."""
    return end + 1 << _TOPIC_BITS | zlib.crc32(generation.encode()) & (1 << _TOPIC_BITS) - 1


def claimant_of(records: Iterable[Record], epoch: int) -> str | None:
    """The id that the first claim of `epoch` among these records has, "" for one without; None where they hold no such claim."""
    for record in records:
        if record.key is None and record.value is None and (CLAIM, mark(epoch)) in record.headers:
            return next(((value or b"").decode(errors="replace") for name, value in record.headers if name == CLAIMANT), "")
    return None


def earliest_offset(epoch: int) -> int:
    """No claim of this epoch lies before this offset."""
    return max(0, (epoch >> _TOPIC_BITS) - 1)


def highest_before(end: int) -> int:
    """No epoch in a record before the offset `end` is higher than this."""
    return (end + 1 << _TOPIC_BITS) - 1


def mark(epoch: int) -> bytes:
    """An epoch as a header's value."""
    return _U64.pack(epoch)


def unmarked(record: Record) -> Record:
    """The record as its writer gave it: without the header that the engine added."""
    kept = tuple(header for header in record.headers if header[0] not in (EPOCH, LENT))
    return record if len(kept) == len(record.headers) else msgspec.structs.replace(record, headers=kept)


def _values(headers: Iterable[Header]) -> tuple[list[bytes | None], list[bytes | None]]:
    """What the headers for claims and for epochs hold."""
    claims: list[bytes | None] = []
    epochs: list[bytes | None] = []
    for name, value in headers:
        if name in (EPOCH, LENT):
            epochs.append(value)
        elif name == CLAIM:
            claims.append(value)
    return claims, epochs


def _number(values: Sequence[bytes | None], highest: int) -> int | None:
    """The epoch of a header that is there once. `highest`: the highest position that is believed."""
    if len(values) != 1 or values[0] is None or len(values[0]) != _U64.size:
        return None
    number: int = _U64.unpack(values[0])[0]
    return number if number > 0 and number >> _TOPIC_BITS <= highest else None
