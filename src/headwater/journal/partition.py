"""One partition of a topic of journals: the log and the store's copy of it, joined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import NamedTuple, TypeVar

import msgspec

from headwater.core.errors import Closed, Conflict, Differs, LogGap, OffsetGone, Unavailable, UnknownTopic, UnreadableRecord
from headwater.journal.action import ActionRecord
from headwater.journal.actions import TailActions
from headwater.journal.cache import CacheLimits, HeadCache
from headwater.journal.change import Pointer
from headwater.journal.claims import epochs_from, has_claims
from headwater.journal.event import EventRecord
from headwater.journal.event_bodies import expire_after_of
from headwater.journal.head import EMPTY, Expiry, Head, HeadFold, applied
from headwater.journal.merge import DuplicateCount
from headwater.journal.names import key_of
from headwater.journal.quarantined import QuarantinedRecords
from headwater.journal.settings import JournalSettings
from headwater.journal.short_read import add_tail, highest
from headwater.journal.store import JournalStore, PartitionStore, PartitionView
from headwater.journal.store_reach import StoreReach
from headwater.journal.unreadable import at_offset, unreadable
from headwater.journal.view_block import LOG_ALONE, ViewBlock
from headwater.journal.wire import read_record
from headwater.log import Log
from headwater.log.layout import decode_headers
from headwater.log.record import Bounds, Record, Topic

T = TypeVar("T")
_NEAR = 50  # records that an event loop may let the cache read
_STEP = 5_000  # records that a lookup lets the cache read at once: some 20 ms
_LONG = 50_000  # records of which the cache reads the keys alone
_SHARE = 2  # of what it lacks, so that a long tail is read within a few lookups, and each of them scans less
_FEW = 1000  # records that are quicker to read one by one than to scan for
AGAIN = 10  # times that a read begins anew because the store or the log has changed under it
NOTHING_COPIED = Pointer(-1)
_NO_ACTIONS = TailActions()


class Joined(NamedTuple):
    """A journal at one offset. `stored`: its head in the store; `fold`: what the log says behind the pointer; `head`: both together."""

    head: Head | None
    stored: Head | None
    fold: HeadFold
    actions: TailActions
    pointer: Pointer


class JournalPartition:
    """Reads of one partition. Blocking, and safe for several threads. A log that holds everything stands in for a store that does not
    answer.

    Errors of every read: `LogGap` where the log begins behind the pointer + 1; `UnreadableRecord` for a journal with a record that cannot
    be decoded; those of the log and the store, such as `Differs` for a store with the copy of another topic of this name.
    """

    def __init__(
        self,
        log: Log,
        store: Callable[[], JournalStore],
        topic: Topic,
        number: int,
        *,
        settings: JournalSettings,
        limits: CacheLimits | None = None,
        quick: bool = False,
        reach: StoreReach | None = None,
    ) -> None:
        """`quick`: the log and the store are files of this machine. `reach`: what is known of the store, shared by partitions."""
        self.quick, self.reach = quick, reach or StoreReach()
        self.log, self._store, self.topic, self.number, self.settings = log, store, topic, number, settings
        self._limits, self._claimed = limits, has_claims(log, topic)
        self._copy: PartitionStore | None = None
        self._cache: HeadCache | None = None
        self.quarantined = QuarantinedRecords(log, topic.name, topic.generation, number)
        self._copied: int | None = None  # the end of what the store was seen to hold
        self.duplicates = DuplicateCount()

    # -- the log ----------------------------------------------------------------------------------------------

    def end(self) -> int:
        """The durable end."""
        return self.log.bounds(self.topic.name, self.number).end

    def bounds(self) -> Bounds:
        """The offsets that the log keeps."""
        return self.log.bounds(self.topic.name, self.number)

    def read(self, start: int) -> Sequence[Record]:
        """Some durable records from an offset on."""
        return self.log.read(self.topic.name, self.number, start, limit=1000)

    def records(self, offsets: Sequence[int]) -> list[Record]:
        """The records at these offsets. Errors: `OffsetGone` where one is not there any more."""
        records = self.log.read_at(self.topic.name, self.number, offsets)
        if None in records:
            raise OffsetGone(f"{self.topic.name}/{self.number} no longer holds offset {offsets[records.index(None)]}.", hint="Read again.")
        return [record for record in records if record is not None]

    def appends(self, offsets: Sequence[int]) -> list[ActionRecord | None]:
        """The Appends at these offsets; None for a record that is none. Errors: `OffsetGone`; `UnreadableRecord`."""
        cache = self._cache
        appends = [None if cache is None else cache.append(offset) for offset in offsets]
        missing = [index for index, record in enumerate(appends) if record is None]
        if missing:
            for index, record in zip(missing, self.records([offsets[index] for index in missing]), strict=True):
                action = read_record(record)
                appends[index] = action if action is not None and action.value is not None else None
        return appends

    # -- the store --------------------------------------------------------------------------------------------

    def copy(self) -> PartitionStore | None:
        """The store's copy of this partition; None where nothing is copied."""
        if self._copy is None:
            self._copy = self._store().partition(self.topic.name, self.number, self.topic.generation, create=False)
        return self._copy

    def view(self, *, log_instead: bool = False) -> AbstractContextManager[PartitionView | None]:
        """The copy at one moment, as a block; None where there is none. `log_instead`: also None while the store does not answer, where the
        log holds everything."""
        if log_instead and self.reach.away() and self.bounds().start == 0:
            return LOG_ALONE
        copy = self.copy()
        return nullcontext() if copy is None else ViewBlock(copy.view(), whole=lambda: self.bounds().start == 0)

    def viewed(self, call: Callable[[PartitionView | None], T], *, log_instead: bool = False) -> T:
        """Call with a view; again with a newer one where the store has changed it, or the log was deleted up to a newer pointer.
        `log_instead`: as of `view`."""
        for left in range(AGAIN, -1, -1):
            block: AbstractContextManager[PartitionView | None] | None = None
            try:
                with (block := self.view(log_instead=log_instead)) as view:
                    answer = call(view)
                if block is not LOG_ALONE:
                    self.reach.found()
                return answer
            except (OffsetGone, Conflict):
                if not left:
                    raise
            except Unavailable as error:
                if not log_instead or block is LOG_ALONE or not left or not self.stands_in(error):
                    raise
        raise AssertionError("unreachable")

    def stands_in(self, error: Unavailable) -> bool:
        """Take over that the store did not answer; whether the log holds everything, so that the next view does without the store."""
        if isinstance(error, Closed):
            return False
        if start := self.bounds().start:
            error.hint = f"{error.hint} The log begins at offset {start}: it cannot stand in for the store.".strip()
            return False
        self.reach.lost()
        return True

    def pointer(self) -> Pointer:
        """How far the partition is copied."""
        copy = self.copy()
        return NOTHING_COPIED if copy is None else copy.pointer()

    def near(self, end: int) -> bool:
        """Whether a look-up below an offset reads only memory and open files of this machine, and hardly more of the log."""
        known_end = self._copied if self._cache is None else self._cache.end
        return self.quick and known_end is not None and end - known_end <= _STEP

    def warm_end(self) -> int | None:
        """The durable end where a small read finds everything in memory or in an open file of this machine, so that an event loop may do
        it; None elsewhere."""
        known_end = self._copied if self._cache is None else self._cache.end
        if not self.quick or known_end is None or self._copy is None:
            return None
        end = self.log.known_end(self.topic.name, self.number)
        return end if end is not None and end - known_end <= _NEAR else None

    def short_read(self, id: str, start: int, stop: int) -> list[EventRecord] | None:
        """All events of a journal from `start` to `stop`, where an event loop may read them with one statement and from memory: the copy is
        a file of this machine that has its first ones, and what it lacks are a few Appends that the cache keeps. None elsewhere."""
        copy, copied_end = self._copy if self.quick else None, self._copied
        end = None if copy is None else self.log.known_end(self.topic.name, self.number)
        if copy is None or end is None or copied_end is None or end < copied_end:
            return None
        cache = self._cache
        if end == copied_end:
            events = copy.short_read(id, start, stop, copied_end - 1)
            if cache is not None and events is not None:
                cache.counts.ahead += 1
            return events
        if cache is None or end - cache.end > _NEAR:
            return None
        try:
            if cache.end < end:
                self._cached(Pointer(copied_end - 1), end)
        except (OffsetGone, Conflict, LogGap, UnknownTopic):  # the copy has gone on, and the log was deleted so far or is gone
            return None
        appends = cache.short_tail(key_of(id), copied_end, end)
        if appends is None:
            return None
        left_out = self.quarantined.offsets() if appends else ()
        if left_out and any(append.offset in left_out for append in appends):
            return None
        events = copy.short_read(id, start, stop, copied_end - 1, above=highest(appends))
        if events and appends and not add_tail(events, appends, stop, self.number):
            return None
        cache.counts.hit += events is not None
        return events

    # -- both -------------------------------------------------------------------------------------------------

    def last_number(self, id: str, end: int) -> int:
        """The last number of a journal below an offset; 0: there is no such journal."""
        head = self.joined(id, end).head
        return 0 if head is None else head.last

    def joined(self, id: str, end: int | None) -> Joined:
        """A journal below an offset; None: what the store alone says."""
        return self.viewed(lambda view: self.join(view, id, end), log_instead=end is not None)

    def join(self, view: PartitionView | None, id: str, end: int | None) -> Joined:
        """`joined`, over an open view. Errors: also `OffsetGone` and `Conflict`, where a newer view is needed."""
        pointer, stored = (NOTHING_COPIED, None) if view is None else (view.pointer, view.head(id))
        self._copied = pointer.offset + 1
        if end is not None:
            end = max(end, pointer.begun)  # an unfinished change may have removed what records up to there delete
        if end is None or pointer.offset + 1 >= end:
            if end is not None and pointer.offset >= end:
                self.check_end(pointer)
            if end is not None and self._cache is not None:
                self._cache.counts.ahead += 1
            return Joined(stored, stored, EMPTY, _NO_ACTIONS, pointer)
        began = perf_counter()
        actions = self._actions(key_of(id), pointer, end).without(self.quarantined.offsets())
        if self._cache is not None:
            self._cache.counts.seconds += perf_counter() - began
        if actions.unreadable() is not None:
            actions = actions.without(self.quarantined.offsets(now=True))
        if (offset := actions.unreadable()) is not None:
            raise at_offset(unreadable(f"A record of journal {id!r:.60} cannot be decoded."), offset)
        fold = actions.fold()
        return Joined(self._applied(fold, stored), stored, fold, actions, pointer)

    def _applied(self, fold: HeadFold, stored: Head | None) -> Head | None:
        return applied(fold, stored, partition=self.number, generation=self.topic.generation, segment_size=self.settings.segment_size)

    def full_head(self, id: str, end: int | None) -> Head | None:
        """The head with its expiry and origin, which are read from the records."""
        joined = self.joined(id, end)
        return None if joined.head is None else self._applied(self.full_fold(joined), joined.stored)

    def full_fold(self, joined: Joined) -> HeadFold:
        """What the log says behind the pointer, with expiry and origin. Errors: `OffsetGone`."""
        newest = joined.actions.newest_append()
        if newest is None or joined.fold.first is None:
            return joined.fold
        started, action = self.appends([joined.fold.first.offset, newest])
        if action is None or started is None or action.value is None:
            return joined.fold
        expiry = Expiry(expire_after_of(action.action.payload_type, action.value), action.timestamp)  # type: ignore[union-attr]
        began = msgspec.structs.replace(joined.fold.first, origin=started.action.origin)
        return msgspec.structs.replace(joined.fold, first=began, expiry=expiry)

    def _actions(self, key: bytes, pointer: Pointer, end: int) -> TailActions:
        """The actions of a journal behind the pointer and below `end`."""
        start = pointer.offset + 1
        cache = self._cached(pointer, end)
        cached = cache.tail(key, start, end)
        if cached.since <= start and cached.until >= end:
            cache.counts.hit += 1
            return cached.actions
        cache.counts.miss += 1
        actions = TailActions()
        if cached.since > start:
            cache.counts.limited += 1
            scanned = self._dropped(cache, key, start, min(cached.since, end), pointer.epoch)
            actions.extend(scanned)
            if cached.since <= end:
                cache.fill(key, start, cached, scanned)
        actions.extend(cached.actions.between(cached.since, end))
        if cached.until < end:
            cache.counts.behind += 1
            actions.extend(self._scanned(key, max(cached.until, cached.since), end, cached.epoch))
        return actions

    def _dropped(self, cache: HeadCache, key: bytes, start: int, end: int, epoch: int) -> TailActions:
        """The actions in [start, end) of a journal that the cache has dropped."""
        offsets = cache.offsets(key, start, end)
        if offsets is None or len(offsets) > _FEW:
            return self._scanned(key, start, end, epoch)
        actions = TailActions()
        for record in self.records(offsets):
            if record.key != key:  # another one with the same hash
                continue
            try:
                action = read_record(record)
            except UnreadableRecord:
                actions.add_unreadable(record.offset or 0)
                continue
            if action is not None:
                actions.add(action)
        return actions

    def _cached(self, pointer: Pointer, end: int) -> HeadCache:
        """The cache, brought nearer to `end`."""
        start = pointer.offset + 1
        cache = self._cache
        if cache is None:
            self._check_gap(start)
            cache = self._cache = HeadCache(start, decode=read_record, epoch=pointer.epoch, claimed=self._claimed, limits=self._limits)
        if cache.end < start:
            self._check_gap(start)
            cache.restart(start, pointer.epoch)
        cache.forget(pointer.offset)
        if end - cache.end > _LONG and cache.skims:
            self._skim(cache, end - _STEP)
        left = max(_STEP, (end - cache.end) // _SHARE)
        while left > 0 and (begin := cache.end) < end:
            records = self.log.read(self.topic.name, self.number, begin, limit=min(1000, left, end - begin))
            cache.add(records, min(end, (records[-1].offset or 0) + 1) if records else end)
            left -= max(1, len(records))
        return cache

    def _skim(self, cache: HeadCache, end: int) -> None:
        """Bring the cache up to `end` by the records' keys: the first look-up behind a long tail would decode all of them otherwise."""
        import pyarrow as pa

        for batch in self.log.scan(self.topic.name, self.number, cache.end, end):
            offsets = batch.column("offset").to_pylist()
            cache.skim(batch.column("key").cast(pa.binary()).to_pylist(), offsets, offsets[-1] + 1)

    def check_end(self, pointer: Pointer | None = None) -> None:
        """Errors: `Differs` where the store has copied more than the log holds: new records would get offsets that count as copied, and
        nobody would ever read them."""
        pointer = self.pointer() if pointer is None else pointer
        if pointer.offset < 0 or pointer.generation not in ("", self.topic.generation):
            return
        end = self.end()
        if pointer.offset >= end:
            raise Differs(
                f"The store has copied {self.topic.name}/{self.number} up to offset {pointer.offset}, and the log ends at {end}: "
                "it is older.",
                hint=f"Bring the newer log back, or make the copy anew: `headwater journal rebuild {self.topic.name}`.",
            )

    def _check_gap(self, start: int) -> None:
        begin = self.log.bounds(self.topic.name, self.number).start
        if begin > start:
            raise LogGap(
                f"{self.topic.name}/{self.number} begins at offset {begin}, and the store has copied it up to {start - 1} alone: "
                f"the records {start} to {begin - 1} are lost to it.",
                hint=f"Restore the store from a backup that is newer, or begin it anew: `headwater journal rebuild {self.topic.name}`.",
            )

    def _scanned(self, key: bytes, start: int, end: int, epoch: int) -> TailActions:
        """The actions of a journal in [start, end), found in the log."""
        actions = self.scan_actions([key], start, end, epoch).get(key)
        return TailActions() if actions is None else actions

    def scan_actions(self, keys: Collection[bytes], start: int, end: int, epoch: int) -> dict[bytes, TailActions]:
        """The actions in [start, end) of journals, by their keys, found in the log in one go. `epoch`: of the partition at `start`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        actions: dict[bytes, TailActions] = {}
        if start >= end:
            return actions
        self._check_gap(start)
        epochs = epochs_from(epoch, claimed=self._claimed)
        wanted, names = pa.array(list(keys), pa.binary()), set(keys)
        for batch in self.log.scan(self.topic.name, self.number, start, end):
            if self._claimed:  # the claims among the others' records count
                rows = range(len(batch))
            else:
                rows = pc.indices_nonzero(pc.is_in(batch.column("key").cast(pa.binary()), wanted)).to_pylist()
            columns = [batch.column(name) for name in ("offset", "timestamp", "key", "headers", "value")]
            for row in rows:
                offset, timestamp, key, block = (column[row].as_py() for column in columns[:4])
                headers = () if block is None else tuple(decode_headers(block))
                record = Record(key, b"" if columns[4][row].is_valid else None, headers, timestamp, offset=offset)
                if not epochs.admits(record) or key not in names:
                    continue
                try:
                    action = read_record(record)
                except UnreadableRecord:
                    actions.setdefault(key, TailActions()).add_unreadable(offset)
                    continue
                if action is not None:
                    actions.setdefault(key, TailActions()).add(action)
        return actions

    @property
    def cache(self) -> HeadCache | None:
        """The head cache; None before the first read."""
        return self._cache
