"""What `pointer2` has no columns for: a partition's generation, the base of its write times, its epochs, and what is under way.

It is JSON in the table `setting`, one row for each partition.
"""

from __future__ import annotations

import msgspec

SYNCED_MS = 60_000
"""A node of Cassandra syncs what it has acknowledged after ten seconds (`commitlog_sync_period`), unless it is told otherwise."""
_EPOCHS = 8  # those of older pointers are asked for by views that were opened before


class PartitionNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """`base`: microseconds; a write that follows from the record at an offset has the time base + offset. `begun`: the end of the range
    whose change was begun last. `epochs`: pairs (offset, epoch), the epoch that holds from a pointer on. `clearing`: rows are being
    removed, and none counts. `moved`: there are journals that have an older place in another partition."""

    generation: str
    base: int
    begun: int = -1
    epochs: tuple[tuple[int, int], ...] = ()
    clearing: bool = False
    moved: bool = False

    def epoch(self, offset: int) -> int:
        """The epoch with which the fold goes on behind a pointer."""
        return next((epoch for since, epoch in reversed(self.epochs) if since <= offset), 0)

    def begin(self, end: int, epoch: int) -> PartitionNote:
        """The note while the change of a range that ends at `end` is applied. The epochs of earlier pointers stay readable."""
        epochs = tuple(pair for pair in self.epochs if pair[0] < end - 1)
        if epoch != (epochs[-1][1] if epochs else 0):
            epochs = (*epochs, (end - 1, epoch))[-_EPOCHS:]
        return msgspec.structs.replace(self, begun=end, epochs=epochs)

    def unfinished(self, pointer: int) -> int:
        """The end of a range whose change was begun and not finished; -1: there is none."""
        return self.begun if self.begun > pointer + 1 else -1


class DurablePointer(msgspec.Struct, frozen=True):
    """Up to where a partition's copy survives a loss of power of all nodes. `base`: of its note; another one means another copy. `offset`:
    its pointer when somebody asked, at `at` (milliseconds); `durable`: the one of the time before that."""

    base: int
    offset: int
    at: int
    durable: int = -1

    def asked(self, base: int, offset: int, now: int) -> DurablePointer:
        """What is known once somebody asks again. What was written a minute ago is synced by then."""
        if base != self.base:
            return DurablePointer(base, offset, now)
        if now - self.at < SYNCED_MS:
            return self
        return DurablePointer(base, offset, now, min(self.offset, offset))


def durable_key(topic: str, partition: int) -> str:
    """The key of a partition's `DurablePointer` in the table `setting`."""
    return f"headwater/durable/{topic}/{partition}"


def note_key(topic: str, partition: int) -> str:
    """The note's key in the table `setting`, whose other rows are kafka-journal's."""
    return f"headwater/partition/{topic}/{partition}"


def encode_note(note: PartitionNote) -> str:
    return msgspec.json.encode(note).decode()


def decode_note(value: str) -> PartitionNote:
    """Errors: `msgspec.MsgspecError` for what is no note."""
    return msgspec.json.decode(value, type=PartitionNote)
