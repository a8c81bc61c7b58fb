"""Claims on Kafka (rule P4): the partition itself says who owns it, and an owner believes only what it has read there."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from headwater.core.errors import Fenced, OutcomeUnknown, Timeout
from headwater.log import Writer
from headwater.log.epochs import CLAIM, EPOCH, mark, marks
from headwater.log.kafka.follower import Followed, Follower
from headwater.log.kafka.records import columns_outgoing
from headwater.log.record import Bounds, Header, Record

if TYPE_CHECKING:
    import pyarrow as pa

_PEEK = 100
_TRIES = 100


class Partition(Protocol):
    """What a claim needs of the log: one partition, to append to and to read."""

    topic: str
    partition: int

    def bounds(self) -> Bounds: ...

    def read(self, start: int, limit: int) -> list[Record]: ...

    def send(self, records: Sequence[Record], own: Header) -> Sequence[int]:
        """Append the records, each with one header of the log's own; return their offsets."""
        ...

    def appending(self) -> AbstractContextManager[None]:
        """Around an append: a log that closes waits for it."""
        ...


class KafkaWriter(Writer):
    """A claim that won. It follows its partition, and acknowledges a record once it has seen it with no newer claim before it."""

    def __init__(self, place: Partition, follower: Follower, followed: Followed, epoch: int) -> None:
        self.topic, self.partition, self.epoch = place.topic, place.partition, epoch
        self._place, self._follower, self._followed = place, follower, followed
        self._mark = (EPOCH, mark(epoch))
        weakref.finalize(self, follower.leave, followed).atexit = False  # nobody closes a Writer

    def append(self, records: Sequence[Record]) -> Sequence[int]:
        with self._place.appending():
            self._check()
            offsets = self._place.send(records, self._mark)  # 1. replicated, but perhaps behind a claim that we have not seen
            try:
                self._follower.reach(self._followed, offsets[-1])  # 2. see everything before it
            except Timeout as late:
                raise OutcomeUnknown(
                    f"{len(records)} records are in {self.topic}/{self.partition}, but whether they count is not known. {late.message}",
                    hint="Claim the partition again and read its end.",
                ) from late
            fence = self._fence()
            if fence is None or offsets[-1] < fence:  # 3. acknowledge
                self._check_lost()
                return offsets
            if offsets[0] < fence:
                counted = sum(offset < fence for offset in offsets)
                raise OutcomeUnknown(
                    f"Another writer has claimed {self.topic}/{self.partition} in the midst of this batch: "
                    f"its first {counted} of {len(records)} records count.",
                    hint="Claim the partition again and read its end.",
                )
            raise self._fenced()

    def append_arrow(self, batch: pa.RecordBatch) -> Sequence[int]:
        return self.append(columns_outgoing(batch))

    def _fence(self) -> int | None:
        """Where this writer's right ends, as far as has been seen."""
        return next((offset for offset, epoch in self._followed.claims if epoch > self.epoch), None)

    def _check(self) -> None:
        """What is known to be stale need not even be sent."""
        self._check_lost()
        if self._fence() is not None:
            raise self._fenced()

    def _check_lost(self) -> None:
        if self._followed.lost:
            raise self._fenced()

    def _fenced(self) -> Fenced:
        return Fenced(
            f"Another writer has claimed {self.topic}/{self.partition} since epoch {self.epoch}.",
            hint="Claim it again, and read what the other one has written.",
        )


def claim(place: Partition, follower: Follower) -> KafkaWriter:
    """Become the partition's only writer.

    The new epoch is the high watermark plus one. Every claim below the high watermark was made when that was lower, so that this
    epoch is above all of theirs, and nothing has to be searched. Claims that are made at the same time settle it by rule P4.
    """
    for _ in range(_TRIES):
        with place.appending():
            bounds = place.bounds()
            followed = follower.join(place.topic, place.partition, bounds.end)  # 1. whatever comes from here on will be seen
            try:
                epoch = max(bounds.end, _noted(place, bounds)) + 1
                (own,) = place.send([Record(None, None)], (CLAIM, mark(epoch)))  # 2. claim
                follower.reach(followed, own)  # 3. read past the own claim
                if not followed.lost and all(other < epoch for offset, other in followed.claims if offset < own):
                    return KafkaWriter(place, follower, followed, epoch)
            except BaseException:
                follower.leave(followed)
                raise
            follower.leave(followed)
        # 4. Another claim came first with this epoch or a higher one: claim again above it.
    raise Timeout(f"{place.topic}/{place.partition} is being claimed over and over by others.", hint="See who else opens it.")


def _noted(place: Partition, bounds: Bounds) -> int:
    """The highest epoch in the partition's last records.

    It is below the high watermark, except where the partition was copied from another cluster and has lost offsets on the way:
    there a claim by the watermark alone would rank below the claims that were copied, and no record of its writer would count.
    """
    start = max(bounds.start, bounds.end - _PEEK)
    if start == bounds.end:
        return 0
    return max((epoch for record in place.read(start, _PEEK) for epoch in marks(record.headers) if epoch is not None), default=0)
