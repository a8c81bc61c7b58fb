"""The reading side of a partition: for any process, without a lock, beside any number of writers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from headwater.core.errors import BadBounds, Damaged, OffsetGone, Unavailable, UnknownTopic
from headwater.core.files import Files
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.fields import gather
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import CommitPage, SegmentPosition
from headwater.log.embedded.records import decode_records
from headwater.log.embedded.recovery import survey
from headwater.log.embedded.scattered import ScatteredReads
from headwater.log.embedded.topics import topic_stamp
from headwater.log.embedded.view import RecordSlice, SegmentView
from headwater.log.layout import U64, decode
from headwater.log.record import Bounds, Record

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_OPEN_VIEWS = 2  # three descriptors each, with that of the map: more, in each of many readers, would take all that a process may have
_TRIES = 100  # a writer that rolls, compacts or deletes between two looks makes a third one necessary
_TIMES = 65_536  # timestamps looked at in one step
_NOTHING = SegmentPosition(0, 0, 0)


class PartitionReader:
    """Reads below the durable end, and only bytes whose checksum is right. Creates and changes nothing.

    While the commit page is of this boot its word says how far to read. Otherwise nobody has opened the partition for writing since the
    machine started: the reader surveys the end of the log itself, without mending it.
    """

    def __init__(self, folder: Path, *, name: str, files: Files, boot: bytes) -> None:
        self.folder, self.name, self._files, self._boot = folder, name, files, boot
        self.hint = f"Look at it with `headwater log check {name}`."
        self._mutex = threading.Lock()
        self._page: CommitPage | None = None
        self._manifest: Manifest | None = None
        self._surveyed: tuple[int, SegmentPosition, int] | None = None
        self._rotten_generation = -1
        self._views: dict[str, SegmentView] = {}
        self._scattered = ScatteredReads(folder, name=name, hint=self.hint, extent=self._extent)
        self._stamp: tuple[int, int] | None = None  # of the topic whose page was opened first
        self.gone = False  # its topic has been deleted: whatever has its path now is another one

    busy = False  # the next call opens again what was closed

    def close(self) -> None:
        """Close all open files; the next call opens what it needs."""
        with self._mutex:
            self._drop_views(set())
            self._page = None

    def forget(self) -> None:
        """In a forked child: let go of everything without taking the lock, which a thread of the parent may have held."""
        self._mutex, self._manifest = threading.Lock(), None
        self.close()

    # -- bounds ---------------------------------------------------------------------------------------------

    def bounds(self) -> Bounds:
        with self._mutex:
            manifest, durable, _ = self._state()
            return Bounds(manifest.start, max(manifest.start, durable)) if manifest else Bounds(0, 0)

    def known_end(self) -> int | None:
        """The durable end where it is a word in memory: in a page of this boot. None elsewhere, and where the topic is being deleted."""
        page = self._page
        return page.durable_offset if page is not None and page.boot == self._boot and not page.deleted else None

    def durable_offset(self) -> int:
        """The durable end, as cheaply as can be."""
        return self.bounds().end if (known := self.known_end()) is None else known

    def pending(self) -> bool:
        """Whether a batch is being written, or is written and not yet durable. Of an earlier boot nothing is."""
        return (page := self._page) is not None and page.boot == self._boot and (page.dirty or page.tail.offset > page.durable_offset)

    @property
    def live(self) -> bool:
        """Whether the end is a word in memory. Else nobody has written since the machine started, and it takes reading files."""
        page = self._page
        return page is not None and page.boot == self._boot

    def epoch(self) -> int:
        """The newest claim: one word where the page is of this boot."""
        page = self._page
        if page is not None and page.boot == self._boot and not page.deleted:
            return page.epoch
        with self._mutex:
            manifest = self._fresh()
            page = self._page
            written = manifest.epoch if manifest is not None else 0
            return max(written, page.epoch) if page is not None and page.boot == self._boot else written

    def manifest(self) -> Manifest | None:
        """The current manifest; None before the first record."""
        with self._mutex:
            return self._fresh()

    def extents(self) -> list[tuple[Segment, int, int]]:
        """Every segment with the offset at which it ends and the number of its bytes that are durable."""
        with self._mutex:
            manifest, durable, place = self._state()
            return [(segment, *self._extent(segment, durable, place)) for segment in manifest.segments] if manifest else []

    def _state(self) -> tuple[Manifest | None, int, SegmentPosition]:
        """A manifest and the durable end that belong together, as offset and as place. Under the mutex.

        They are read one after the other, while another process may roll: a place whose segment this manifest does not know is of a newer
        one. Taken together all the same, they would hide records that are durable.
        """
        for _ in range(_TRIES):
            manifest = self._fresh()
            if manifest is None:
                return None, 0, _NOTHING
            end = self._end(manifest)
            if end is not None:
                return manifest, *end
            self._manifest = None
        if manifest is not None:
            manifests.check_newest(self.folder, manifest)
        raise Damaged(
            f"The manifest of {self.name} does not name the segment in which the log ends.",
            hint=f"Put the newest copy of its folder back; `headwater log repair {self.name} --cut --dry-run` shows what is lost else.",
        )

    def _fresh(self) -> Manifest | None:
        self._open_page()
        page = self._page
        if page is not None and page.deleted and not page.named:  # while the path still means it, nothing is deleted yet
            self.gone = True
        if self.gone:
            self._page = self._manifest = None
            self._drop_views(set())
            raise UnknownTopic(f"The topic of {self.name} has been deleted.", hint="List topics with `headwater log topics`.")
        if page is None or self._manifest is None or page.boot != self._boot or self._newer(page, self._manifest):
            generation = page.generation if page is not None else 0
            self._manifest = manifests.load_for_reading(self.folder)
            if self._manifest is not None and self._manifest.generation < generation:
                self._rotten_generation = generation
            if self._manifest is not None:
                self._drop_views({segment.stem for segment in self._manifest.segments})
        return self._manifest

    def _newer(self, page: CommitPage, manifest: Manifest) -> bool:
        """Does the page tell of a newer manifest? The file is replaced before the page: a generation that the file lacks has rotted."""
        return manifest.generation < page.generation != self._rotten_generation

    def _place(self) -> SegmentPosition | None:
        """The durable end in the page; None where nobody has written since the machine started, and where the page has rotted."""
        page = self._page
        if page is None or page.boot != self._boot:
            return None
        try:
            return page.durable
        except Damaged:
            return None

    def _open_page(self) -> None:
        """Map the page, if it is not. After a rest, its path may mean the page of another topic with the same name."""
        if self._page is not None or self.gone:
            return
        try:
            page = CommitPage(self._files, self.folder / "commit", writable=False)
        except (FileNotFoundError, ValueError):  # ValueError: being created this moment, still empty
            return
        stamp = topic_stamp(self.folder.parent)  # after the page: one whose topic was deleted before this look is marked so
        self.gone = self._stamp is not None and stamp is not None and stamp != self._stamp
        if not self.gone:
            self._page, self._stamp = page, self._stamp or stamp

    def _end(self, manifest: Manifest) -> tuple[int, SegmentPosition] | None:
        """The durable end, and the place up to which the active segment may be touched; None where they are not of this manifest."""
        page, place = self._page, self._place()
        if page is None or place is None:
            return self._surveyed_end(manifest)
        # The generation last: a roll or a repair stores it before the place, so while it has not moved, the place lies in a file that
        # this manifest names.
        active = manifest.active
        if self._newer(page, manifest) or (place.base != active.base and place.offset > active.base):
            return None
        return max(place.offset, manifest.durable.offset), place

    def _surveyed_end(self, manifest: Manifest) -> tuple[int, SegmentPosition] | None:
        """The end as the bytes tell it: nobody has opened the partition for writing since the machine started."""
        if self._surveyed is None or self._surveyed[0] != manifest.generation:
            try:
                surveyed = survey(self.folder, manifest, known=0, hint=self.hint)
            except (Damaged, FileNotFoundError) as error:
                if self._written_now():
                    return None
                if isinstance(error, FileNotFoundError):
                    raise Damaged(f"{error.filename} is missing.", hint=self.hint) from None
                raise
            if self._written_now():
                return None  # it was opened meanwhile: what was surveyed may have been half recovered
            end = surveyed.durable if surveyed.damage else surveyed.place.offset
            self._surveyed = manifest.generation, surveyed.place, end
        return self._surveyed[2], self._surveyed[1]

    def _written_now(self) -> bool:
        """Whether a process has opened the partition for writing since the machine started."""
        self._open_page()
        return self._place() is not None

    def names(self, segment: Segment) -> bool:
        """Whether the manifest on disk still names a segment: a file that is gone is damage only then."""
        now = manifests.load(self.folder)
        return now is not None and any(listed.stem == segment.stem for listed in now.segments)

    def _looked(self, look: Callable[[Manifest | None, int, SegmentPosition], T]) -> T:
        """What `look` finds by a manifest and the end that belongs to it. Under the mutex.

        Compaction and deletion replace the manifest, then unlink: where a file is gone, a newer manifest no longer names it.
        """
        for _ in range(_TRIES):
            manifest, durable, place = self._state()
            try:
                return look(manifest, durable, place)
            except FileNotFoundError as gone:
                self._manifest = None
                named = (
                    [segment for segment in manifest.segments if str(segment.log(self.folder)) == str(gone.filename)] if manifest else []
                )
                if any(map(self.names, named)):
                    raise Damaged(f"{gone.filename} is missing.", hint=self.hint) from None
        raise Unavailable(f"The segments of {self.name} are replaced faster than they can be read.", hint="Read again.")

    # -- reading --------------------------------------------------------------------------------------------

    def read(self, start: int, *, limit: int, max_bytes: int) -> list[Record]:
        """See `Log.read`."""
        records: list[Record] = []
        size = 0
        while len(records) < limit:
            try:
                batch, start = self._next(start, None, limit - len(records))
            except Damaged:
                if records:
                    break  # what comes before the damage is given out; asking for more meets it
                raise
            if batch is None:
                break
            more, taken = decode_records(batch.data, batch.size, batch.starts, room=max_bytes - size, head=batch.heads)
            if not more and not records:
                return [decode(batch.data, int(batch.starts[0]))]  # one is always given, however large
            records += more
            size += taken
            if len(more) < len(batch.starts):
                break
        return records

    def read_at(self, offsets: Sequence[int]) -> list[Record | None]:
        """See `Log.read_at`."""
        with self._mutex:
            return self._looked(lambda manifest, durable, place: self._scattered.read(manifest, durable, place, offsets))

    def read_to(self, manifest: Manifest, end: SegmentPosition, start: int, *, max_bytes: int) -> tuple[list[Record], int]:
        """The records of [start, end), durable or not, and how many bytes they have: some of the records, where that is above `max_bytes`.

        For who holds the partition's lock: nobody else may touch what is not durable. Errors: as `read`; `FileNotFoundError`.
        """
        self._within(start, Bounds(manifest.start, end.offset))
        records: list[Record] = []
        size = 0
        with self._mutex:
            while start < end.offset and size <= max_bytes:
                batch, start = self._find(manifest, end.offset, end, start, None, end.offset - start)
                if batch is not None:
                    more, taken = decode_records(batch.data, batch.size, batch.starts, room=1 << 62, head=batch.heads)
                    records += more
                    size += taken
            return records, size

    def scan(self, start: int, end: int | None, *, batch: int) -> Iterator[pa.RecordBatch]:
        """See `Log.scan`."""
        from headwater.log.embedded.columns import decode_columns  # pyarrow takes long to load, and most callers never scan

        bounds = self.bounds()
        end = bounds.end if end is None else end
        if end > bounds.end:
            raise BadBounds(
                f"{self.name} ends at offset {bounds.end}; {end} lies beyond.",
                hint=f"Ask for offsets from {bounds.start} to {bounds.end}.",
            )
        while start < end:
            records, following = self._next(start, end, batch)
            if records is None:
                return
            yield decode_columns(records.data, records.size, records.starts, records.heads)
            start = following

    def _next(self, start: int, end: int | None, count: int) -> tuple[RecordSlice | None, int]:
        """The first records of [start, end), from one segment, and the offset to go on from; None when there are none."""
        with self._mutex:
            return self._looked(lambda manifest, durable, place: self._find(manifest, durable, place, start, end, count))

    def _find(
        self, manifest: Manifest | None, durable: int, place: SegmentPosition, start: int, end: int | None, count: int
    ) -> tuple[RecordSlice | None, int]:
        self._within(start, Bounds(manifest.start if manifest else 0, durable))
        end = durable if end is None else end
        if end > durable:
            raise Damaged(f"{self.name} ended at offset {end} or later before, and ends at {durable} now.", hint=self.hint)
        for segment in manifest.segments_from(start) if manifest else ():
            if start >= end or segment.base >= end:  # the range may end in a hole that a repair has left
                break
            high, limit = self._extent(segment, durable, place)
            if high <= max(start, segment.base):
                continue
            if limit:
                rows = self._view(segment).slice(start, min(end, high), limit, count)
                if len(rows.starts):
                    return rows, int(U64.unpack_from(rows.data, int(rows.starts[-1]))[0]) + 1
            elif segment.dense:
                raise Damaged(f"{segment.log(self.folder)} is damaged at byte 0: no record begins there.", hint=self.hint)
            start = min(high, end)
        if start < end and (manifest is None or manifest.active.base < end):  # before the active one, a repair may have left a hole
            raise Damaged(f"The segments of {self.name} end at offset {start}; its durable end is {end}.", hint=self.hint)
        return None, end

    def expect(self, start: int) -> None:
        """Errors: `OffsetGone` below the start, `BadBounds` beyond the end."""
        self._within(start, self.bounds())

    def _within(self, start: int, bounds: Bounds) -> None:
        if start < bounds.start:
            raise OffsetGone(
                f"{self.name} starts at offset {bounds.start}; {start} is not there.", hint=f"Read from offset {bounds.start} on."
            )
        if start > bounds.end:
            raise BadBounds(
                f"{self.name} ends at offset {bounds.end}; {start} lies beyond.",
                hint=f"Ask for offsets from {bounds.start} to {bounds.end}.",
            )

    @staticmethod
    def _extent(segment: Segment, durable: int, place: SegmentPosition) -> tuple[int, int]:
        """A segment's end as an offset, and how many of its bytes may be touched."""
        if segment.closed:
            return segment.end, segment.length
        # Where damage ends the readable bytes early, the offset asked for lies behind them: the view raises there.
        return durable, place.position if place.base == segment.base else 0

    def offset_at(self, timestamp: int) -> int:
        """As `Log.offset_at`, exact in any order of timestamps, and only by bytes whose checksum is right."""
        with self._mutex:
            return self._looked(lambda manifest, durable, place: self._first_at(manifest, durable, place, timestamp) if manifest else 0)

    def _first_at(self, manifest: Manifest, durable: int, place: SegmentPosition, timestamp: int) -> int:
        for segment in manifest.segments:
            high, _ = self._extent(segment, durable, place)
            start = max(manifest.start, segment.base)
            if high <= start:
                continue
            view = self._view(segment)
            highest, seen = view.latest or (-1, start)
            if highest < timestamp:
                start = max(start, seen)  # a search before has found that all lower timestamps are too early
            else:
                highest = -1
            while start < high:
                rows, start = self._find(manifest, durable, place, start, high, _TIMES)
                if rows is not None:
                    times = gather(rows.data, rows.size, ">u8", rows.starts + 12).astype(np.int64)
                    hits = np.flatnonzero(times >= timestamp)
                    if len(hits):
                        return int(U64.unpack_from(rows.data, int(rows.starts[hits[0]]))[0])
                    highest = max(highest, int(times.max()))
            view.latest = highest, high
        return max(durable, manifest.start)

    # -- views ----------------------------------------------------------------------------------------------

    def _view(self, segment: Segment) -> SegmentView:
        view = self._views.pop(segment.stem, None)
        if view is None or view.segment.closed != segment.closed:
            if view is not None:
                view.close()
            view = SegmentView(self.folder, segment, hint=self.hint)
        self._views[segment.stem] = view  # the most recently used comes last
        while len(self._views) > _OPEN_VIEWS:
            self._views.pop(next(iter(self._views))).close()
        return view

    def _drop_views(self, keep: set[str]) -> None:
        self._scattered.keep(keep)
        for stem in [stem for stem in self._views if stem not in keep]:
            self._views.pop(stem).close()
