"""Which records of a claimed partition count. A fold of a claimed partition asks `Epochs` about each record, in order.

On Kafka a broker cannot refuse a stale writer's append, so the partition itself says who owned it when (rule P4):

  - A claim is a record without key and value whose header `headwater.claim` holds its epoch.
  - Every record of a `Writer` has its epoch in the header `headwater.epoch`.
  - A record counts unless a claim with a higher epoch lies before it. A record without an epoch has epoch 0: it counts
    until the first claim. Of equal claims the first one wins: whoever made the second sees the first before its own, and
    claims again with a higher epoch before it writes anything.

On the embedded engine a stale append is refused under the lock, records carry nothing, and everything passes here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec

from headwater.core.errors import Damaged
from headwater.log.record import Header, Record

CLAIM = "headwater.claim"
EPOCH = "headwater.epoch"
_U64 = struct.Struct(">Q")


class Epochs:
    """The fold. `epoch` is all of its state: keep it in a snapshot, and begin with it where the snapshot ends.

    A fold that begins in the middle without it cannot know of claims that lie before, and lets the first stale records pass.
    """

    __slots__ = ("epoch",)

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch

    def admits(self, record: Record) -> bool:
        """Whether the record counts: false for claims, and for records of a writer whose partition was claimed by another before them."""
        claim, epoch = marks(record.headers) if record.headers else (None, None)
        if claim is not None:
            self.epoch = max(self.epoch, claim)
            return False
        if epoch is None:
            return self.epoch == 0
        if epoch < self.epoch:
            return False
        self.epoch = epoch  # a claim that was deleted from the log's beginning is known by its writer's records
        return True


def marks(headers: Iterable[Header]) -> tuple[int | None, int | None]:
    """The epoch that a record claims, and the epoch that its writer holds."""
    claim = epoch = None
    for name, value in headers:
        if name == CLAIM:
            claim = _number(name, value)
        elif name == EPOCH:
            epoch = _number(name, value)
    return claim, epoch


def mark(epoch: int) -> bytes:
    """An epoch as a header's value."""
    return _U64.pack(epoch)


def unmarked(record: Record) -> Record:
    """The record as its writer gave it: without the header that the engine added."""
    kept = tuple(header for header in record.headers if header[0] != EPOCH)
    return record if len(kept) == len(record.headers) else msgspec.structs.replace(record, headers=kept)


def _number(name: str, value: bytes | None) -> int:
    if value is None or len(value) != _U64.size:
        raise Damaged(
            f"The header {name} of a record holds {value!r}, which is no epoch.", hint="No client but headwater may write this header."
        )
    number: int = _U64.unpack(value)[0]
    return number
