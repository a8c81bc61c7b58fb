"""The fold of a range of a partition's records into what it changes in a store. Pure: it reads no log and writes no store.

Records go through the rule of claims first, then quarantined ones are left out, then the rest is decoded. The first record that cannot
be decoded ends the range before it. `fold_range` takes records, `fold_batches` the Arrow batches of `Log.scan`, which is quicker.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa

from headwater.core.errors import UnreadableRecord
from headwater.journal.action import Action, Append, Delete, Purge
from headwater.journal.append_rows import append_rows
from headwater.journal.change import EventRow, JournalChange, PartitionChange
from headwater.journal.claims import epochs_from
from headwater.journal.event import RESERVED
from headwater.journal.head import Expiry, FirstAppend, HeadFold
from headwater.journal.tally import CopyTally
from headwater.journal.unreadable import at_offset
from headwater.journal.wire import read_action, read_id, split_headers
from headwater.log.epochs import Epochs, Kind
from headwater.log.layout import decode_headers
from headwater.log.record import Header, Record

_ACTION_ALONE = b"\x00\x01\x00\x0e" + RESERVED.encode()  # a header block behind its length: one header, the length of its name, its name
_ACTION_AT = 4 + len(_ACTION_ALONE) + 4  # where that header's value begins
_SLICE = 2048  # records whose columns become Python values at once: more of them no longer fit the processor's caches


class FoldedRange(msgspec.Struct, frozen=True):
    """`change`: of all records before `poison`, the first one that cannot be decoded; None: all can. `tally`: what they hold."""

    change: PartitionChange
    poison: UnreadableRecord | None = None
    tally: CopyTally = msgspec.field(default_factory=CopyTally)


def fold_range(
    *,
    topic: str,
    partition: int,
    generation: str,
    start: int,
    end: int,
    records: Iterable[Record],
    epoch: int = 0,
    skip: Container[int] = (),
    claimed: bool = True,
) -> FoldedRange:
    """What the records of [start, end), in their order, change. `epoch`: of the partition before the first one (`Pointer.epoch`).
    `claimed`: records count by their claims (`has_claims`). `skip`: offsets of quarantined records. Where a record is poison, the change
    ends at its offset."""
    fold = _RangeFold(partition, epochs_from(epoch, claimed=claimed), skip)
    poison = fold.add_records(records)
    return fold.folded(topic, generation, start, end, poison)


def fold_batches(
    *,
    topic: str,
    partition: int,
    generation: str,
    start: int,
    end: int,
    batches: Iterable[pa.RecordBatch],
    epoch: int = 0,
    skip: Container[int] = (),
    claimed: bool = True,
    bodies: bool = True,
) -> FoldedRange:
    """As `fold_range`, from what `Log.scan(topic, partition, start, end)` yields. Batches are freed one by one. `bodies`: False where only
    heads are needed: events are decoded, and not kept."""
    fold = _RangeFold(partition, epochs_from(epoch, claimed=claimed), skip, bodies=bodies)
    poison = None
    for batch in batches:
        for at in range(0, len(batch), _SLICE):
            poison = fold.add_batch(batch.slice(at, _SLICE))
            if poison is not None:
                return fold.folded(topic, generation, start, end, poison)
    return fold.folded(topic, generation, start, end, poison)


class _JournalFold:
    """One journal's `HeadFold` while it grows, and its rows. Says the same as joining folds with `then`, without a new value each time."""

    __slots__ = ("appended", "capped", "delete_to", "expire_after", "first", "id", "offset", "purged", "rows", "seq_nr", "timestamp")

    def __init__(self, id: str) -> None:
        self.id = id
        self.begin_anew(-1, 0)

    def begin_anew(self, purged: int, timestamp: int) -> None:
        """Forgets everything. `purged`: the offset of the Purge, -1: there is none."""
        self.purged = self.offset = purged
        self.timestamp = timestamp
        self.seq_nr = self.delete_to = self.capped = 0
        self.first: tuple[int, int, int, str | None] | None = None
        self.expire_after: int | None = None  # of the newest Append, which has the time `appended`
        self.appended = 0
        self.rows: list[EventRow] = []

    def delete(self, to: int, offset: int, timestamp: int) -> None:
        self.capped = max(self.capped, min(to, self.seq_nr))
        if self.purged < 0:
            self.delete_to = max(self.delete_to, to)
        self.offset, self.timestamp = offset, timestamp

    def change(self) -> JournalChange:
        rows = [row for row in self.rows if row.seq_nr > self.capped] if self.capped else self.rows
        first, expiry = (None, None) if self.first is None else (FirstAppend(*self.first), Expiry(self.expire_after, self.appended))
        # By position: names would double its time.
        fold = HeadFold(self.purged, first, self.seq_nr, self.delete_to, self.capped, self.offset, self.timestamp, expiry)
        return JournalChange(self.id, fold, tuple(rows))


class _RangeFold:
    """The folds of a range's journals, by their keys."""

    def __init__(self, partition: int, epochs: Epochs, skip: Container[int], *, bodies: bool = True) -> None:
        self._bodies = bodies
        self._partition, self._skip = partition, skip
        self._epochs = epochs
        self._journals: dict[bytes, _JournalFold] = {}
        self._appends: dict[bytes, Append] = {}  # by their headers, which are the same in many journals: they hold numbers and the origin
        self._timestamp = 0
        self._events = self._forks = self._gaps = 0

    def add_records(self, records: Iterable[Record]) -> UnreadableRecord | None:
        """Adds the records up to one that cannot be decoded, which is returned."""
        epochs, offset = self._epochs, -1
        before = newest = self._timestamp
        try:
            for record in records:
                headers, timestamp, offset = record.headers, record.timestamp, -1 if record.offset is None else record.offset
                before, newest = newest, timestamp or newest
                if len(headers) == 1 and headers[0][0] == RESERVED and not epochs.epoch:
                    header, users = headers[0][1] or b"", _NO_HEADERS
                else:
                    if not epochs.admits(record):
                        continue
                    action_header, users = split_headers(headers)
                    if action_header is None:
                        continue
                    header = action_header
                if record.key is not None and timestamp is not None and timestamp >= 0 and offset not in self._skip:
                    self._add(offset, timestamp, record.key, record.value, header, users)
        except UnreadableRecord as error:
            self._timestamp = before
            return at_offset(error, offset)
        self._timestamp = newest
        return None

    def add_batch(self, batch: pa.RecordBatch) -> UnreadableRecord | None:
        """Adds the records up to one that cannot be decoded, which is returned."""
        epochs, offset = self._epochs, -1
        before = newest = self._timestamp
        try:
            for offset, timestamp, key, value, block in _rows(batch):
                before, newest = newest, timestamp or newest
                if block is not None and block.startswith(_ACTION_ALONE, 4) and not epochs.epoch:
                    header, users = block[_ACTION_AT:], _NO_HEADERS
                else:
                    headers: Sequence[Header] = () if block is None else decode_headers(block)
                    if epochs.kind(key is None and value is None, headers, offset) is not Kind.COUNTED:
                        continue
                    action_header, users = split_headers(headers)
                    if action_header is None:
                        continue
                    header = action_header
                if key is not None and timestamp >= 0 and offset not in self._skip:
                    self._add(offset, timestamp, key, value, header, users)
        except UnreadableRecord as error:
            self._timestamp = before
            return at_offset(error, offset)
        self._timestamp = newest
        return None

    def _add(self, offset: int, timestamp: int, key: bytes, value: bytes | None, header: bytes, users: tuple[tuple[str, str], ...]) -> None:
        """Adds one record. Errors: `UnreadableRecord`, before anything is changed."""
        action: Action | None = self._appends.get(header)
        if action is None:
            action = read_action(header)
            if type(action) is Append and len(self._appends) < _MOST_APPENDS:
                self._appends[header] = action
        if type(action) is Append:
            if value is None:
                return
            rows, expire_after = append_rows(action, value, self._partition, offset, timestamp, users)
            journal = self._journals.get(key) or self._journal(key)
            self._events += len(rows)
            if journal.first is None:
                journal.first = (offset, action.first, timestamp, action.origin)
            elif action.first != journal.seq_nr + 1:
                if action.first <= journal.seq_nr:
                    self._forks += 1
                else:
                    self._gaps += 1
            if action.last > journal.seq_nr:
                journal.seq_nr = action.last
            journal.expire_after, journal.appended = expire_after, timestamp
            journal.offset, journal.timestamp = offset, timestamp
            if self._bodies:
                journal.rows += rows
        elif type(action) is Delete:
            self._journal(key).delete(action.to, offset, timestamp)
        elif type(action) is Purge:
            self._journal(key).begin_anew(offset, timestamp)
        elif action is not None and key not in self._journals:
            read_id(key)  # of a Mark: what readers cannot read, replication does not pass over

    def _journal(self, key: bytes) -> _JournalFold:
        journal = self._journals.get(key)
        if journal is None:
            journal = self._journals[key] = _JournalFold(read_id(key))
        return journal

    def folded(self, topic: str, generation: str, start: int, end: int, poison: UnreadableRecord | None) -> FoldedRange:
        """What has been added, as the change of [start, end), or of what lies before the poison."""
        change = PartitionChange(
            topic=topic,
            partition=self._partition,
            generation=generation,
            start=start,
            end=end if poison is None else poison.offset,
            journals=tuple([journal.change() for journal in self._journals.values()]),
            timestamp=self._timestamp,
            epoch=self._epochs.epoch,
        )
        return FoldedRange(change, poison, CopyTally(self._events, self._forks, self._gaps))


_NO_HEADERS: tuple[tuple[str, str], ...] = ()
_MOST_APPENDS = 4096  # headers that a fold remembers


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, int, bytes | None, bytes | None, bytes | None]]:
    """Offset, timestamp, key, value and header block of each record."""
    names = ("offset", "timestamp", "key", "value", "headers")
    return zip(*[batch.column(name).to_pylist() for name in names], strict=True)
