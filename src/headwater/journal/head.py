"""The head of a journal: its newest number and what is deleted. Folded from actions, the same for every way of splitting them.

A `HeadFold` is what a stretch of a partition's records says about one journal, without what lies before. `then` joins two neighbouring
stretches, and `applied` joins the stored head with the stretch behind the store's pointer. Joining is associative, and `EMPTY` changes
nothing. It is not idempotent: callers fold every record once, by its offset.

    field      Append a..b @f   Delete t   Purge @f   x then y, y purges   x then y, otherwise
    purged     -                -          f          y's                  x's
    first      f                -          -          y's                  x's, or y's
    seq_nr     b                0          0          y's                  the higher
    delete_to  0                t          0          y's                  0 where x purges, else the higher
    capped     0                0          0          y's                  the highest of x's, y's, min(y's delete_to, x's seq_nr)

A Delete is capped by the numbers that were there: `capped` holds what is capped already, `delete_to` what the stored head has to cap.
"""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from hashlib import sha1 as _sha1

import msgspec

from headwater.journal.action import ActionRecord, Append, Delete, Purge


class FirstAppend(msgspec.Struct, frozen=True, gc=False):
    """The Append that begins a journal's life: the first one, or the first one after a Purge."""

    offset: int
    seq_nr: int
    timestamp: int
    origin: str | None = None


class Expiry(msgspec.Struct, frozen=True, gc=False):
    """What the newest Append says about expiry. `after`: milliseconds; None: it removes what an earlier one gave."""

    after: int | None
    timestamp: int

    @property
    def on(self) -> date | None:
        """The day, UTC, on which the journal expires."""
        if self.after is None:
            return None
        try:
            return datetime.fromtimestamp((self.timestamp + self.after) / 1000, UTC).date()
        except (OverflowError, ValueError, OSError):
            return date.max


class HeadFold(msgspec.Struct, frozen=True, gc=False):
    """What a stretch of records says about one journal. -1 stands for no offset."""

    purged: int = -1
    first: FirstAppend | None = None
    seq_nr: int = 0
    delete_to: int = 0
    capped: int = 0
    offset: int = -1  # of the newest action
    timestamp: int = 0  # of the newest action
    expiry: Expiry | None = None  # of the newest Append

    def then(self, later: HeadFold) -> HeadFold:
        """What this stretch and the one behind it say together."""
        if later.offset < 0:
            return self
        if later.purged >= 0 or self.offset < 0:
            return later
        return HeadFold(
            purged=self.purged,
            first=self.first or later.first,
            seq_nr=max(self.seq_nr, later.seq_nr),
            delete_to=0 if self.purged >= 0 else max(self.delete_to, later.delete_to),
            capped=max(self.capped, later.capped, min(later.delete_to, self.seq_nr)),
            offset=later.offset,
            timestamp=later.timestamp,
            expiry=later.expiry or self.expiry,
        )


EMPTY = HeadFold()
_OID = uuid.NAMESPACE_OID.bytes
_UNMARKED, _MARKS = ~(0xF000 << 64) & ~(0xC000 << 48), 5 << 76 | 0x8000 << 48  # the version and the variant of an id


def fold_of(record: ActionRecord, expire_after: int | None = None) -> HeadFold:
    """What one record says. `expire_after`: of an Append's body; None: it has none. A Mark says nothing."""
    action, offset, timestamp = record.action, record.offset, record.timestamp
    if isinstance(action, Append):
        return HeadFold(
            first=FirstAppend(offset, action.first, timestamp, action.origin),
            seq_nr=action.last,
            offset=offset,
            timestamp=timestamp,
            expiry=Expiry(expire_after, timestamp),
        )
    if isinstance(action, Delete):
        return HeadFold(delete_to=action.to, offset=offset, timestamp=timestamp)
    if isinstance(action, Purge):
        return HeadFold(purged=offset, offset=offset, timestamp=timestamp)
    return EMPTY


class Head(msgspec.Struct, frozen=True, gc=False):
    """A journal's head as a store keeps it: a row of `metajournal`."""

    partition: int
    offset: int
    segment_size: int
    seq_nr: int
    delete_to: int | None
    created: int  # milliseconds
    updated: int
    expire_after: int | None = None  # milliseconds
    expire_on: date | None = None
    record_id: uuid.UUID | None = None
    origin: str | None = None

    @property
    def deleted(self) -> int:
        """The highest number that is deleted; 0: none is."""
        return self.delete_to or 0

    @property
    def last(self) -> int:
        """The number after which the next event is numbered. Older stores hold heads whose `delete_to` is above their `seq_nr`."""
        return max(self.seq_nr, self.delete_to or 0)


def applied(fold: HeadFold, stored: Head | None, *, partition: int, generation: str, segment_size: int) -> Head | None:
    """The head after a stretch; None: there is no such journal. `stored`: the head before it. `segment_size`: of a new journal."""
    if fold.offset < 0:
        return stored
    if fold.purged >= 0:
        stored = None
    if stored is None:
        if fold.first is None:
            return None  # a Delete of what is not there does nothing
        expiry = fold.expiry or Expiry(None, 0)
        # By position, here and below: names would double the time of what every journal of a range takes.
        return Head(
            partition, fold.offset, segment_size, fold.seq_nr, max(fold.capped, fold.first.seq_nr - 1) or None, fold.first.timestamp,
            fold.timestamp, expiry.after, expiry.on, record_id(generation, partition, fold.first.offset), fold.first.origin,
        )  # fmt: skip
    expire_after, expire_on = (fold.expiry.after, fold.expiry.on) if fold.expiry else (stored.expire_after, stored.expire_on)
    return Head(
        partition, fold.offset, stored.segment_size, max(stored.seq_nr, fold.seq_nr),
        max(stored.deleted, fold.capped, min(fold.delete_to, stored.seq_nr)) or None, stored.created,
        fold.timestamp, expire_after, expire_on, stored.record_id, stored.origin,
    )  # fmt: skip


def read_range(head: Head, start: int, stop: int | None) -> tuple[int, int]:
    """The first and the last number that a read from `start` to `stop` may give: none that is deleted, and none above the head's, whatever
    an Append of another writer holds."""
    return max(start, head.deleted + 1), head.seq_nr if stop is None else min(stop, head.seq_nr)


def with_rows_up_to(stored: Head, head: Head) -> Head:
    """A stored head for which the store gives its rows up to the number of a newer head: rows above its own may have come before."""
    return msgspec.structs.replace(stored, seq_nr=head.seq_nr) if stored.seq_nr < head.seq_nr else stored


def record_id(generation: str, partition: int, offset: int) -> uuid.UUID:
    """The id of a journal's life, the same in every store and for every split: by the place of the Append that begins it."""
    name = _OID + f"{generation}/{partition}/{offset}".encode()
    digest = int.from_bytes(_sha1(name, usedforsecurity=False).digest()[:16])
    # As uuid.uuid5, in half of its time: every journal that begins takes one.
    return msgspec.convert((digest & _UNMARKED | _MARKS).to_bytes(16), uuid.UUID)
