"""The head cache of a partition: what the log says about its journals behind the store's pointer.

It reads keys and headers of records once, in the order of the log, and keeps for each journal its actions as numbers, and the newest
Appends within a bound of bytes. What it does not hold, because it has forgotten it or not read it yet, its user scans the log for.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from headwater.core.errors import UnreadableRecord
from headwater.journal.action import ActionRecord
from headwater.journal.actions import TailActions
from headwater.journal.claims import epochs_from
from headwater.journal.offset_index import OffsetIndex
from headwater.log.record import Record

Decode = Callable[[Record], ActionRecord | None]
_PRUNED = 256  # actions of one journal after which those that are copied are forgotten
_FEW = 20  # Appends of a tail that is read at once
_OVERHEAD = 400  # bytes that a kept record takes beside its value


class CacheLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a cache holds. `drop`: the share of the journals that goes at once where there are too many."""

    journals: int = 50_000
    actions: int = 1_000_000  # of 41 bytes: a journal with more of them behind the store is scanned for at every look-up
    record_bytes: int = 16 << 20
    offsets: int = 4_000_000  # of actions whose journals were dropped, too: 16 bytes each
    drop: float = 0.1


class CacheCounts(msgspec.Struct):
    """How lookups ended. `hit`: the cache knew everything; `miss`: the log was scanned, because the journal was dropped (`limited`) or the
    cache was too far behind (`behind`); `ahead`: the store holds everything already. `seconds`: that lookups took, scans with them."""

    hit: int = 0
    miss: int = 0
    ahead: int = 0
    limited: int = 0
    behind: int = 0
    seconds: float = 0.0


class CachedTail(msgspec.Struct, frozen=True):
    """What a cache knows of one journal: its actions in [since, until)."""

    since: int
    until: int
    actions: TailActions
    epoch: int
    """Of the partition at `until`, with which a scan from there begins."""


class _Entry:
    """A journal of which every action from `since` on is known."""

    __slots__ = ("actions", "since")

    def __init__(self, since: int, actions: TailActions | None = None) -> None:
        self.since, self.actions = since, TailActions() if actions is None else actions

    @property
    def last(self) -> int:
        """The offset of the newest action; that before `since` where there is none."""
        return self.actions.offsets[-1] if len(self.actions) else self.since - 1


class HeadCache:
    """Safe for several threads. `start`: the offset from which the first record is added; `epoch`: of the partition there.
    `claimed`: records count by their claims."""

    def __init__(self, start: int, *, decode: Decode, epoch: int = 0, claimed: bool = True, limits: CacheLimits | None = None) -> None:
        self._decode, self._limits = decode, limits or CacheLimits()
        self._mutex = threading.Lock()
        # A dict from whose front much was taken is slow to look at from the front: these are not.
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()  # the journal with the newest action last
        self._records: OrderedDict[int, ActionRecord] = OrderedDict()  # Appends by offset, ascending
        self._bytes = self._actions = 0
        self._since, self.end = start, start
        self._index = OffsetIndex(start, most=self._limits.offsets)
        self._claimed = claimed
        self._epochs = epochs_from(epoch, claimed=claimed)
        self.counts = CacheCounts()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, records: Sequence[Record], end: int) -> None:
        """Take the records of [self.end, end). Those below `self.end`, which another thread has added meanwhile, are left out."""
        with self._mutex:
            if end <= self.end:
                return
            for record in records:
                if record.offset is not None and record.offset >= self.end:
                    self._add(record, record.offset)
            self.end = end
            self._trim()

    @property
    def skims(self) -> bool:
        """Whether `skim` is worth its time: it keeps where the actions lie, and their journals are found by that."""
        return bool(self._limits.offsets) and not self._claimed

    def skim(self, keys: Sequence[bytes | None], offsets: Sequence[int], end: int) -> None:
        """Take the records of [self.end, end) by their keys alone, without decoding them. Look-ups then read the records of their
        journals. Not where records count by their claims."""
        with self._mutex:
            if end <= self.end:
                return
            add, begin = self._index.add, self.end
            for key, offset in zip(keys, offsets, strict=True):
                if key is not None and offset >= begin:
                    add(key, offset)
            self._entries.clear()  # what they lack is only in the index
            self._records.clear()
            self._bytes = self._actions = 0
            self._since = self.end = end

    def _add(self, record: Record, offset: int) -> None:
        if not self._epochs.admits(record) or record.key is None:
            return
        try:
            decoded = self._decode(record)
        except UnreadableRecord:
            self._entry(record.key).actions.add_unreadable(offset)
            self._actions += 1
            self._index.add(record.key, offset)
            return
        if decoded is None or not (entry := self._entry(record.key, decoded)).actions.add(decoded):
            return
        self._entries[record.key] = entry
        self._actions += 1
        self._index.add(record.key, offset)
        if len(entry.actions) % _PRUNED == 0 and entry.since < self._since:  # one that is never idle would keep what is copied
            self._actions -= len(entry.actions)
            entry.since, entry.actions = self._since, entry.actions.between(self._since, offset + 1)
            self._actions += len(entry.actions)
        if decoded.value is not None:
            self._records[offset] = decoded
            self._bytes += len(decoded.value) + _OVERHEAD

    def _entry(self, key: bytes, decoded: ActionRecord | None = None) -> _Entry:
        """The entry of a journal, at the end of the order; a Mark makes none."""
        entry = self._entries.pop(key, None) or _Entry(self._since)
        if decoded is None or len(entry.actions):
            self._entries[key] = entry
        return entry

    def _trim(self) -> None:
        limits = self._limits
        while self._bytes > limits.record_bytes and self._records:
            self._drop_record(next(iter(self._records)))
        if len(self._entries) > limits.journals:
            keep = max(1, limits.journals - int(limits.journals * limits.drop))
            while len(self._entries) > keep:
                self._drop_oldest()
        if self._actions > limits.actions:
            most = limits.actions - int(limits.actions * limits.drop)
            while self._entries and self._actions > most:  # one journal alone may be too large
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, entry = self._entries.popitem(last=False)
        self._actions -= len(entry.actions)
        self._since = max(self._since, entry.last + 1)  # journals without an entry are unknown below this

    def _drop_record(self, offset: int) -> None:
        record = self._records.pop(offset)
        self._bytes -= len(record.value or b"") + _OVERHEAD

    def forget(self, pointer: int) -> None:
        """Forget what a store has copied: everything up to `pointer`, with it."""
        with self._mutex:
            if pointer < self._since:
                return
            self._since = pointer + 1
            self._index.forget(pointer)
            while self._entries and next(iter(self._entries.values())).last <= pointer:
                _, entry = self._entries.popitem(last=False)
                self._actions -= len(entry.actions)
            while self._records and (offset := next(iter(self._records))) <= pointer:
                self._drop_record(offset)
            if self.end <= pointer:  # the store has copied what this cache has not read
                self.end = pointer + 1

    def restart(self, start: int, epoch: int) -> None:
        """Begin anew, behind a stretch that this cache will not read: the store has copied it."""
        with self._mutex:
            if start > self.end:
                self._entries.clear()
                self._records.clear()
                self._bytes = self._actions = 0
                self._since = self.end = start
                self._index = OffsetIndex(start, most=self._limits.offsets)
                self._epochs = epochs_from(epoch, claimed=self._claimed)

    def tail(self, key: bytes, start: int, end: int) -> CachedTail:
        """What is known of a journal in [start, end)."""
        with self._mutex:
            entry = self._entries.get(key)
            since = self._since if entry is None else entry.since
            until = min(end, self.end)
            actions = TailActions() if entry is None else entry.actions.between(start, until)
            return CachedTail(max(since, start), max(until, start), actions, self._epochs.epoch)

    def fill(self, key: bytes, start: int, tail: CachedTail, scanned: TailActions) -> None:
        """Keep the actions of a journal in [start, known.since), which a scan has found, so that the next lookup needs no scan."""
        with self._mutex:
            entry = self._entries.get(key)
            if tail.since != (self._since if entry is None else entry.since):
                return  # forgotten or dropped meanwhile
            if entry is not None:
                scanned.extend(entry.actions)
                self._actions -= len(entry.actions)
            self._entries[key] = _Entry(start, scanned)
            self._actions += len(scanned)
            self._trim()

    def offsets(self, key: bytes, start: int, end: int) -> list[int] | None:
        """Offsets in [start, end), which this cache has read, that may be of a journal's actions; None where they are no longer known."""
        with self._mutex:
            if not self._limits.offsets or start < self._index.since or end > self.end:
                return None
            return self._index.find(key, start, end)

    def append(self, offset: int) -> ActionRecord | None:
        """The Append at an offset, where it is kept."""
        return self._records.get(offset)

    def short_tail(self, key: bytes, start: int, end: int) -> list[ActionRecord] | None:
        """The actions of a journal in [start, end), where this cache ends there and keeps them all, a few Appends; None elsewhere."""
        with self._mutex:
            entry = self._entries.get(key)
            if self.end != end or (self._since if entry is None else entry.since) > start:
                return None
            if entry is None:
                return []
            offsets, records = entry.actions.offsets, self._records
            at = bisect_left(offsets, start)
            if len(offsets) - at > _FEW:
                return None
            actions = [records.get(offset) for offset in offsets[at:]]  # what is no Append is not kept
        return None if None in actions else actions  # type: ignore[return-value]
