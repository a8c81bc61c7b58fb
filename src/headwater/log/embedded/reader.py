"""One partition, read: by any process, without a lock, beside any number of writers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.core.errors import BadBounds, Damaged, OffsetGone, UnknownTopic
from headwater.core.files import Files
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import CommitPage, Place
from headwater.log.embedded.recovery import survey
from headwater.log.embedded.view import SegmentView, Slice
from headwater.log.layout import U64, decode
from headwater.log.record import Bounds, Record

if TYPE_CHECKING:
    import pyarrow as pa

_OPEN_VIEWS = 8


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
        self._surveyed: tuple[int, Place, int] | None = None
        self._views: dict[str, SegmentView] = {}

    def close(self) -> None:
        with self._mutex:
            self._drop_views(set())
            self._page = None

    def forget(self) -> None:
        """In a forked child: let go of everything without taking the lock, which a thread of the parent may have held."""
        self._mutex, self._views, self._manifest, self._page = threading.Lock(), {}, None, None

    # -- bounds ---------------------------------------------------------------------------------------------

    def bounds(self) -> Bounds:
        with self._mutex:
            manifest = self._fresh()
            if manifest is None:
                return Bounds(0, 0)
            return Bounds(manifest.start, max(manifest.start, self._end(manifest)[0]))

    def durable_offset(self) -> int:
        """The durable end, as cheaply as can be: one word where the page is of this boot."""
        page = self._page
        if page is not None and page.boot == self._boot and not page.deleted:
            return page.durable_offset
        return self.bounds().end

    def pending(self) -> bool:
        """Whether a batch is being written, or is written and not yet durable. Of an earlier boot nothing is."""
        page = self._page
        return page is not None and page.boot == self._boot and (page.dirty or page.tail.offset > page.durable_offset)

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
        """What the partition consists of now; None before its first record."""
        with self._mutex:
            return self._fresh()

    def extents(self) -> list[tuple[Segment, int, int]]:
        """Every segment with the offset at which it ends and the number of its bytes that are durable."""
        with self._mutex:
            manifest = self._fresh()
            if manifest is None:
                return []
            durable, place = self._end(manifest)
            return [(segment, *self._extent(segment, durable, place)) for segment in manifest.segments]

    def _fresh(self) -> Manifest | None:
        if self._page is None:
            try:
                self._page = CommitPage(self._files, self.folder / "commit", writable=False)
            except (FileNotFoundError, ValueError):  # ValueError: being created this moment, still empty
                self._page = None
        page = self._page
        if page is not None and page.deleted:
            self._page = self._manifest = None
            self._drop_views(set())
            raise UnknownTopic(f"The topic of {self.name} has been deleted.", hint="List topics with `headwater log topics`.")
        if page is None or self._manifest is None or page.boot != self._boot or self._manifest.generation < page.generation:
            self._manifest = manifests.load(self.folder)
            if self._manifest is not None:
                self._drop_views({segment.stem for segment in self._manifest.segments})
        return self._manifest

    def _end(self, manifest: Manifest) -> tuple[int, Place]:
        """The durable end, and the place up to which the active segment may be touched."""
        page = self._page
        if page is not None and page.boot == self._boot:
            offset = page.durable_offset
            return max(offset, manifest.durable.offset), page.durable
        if self._surveyed is None or self._surveyed[0] != manifest.generation:
            found = survey(self.folder, manifest, known=0, hint=self.hint)
            end = found.durable if found.damage else found.place.offset
            self._surveyed = manifest.generation, found.place, end
        return self._surveyed[2], self._surveyed[1]

    # -- reading --------------------------------------------------------------------------------------------

    def read(self, start: int, *, limit: int, max_bytes: int) -> list[Record]:
        """As `Log.read`."""
        records: list[Record] = []
        size = 0
        while len(records) < limit:
            try:
                found, start = self._next(start, None, limit - len(records))
            except Damaged:
                if records:
                    break  # what comes before the damage is given out; asking for more meets it
                raise
            if found is None:
                break
            for at in found.starts.tolist():
                record = decode(found.data, at)
                size += len(record.key or b"") + len(record.value or b"")
                if size > max_bytes and records:
                    return records
                records.append(record)
        return records

    def scan(self, start: int, end: int | None, *, batch: int) -> Iterator[pa.RecordBatch]:
        """As `Log.scan`."""
        from headwater.log.embedded.columns import decode_columns  # pyarrow takes long to load, and most callers never scan

        bounds = self.bounds()
        end = bounds.end if end is None else end
        if end > bounds.end:
            raise BadBounds(
                f"{self.name} ends at offset {bounds.end}; {end} lies beyond.",
                hint=f"Ask for offsets from {bounds.start} to {bounds.end}.",
            )
        while start < end:
            found, following = self._next(start, end, batch)
            if found is None:
                return
            yield decode_columns(found.data, found.size, found.starts)
            start = following

    def _next(self, start: int, end: int | None, count: int) -> tuple[Slice | None, int]:
        """The first records of [start, end), from one segment, and the offset to go on from; None when there are none."""
        with self._mutex:
            for last_try in (False, True):
                manifest = self._fresh()
                try:
                    return self._find(manifest, start, end, count)
                except FileNotFoundError as gone:
                    # Compaction and deletion replace the manifest, then unlink: a newer manifest no longer names the file.
                    self._manifest = None
                    if last_try:
                        raise Damaged(f"{gone.filename} is missing.", hint=self.hint) from None
            raise AssertionError("unreachable")

    def _find(self, manifest: Manifest | None, start: int, end: int | None, count: int) -> tuple[Slice | None, int]:
        durable, place = self._end(manifest) if manifest else (0, Place(0, 0, 0))
        self._within(start, Bounds(manifest.start if manifest else 0, durable))
        end = durable if end is None else min(end, durable)
        for segment in manifest.segments if manifest else ():
            high, limit = self._extent(segment, durable, place)
            if start >= end:
                break
            if high <= start or not limit:
                continue
            found = self._view(segment).slice(start, min(end, high), limit, count)
            if len(found.starts):
                return found, int(U64.unpack_from(found.data, int(found.starts[-1]))[0]) + 1
            start = min(high, end)
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
    def _extent(segment: Segment, durable: int, place: Place) -> tuple[int, int]:
        """A segment's end as an offset, and how many of its bytes may be touched."""
        if segment.closed:
            return segment.end, segment.length
        # Where damage ends the readable bytes early, the offset asked for lies behind them: the view raises there.
        return durable, place.position if place.base == segment.base else 0

    def offset_at(self, timestamp: int) -> int:
        """As `Log.offset_at`, and exact in any order: the highest timestamp of a closed segment is remembered once it was asked for."""
        with self._mutex:
            manifest = self._fresh()
            if manifest is None:
                return 0
            durable, place = self._end(manifest)
            for segment in manifest.segments:
                high, limit = self._extent(segment, durable, place)
                if high <= manifest.start or not limit:
                    continue
                view = self._view(segment)
                if view.latest is not None and view.latest < timestamp:
                    continue
                offsets, times = view.timestamps(high, limit)
                offsets, times = offsets[offsets >= manifest.start], times[offsets >= manifest.start]
                if segment.closed and len(times):
                    view.latest = int(times.max())
                hits = (times >= timestamp).nonzero()[0]
                if len(hits):
                    return int(offsets[hits[0]])
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
        for stem in [stem for stem in self._views if stem not in keep]:
            self._views.pop(stem).close()
