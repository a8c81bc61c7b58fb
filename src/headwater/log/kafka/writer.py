"""Claims on Kafka (rule P4): records in the partition name its owner, and an owner trusts only what it has read there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from headwater.core.errors import Fenced, HeadwaterError, OutcomeUnknown, Timeout, Unavailable, Unsupported
from headwater.log import Writer
from headwater.log.epochs import CLAIM, EPOCH, mark
from headwater.log.guard import MOST_BYTES, MOST_RECORDS, Guard, too_far
from headwater.log.kafka.follower import Followed, Follower
from headwater.log.kafka.records import columns_outgoing
from headwater.log.kafka.turns import Turns
from headwater.log.record import Bounds, Compacted, Header, Record, whole

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 100


class ClaimablePartition(Protocol):
    """What a claim needs of the log: one partition, its bounds, and ways to read and to append."""

    topic: str
    partition: int

    def bounds(self) -> Bounds: ...

    def read(self, start: int, max_bytes: int) -> list[Record]:
        """Records from `start` on, as `Log.read` gives them."""
        ...

    def send(self, records: Sequence[Record], own: Header) -> Sequence[int]:
        """Append the records, each with one header of the log's own; return their offsets."""
        ...

    def appending(self) -> AbstractContextManager[None]:
        """Around an append: a log that closes waits for it."""
        ...

    def check_generation(self, generation: str) -> None:
        """Errors: `Fenced` where the topic has another generation; "" is any."""
        ...

    def check_claim(self, epoch: int) -> None:
        """Errors: `Fenced` where the last records tell of a newer claim."""
        ...

    def delete_records(self, offset: int, fence: Callable[[], None]) -> int:
        """Delete below `offset`, if there is something and `fence` raises nothing; return the start."""
        ...


class KafkaWriter(Writer):
    """A claim that won. It follows its partition, and acknowledges a record once it has seen it with no newer claim before it."""

    def __init__(self, place: ClaimablePartition, follower: Follower, followed: Followed, epoch: int) -> None:
        self.topic, self.partition, self.epoch = place.topic, place.partition, epoch
        self._place, self._follower, self._followed = place, follower, followed
        self._mark = (EPOCH, mark(epoch))
        self._turns = Turns()
        self._unknown = False  # an append of this Writer has an unknown outcome: its records may come at any time
        weakref.finalize(self, follower.leave, followed).atexit = False  # nobody closes a Writer

    def append(self, records: Sequence[Record], *, guard: Guard | None = None) -> Sequence[int]:
        with self._place.appending(), self._turns.together() if guard is None else self._turns.alone():
            self._check()
            if guard is not None:
                shown = self._behind(whole(guard.since))
                self._place.check_generation(guard.generation)  # after reading, so that all of it is of this generation
                guard.check(shown)  # 0. all of ours is acknowledged: what comes now does not count, or fences us
            try:
                return self._append(records)
            except HeadwaterError as error:
                self._unknown = self._unknown or isinstance(error, OutcomeUnknown)
                raise
            except BaseException:  # such as Ctrl-C, while the records were under way
                self._unknown = True
                raise

    def _behind(self, since: int) -> list[Record]:
        """The records from `since` to the high watermark: they are replicated. Called while no other append is under way."""
        if self._unknown:
            raise Unavailable(
                f"Whether an earlier append to {self.topic}/{self.partition} took place is not known, and it may come yet.",
                hint="Claim the partition again and read its end.",
            )
        end = self._place.bounds().end
        if end - since > MOST_RECORDS:
            raise too_far(f"{self.topic}/{self.partition}", since, end)
        shown: list[Record] = []
        size = 0
        while since != end and (page := self._place.read(since, MOST_BYTES)):
            shown += page
            size += sum(len(record.key or b"") + len(record.value or b"") for record in page)
            if size > MOST_BYTES:
                raise too_far(f"{self.topic}/{self.partition}", since, end)
            since = min(end, (page[-1].offset or 0) + 1)
        return shown

    def _append(self, records: Sequence[Record]) -> Sequence[int]:
        seen = self._followed.seen
        offsets = self._place.send(records, self._mark)  # 1. replicated, but perhaps behind a claim that we have not seen
        if self._followed.begun_anew(offsets[0], seen):
            raise Fenced(
                f"{self.topic} was deleted and created again since epoch {self.epoch} of {self.topic}/{self.partition}.",
                hint="Claim it again, and read the new topic.",
            )
        try:
            self._follower.reach(self._followed, offsets[-1])  # 2. see everything before it
        except Timeout as late:
            raise OutcomeUnknown(
                f"{len(records)} records are in {self.topic}/{self.partition}, but whether they count is not known. {late.message}",
                hint="Claim the partition again and read its end.",
            ) from late
        fence = self._followed.fence(self.epoch)
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

    def roll(self) -> int:
        self._check()
        raise _no_roll()

    def compact(self, before: int | None = None) -> Compacted:
        self._check()
        raise no_compaction(self.topic)

    def delete_before(self, offset: int) -> int:
        with self._place.appending(), self._turns.together():
            self._check()
            return self._place.delete_records(offset, self._renew)

    def _renew(self) -> None:
        """Claim once more with the own epoch, and see everything up to there: no newer claim lies before it.

        The mark stays when everything before it is deleted, so that the partition goes on telling whose it is.
        """
        seen = self._followed.seen
        (own,) = self._place.send([Record(None, None)], (CLAIM, mark(self.epoch)))
        if not self._followed.begun_anew(own, seen):
            self._follower.reach(self._followed, own)
        self._check()

    def _check(self) -> None:
        """What is known to be stale need not even be sent."""
        self._check_lost()
        if self._followed.fence(self.epoch) is not None:
            raise self._fenced()

    def _check_lost(self) -> None:
        if self._followed.lost:
            raise self._fenced()

    def _fenced(self) -> Fenced:
        return Fenced(
            f"Another writer has claimed {self.topic}/{self.partition} since epoch {self.epoch}.",
            hint="Claim it again, and read what the other one has written.",
        )


class LentKafkaWriter(Writer):
    """A claim that another process has made. It deletes; its own appends would not know whether they count."""

    def __init__(self, place: ClaimablePartition, epoch: int, generation: str) -> None:
        self.topic, self.partition, self.epoch = place.topic, place.partition, epoch
        self._place, self._generation = place, generation

    def append(self, records: Sequence[Record], *, guard: Guard | None = None) -> Sequence[int]:
        raise Unsupported("A claim on Kafka belongs to the process that made it.", hint="Append in that process.")

    def append_arrow(self, batch: pa.RecordBatch) -> Sequence[int]:
        return self.append([])

    def roll(self) -> int:
        raise _no_roll()

    def compact(self, before: int | None = None) -> Compacted:
        raise no_compaction(self.topic)

    def delete_before(self, offset: int) -> int:
        with self._place.appending():
            return self._place.delete_records(offset, self._renew)

    def _renew(self) -> None:
        """As `KafkaWriter._renew`, by looking at the last records."""
        self._place.check_claim(self.epoch)
        self._place.check_generation(self._generation)
        if self.epoch:
            self._place.send([Record(None, None)], (CLAIM, mark(self.epoch)))
            self._place.check_claim(self.epoch)


def no_compaction(topic: str) -> Unsupported:
    """The error of a compaction that is asked for."""
    return Unsupported(
        "Kafka compacts by its own rules, at its own time.",
        hint=f"Delete what is no longer needed from the beginning: {topic} has delete_before.",
    )


def _no_roll() -> Unsupported:
    return Unsupported("Brokers close segments by their own settings.", hint="Set the topic's segment size or period when it is created.")


def claim(place: ClaimablePartition, follower: Follower) -> KafkaWriter:
    """Become the partition's only writer.

    The new epoch is the high watermark plus one. No mark below the high watermark that is believed is as high (`headwater.log.epochs`),
    so that nothing has to be searched. Claims that are made at the same time settle it by rule P4.
    """
    for _ in range(_TRIES):
        with place.appending():
            bounds = place.bounds()
            followed = follower.join(place.topic, place.partition, bounds.end)  # 1. whatever comes from here on will be seen
            try:
                epoch, seen = bounds.end + 1, followed.seen
                (own,) = place.send([Record(None, None)], (CLAIM, mark(epoch)))  # 2. claim
                if not followed.begun_anew(own, seen):
                    follower.reach(followed, own)  # 3. read past the own claim
                if not followed.lost and followed.won(own, epoch):
                    return KafkaWriter(place, follower, followed, epoch)
            except BaseException:
                follower.leave(followed)
                raise
            follower.leave(followed)
        # 4. Another claim came first with this epoch or a higher one: claim again above it.
    raise Timeout(f"{place.topic}/{place.partition} is being claimed over and over by others.", hint="See who else opens it.")
