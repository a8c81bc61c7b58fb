"""Claims on Kafka (rule P4): records in the partition name its owner, and an owner acknowledges only what it has read back."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from headwater.core.errors import Fenced, HeadwaterError, OutcomeUnknown, Timeout, Unavailable, UnknownTopic, Unsupported
from headwater.log import Writer
from headwater.log.epochs import CLAIM, CLAIMANT, EPOCH, LENT, epoch_at, mark
from headwater.log.guard import MOST_BYTES, MOST_RECORDS, Guard, too_far
from headwater.log.kafka.follower import Followed, Follower
from headwater.log.kafka.identity import TopicIdentity
from headwater.log.kafka.records import columns_outgoing
from headwater.log.kafka.shared_lock import SharedLock
from headwater.log.record import Bounds, Compacted, Header, Record, whole

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 100


class ClaimablePartition(Protocol):
    """A partition with the calls that a claim needs."""

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

    def identity(self) -> TopicIdentity:
        """The topic as it is now. Errors: `UnknownTopic`."""
        ...

    def check_claim(self, epoch: int) -> None:
        """Errors: `Fenced` where the newest claim is not `epoch`."""
        ...

    def delete_records(self, offset: int, fence: Callable[[], None]) -> int:
        """Delete below `offset`, if there is something and `fence` raises nothing; return the start."""
        ...


class KafkaWriter(Writer):
    """A claim that won. It follows its partition, and acknowledges a record once it has seen it with no newer claim before it, and the
    topic is still the one that was claimed. In a forked child: `Closed`."""

    def __init__(self, place: ClaimablePartition, follower: Follower, followed: Followed, *, epoch: int, identity: TopicIdentity) -> None:
        self.topic, self.partition, self.epoch = place.topic, place.partition, epoch
        self._place, self._follower, self._followed, self._identity = place, follower, followed, identity
        self._mark = (EPOCH, mark(epoch))
        self._lock = SharedLock()
        self._unknown = False  # an append of this Writer has an unknown outcome: its records may still be written
        weakref.finalize(self, follower.leave, followed).atexit = False  # nobody closes a Writer

    def append(self, records: Sequence[Record], *, guard: Guard | None = None) -> Sequence[int]:
        with self._place.appending(), self._lock.shared() if guard is None else self._lock.exclusive():
            self._check()
            if guard is not None:
                shown = self._behind(whole(guard.since))
                self._place.check_generation(guard.generation)  # after reading, so that all of it is of this generation
                guard.check(shown)  # 0. no append of this Writer is under way; records of others do not count, or fence it
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
                f"The outcome of an earlier append to {self.topic}/{self.partition} is not known, and its records may still be written.",
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
        self._check_identity(self._identity.check)
        seen = self._followed.seen
        offsets = self._place.send(records, self._mark)  # 1. replicated, but perhaps behind a claim that this Writer has not read
        try:
            self._see(offsets[0], offsets[-1], seen)  # 2. read everything before them
        except HeadwaterError as error:
            raise OutcomeUnknown(
                f"{len(records)} records are in {self.topic}/{self.partition}, but whether they count is not known. {error.message}",
                hint="Claim the partition again and read its end.",
            ) from error
        fence = self._followed.fence(self.epoch)
        if fence is None or offsets[-1] < fence:  # 3. acknowledge
            self._check_lost()
            return offsets
        if offsets[0] < fence:
            counted = sum(offset < fence for offset in offsets)
            raise OutcomeUnknown(
                f"Another writer has claimed {self.topic}/{self.partition} between records of this batch: "
                f"its first {counted} of {len(records)} records count.",
                hint="Claim the partition again and read its end.",
            )
        raise self._fenced()

    def append_arrow(self, batch: pa.RecordBatch) -> Sequence[int]:
        return self.append(columns_outgoing(batch))

    def roll(self, *, due: bool = False) -> int:
        self._check()
        raise _no_roll()

    def compact(self, before: int | None = None) -> Compacted:
        self._check()
        raise no_compaction(self.topic)

    def delete_before(self, offset: int) -> int:
        with self._place.appending(), self._lock.shared():
            self._check()
            self._check_identity(self._identity.begin())
            return self._place.delete_records(offset, self._renew)

    def _renew(self) -> None:
        """Write the claim again, and read everything up to it. Errors: `Fenced` where a newer claim lies before it.

        The claim stays when everything before it is deleted, so that the partition still names its owner.
        """
        self._check_identity(self._identity.begin())
        seen = self._followed.seen
        (own,) = self._place.send([Record(None, None)], (CLAIM, mark(self.epoch)))
        self._see(own, own, seen)
        self._check()

    def _see(self, first: int, last: int, seen: int) -> None:
        """See the records up to `last`, of which this Writer's begin with `first`. `seen`: what it had seen before it sent them.

        Errors: `Fenced` where they may lie in another topic of this name; `Timeout`; those of brokers that do not answer.
        """
        check = self._identity.begin()  # answered while the records are being read
        if not self._followed.begun_anew(first, seen):
            self._follower.reach(self._followed, last)
        self._check_identity(check)

    def claimed(self, claimant: str) -> bool:
        """Write the claim; return whether it won. Called once, by `claim`."""
        seen = self._followed.seen
        named = Record(None, None, headers=((CLAIMANT, claimant.encode()),) if claimant else ())
        (own,) = self._place.send([named], (CLAIM, mark(self.epoch)))  # 2. claim
        try:
            self._see(own, own, seen)  # 3. read past the own claim
        except Fenced:
            return False
        return not self._followed.lost and self._followed.won(own, self.epoch)

    def _check_identity(self, check: Callable[[], None]) -> None:
        """Errors: `Fenced` for another topic of this name, or for none any more."""
        try:
            check()
        except (Fenced, UnknownTopic) as gone:
            self._followed.lost = True
            raise gone if isinstance(gone, Fenced) else self._fenced() from gone

    def _check(self) -> None:
        """Errors: `Fenced`, `Closed`. A Writer that is known to be stale sends nothing."""
        self._follower.check_here()
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
    """A claim of another process.

    Its records are marked as lent (`headwater.log.epochs.LENT`). Because it does not follow the partition, it acknowledges what is
    replicated, whoever has claimed the partition meanwhile: the owner decides which of the records count.
    """

    def __init__(self, place: ClaimablePartition, epoch: int, generation: str) -> None:
        self.topic, self.partition, self.epoch = place.topic, place.partition, epoch
        self._place, self._generation, self._identity = place, generation, place.identity()

    def append(self, records: Sequence[Record], *, guard: Guard | None = None) -> Sequence[int]:
        if guard is not None:
            raise Unsupported("A claim on Kafka belongs to the process that made it.", hint="Append with a guard in that process.")
        with self._place.appending():
            self._place.check_generation(self._generation)
            offsets = self._place.send(records, (LENT, mark(self.epoch)))
            try:
                self._identity.begin()()  # after sending: they may lie in a topic that was created meanwhile
            except HeadwaterError as error:
                raise OutcomeUnknown(
                    f"{len(records)} records were sent to {self.topic}/{self.partition}, but in which topic they are is not known. "
                    f"{error.message}",
                    hint="Ask the owner of the claim.",
                ) from error
            return offsets

    def append_arrow(self, batch: pa.RecordBatch) -> Sequence[int]:
        return self.append(columns_outgoing(batch))

    def roll(self, *, due: bool = False) -> int:
        raise _no_roll()

    def compact(self, before: int | None = None) -> Compacted:
        raise no_compaction(self.topic)

    def delete_before(self, offset: int) -> int:
        with self._place.appending():
            self._identity.begin()()
            return self._place.delete_records(offset, self._renew)

    def _renew(self) -> None:
        """As `KafkaWriter._renew`, by reading the newest claim."""
        self._place.check_claim(self.epoch)
        self._place.check_generation(self._generation)
        if self.epoch:
            self._place.send([Record(None, None)], (CLAIM, mark(self.epoch)))
            self._place.check_claim(self.epoch)
        self._identity.begin()()


def no_compaction(topic: str) -> Unsupported:
    """The error of a compaction on Kafka."""
    return Unsupported(
        "Kafka compacts by its own rules, at its own time.",
        hint=f"Delete what is no longer needed from the beginning: {topic} has delete_before.",
    )


def _no_roll() -> Unsupported:
    return Unsupported("Brokers close segments by their own settings.", hint="Set the topic's segment size or period when it is created.")


def claim(place: ClaimablePartition, follower: Follower, claimant: str = "") -> KafkaWriter:
    """Become the partition's only writer.

    The new epoch is higher than every mark below the high watermark that is believed (`headwater.log.epochs`), so that nothing has to be
    searched. Claims that are made at the same time settle it by rule P4.
    """
    for _ in range(_TRIES):
        with place.appending():
            identity, bounds = place.identity(), place.bounds()
            epoch = epoch_at(bounds.end, identity.generation)
            # 1. Whatever comes from here on will be seen.
            followed = follower.join(place.topic, place.partition, bounds.end, identity.generation)
            writer = KafkaWriter(place, follower, followed, epoch=epoch, identity=identity)
            if writer.claimed(claimant):
                return writer
        # 4. Another claim came first with this epoch or a higher one, or the topic was created again: claim again.
    raise Timeout(f"Other writers claim {place.topic}/{place.partition} over and over.", hint="Stop the other processes that claim it.")
