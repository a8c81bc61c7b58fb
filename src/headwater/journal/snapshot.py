"""Snapshots of journals: the ring of the newest ones that a store keeps, as a fold of what was saved and deleted.

A journal has a ring of 10 slots. A saved snapshot takes the slot of the one with its number; else the first free slot; else the slot of the
oldest one, by number and then by time. All snapshots of a ring belong to one life of the journal, by its `record_id`.

Saves and Purges lie in two topics, so no order between them is known but this: a save names the offset `at`, the end of the journal's
partition when its life was looked up. A Purge at or behind `at` ends that life, one before it does not. So a save of a newer life empties
the ring, one of an older life is left out, and a Purge takes what was saved before it: the ring is the same whichever topic is folded
first.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from headwater.core.errors import BadBounds, BadInput
from headwater.journal.event import MAX_SEQ_NR, Payload, PayloadKind, check_seq_nr
from headwater.journal.head import Head, HeadFold

SLOTS = 10


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A snapshot as a store keeps it: a row of `snapshot`. `offset`: of its record in the topic of snapshots. `at`: the end of the
    journal's partition when it was saved. `payload`: None where only the rest was asked for."""

    seq_nr: int
    timestamp: int  # milliseconds
    offset: int
    at: int
    kind: PayloadKind
    record_id: uuid.UUID | None = None
    origin: str | None = None
    version: str | None = None
    payload: Payload | None = None

    @property
    def age(self) -> tuple[int, int]:
        """By which the oldest and the newest of a ring are found."""
        return self.seq_nr, self.timestamp


class SnapshotCriteria(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Which snapshots are meant: numbers and times, both ends inclusive. Times are milliseconds since 1970, UTC."""

    min_seq_nr: int | None = None
    max_seq_nr: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None

    def matches(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is one of them."""
        return _within(snapshot.seq_nr, self.min_seq_nr, self.max_seq_nr) and _within(
            snapshot.timestamp, self.min_timestamp, self.max_timestamp
        )

    @property
    def all(self) -> bool:
        """Whether nothing is given, so that every snapshot is meant."""
        return self == SnapshotCriteria()

    def check(self) -> None:
        """Errors: `BadInput` for what is no number or time, `BadBounds` for the wrong order."""
        for number in (self.min_seq_nr, self.max_seq_nr):
            if number is not None:
                check_seq_nr(number)
        for time in (self.min_timestamp, self.max_timestamp):
            if time is not None and (not isinstance(time, int) or isinstance(time, bool) or not 0 <= time <= MAX_SEQ_NR):
                raise BadInput(f"{time!r:.40} is no time of a snapshot.", hint="Give milliseconds since 1970, UTC.")
        for what, low, high in (("numbers", self.min_seq_nr, self.max_seq_nr), ("times", self.min_timestamp, self.max_timestamp)):
            if low is not None and high is not None and low > high:
                raise BadBounds(f"Snapshots of the {what} {low} to {high} are the wrong way round.", hint="Give the lower one as min.")


class SnapshotDeletion(msgspec.Struct, frozen=True, gc=False):
    """Removes the snapshots of a life that the criteria match."""

    criteria: SnapshotCriteria
    offset: int
    at: int
    record_id: uuid.UUID | None = None


SnapshotAction = Snapshot | SnapshotDeletion
"""What a record of the topic of snapshots does: a `Snapshot` is saved, or some are deleted."""


class Ring(NamedTuple):
    """The snapshots of one journal, by slot. `applied`: the last offset of the topic of snapshots up to which it is folded."""

    slots: Mapping[int, Snapshot]
    applied: int = -1

    def then(self, actions: Iterable[SnapshotAction]) -> Ring:
        """The ring after actions, in the order of the log. Those that it has already are passed over."""
        slots, applied = dict(self.slots), self.applied
        for action in actions:
            if action.offset > applied:
                _apply(slots, action)
                applied = action.offset
        return Ring(slots, applied)

    def of(self, record_id: uuid.UUID | None) -> list[tuple[int, Snapshot]]:
        """Slots and snapshots of one life, the newest first."""
        pairs = [(slot, snapshot) for slot, snapshot in self.slots.items() if snapshot.record_id == record_id]
        return sorted(pairs, key=lambda pair: pair[1].age, reverse=True)


EMPTY_RING = Ring({})


def _apply(slots: dict[int, Snapshot], action: SnapshotAction) -> None:
    if isinstance(action, SnapshotDeletion):
        for slot in [
            slot for slot, snapshot in slots.items() if snapshot.record_id == action.record_id and action.criteria.matches(snapshot)
        ]:
            del slots[slot]
        return
    if any(snapshot.record_id != action.record_id for snapshot in slots.values()):
        if action.at <= max(snapshot.at for snapshot in slots.values()):
            return  # of a life that has ended
        slots.clear()
    slots[_slot(slots, action.seq_nr)] = action


def _slot(slots: Mapping[int, Snapshot], seq_nr: int) -> int:
    for slot, snapshot in slots.items():
        if snapshot.seq_nr == seq_nr:
            return slot
    if len(slots) < SLOTS:
        return next(slot for slot in range(SLOTS) if slot not in slots)
    return min(slots, key=lambda slot: slots[slot].age)


Copied = Head | HeadFold | None
"""What the store of the journals knows of one: its head, or None where it has none. Of a journal that has an older place in another
partition (`headwater.journal.grown`) it is the fold of the records that lie here: its life may have begun there."""


def life_ended(action: SnapshotAction, pointer: int, copied: Copied) -> bool:
    """Whether the store of the journals knows, at its pointer, that the life of an action has ended."""
    if isinstance(copied, HeadFold):
        return action.at <= copied.purged
    return action.at <= pointer + 1 and (copied is None or copied.record_id != action.record_id)


def living(actions: Iterable[SnapshotAction], pointer: int, copied: Callable[[], Copied]) -> list[SnapshotAction]:
    """The actions whose life has not ended at the pointer of the journals' copy. `copied`: looks the journal up, where that is needed."""
    all_actions = list(actions)
    if not any(action.at <= pointer + 1 for action in all_actions):
        return all_actions
    stored = copied()
    return [action for action in all_actions if not life_ended(action, pointer, stored)]


def purged_slots(slots: Mapping[int, Snapshot], purged: int) -> list[int]:
    """The slots that a Purge at an offset of the journal's partition empties."""
    return [slot for slot, snapshot in slots.items() if snapshot.at <= purged]


def _within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)
