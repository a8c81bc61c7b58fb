"""One partition, written: append, sync, publish. The numbered steps are explained in docs/explanation/durability.md.

Several processes may do this at once. What they agree on is in the commit page, changed only under the `lock` file's lock.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from headwater.core.clock import Clock
from headwater.core.errors import Damaged, Fenced, OutcomeUnknown, Unavailable, UnknownTopic
from headwater.core.files import FileLock, Files, explained
from headwater.core.metrics import PartitionMetrics
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded import opened
from headwater.log.embedded.exclusive import Exclusive
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import CommitPage, Place
from headwater.log.embedded.segment import OpenSegment, create
from headwater.log.layout import Batch, seal
from headwater.log.record import TopicSettings

_MANIFEST_BYTES = 64 << 20
_MANIFEST_SECONDS = 1.0


class Ticket(NamedTuple):
    """A batch that is written and not yet synced."""

    file: OpenSegment
    first: int
    tail: Place  # the end of the own batch
    failures: int
    epoch: int | None


def _rows(batch: Batch, position: int) -> bytes:
    """The sidecar rows of a batch that begins at `position`."""
    if batch.records == 1:
        return position.to_bytes(4, "little")
    return (np.asarray(batch.starts, "<u4") + np.uint32(position)).tobytes()


class Partition:
    """A partition opened for writing by this process. Safe for several threads.

    `append` returns once the batch is synced and readers can see it. Errors: see `Log`. After a fork the child calls `forget` and opens
    its own: descriptors and locks are the parent's.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        settings: TopicSettings,
        files: Files,
        clock: Clock,
        boot: bytes,
        metrics: PartitionMetrics | None = None,
    ) -> None:
        self.folder, self.name, self.settings = folder, name, settings
        self.files, self.clock, self.boot = files, clock, boot
        self._metrics = metrics
        self._files_open: dict[str, OpenSegment] = {}
        self._closed = False
        self._manifest: Manifest
        self._unsettled = False
        self._active: OpenSegment | None = None  # the file of the last append: nearly always that of the next
        self._lock = FileLock(files, folder / "lock")
        self.exclusive = Exclusive(self._lock, name)
        self._live = FileLock(files, folder / "live")
        self.page: CommitPage
        try:
            with self.exclusive:
                # 0. Alone: recover, whatever the page says. Not alone: the page is true, because somebody has kept it so.
                self.page = CommitPage(files, folder / "commit", writable=True)
                if self._live.try_exclusive():
                    self._manifest = opened.recover(folder, self.page, name=name, files=files, clock=clock, boot=boot)
                else:
                    self._manifest = opened.join(folder, self.page, name=name)
                self._live.shared()
        except BaseException as error:
            self.forget()
            if isinstance(error, OSError):
                raise explained(error, folder) from error
            raise

    # -- appending ------------------------------------------------------------------------------------------

    def append(self, batch: Batch, *, epoch: int | None = None) -> int:
        """Write, sync, publish; return the first offset. `epoch` is the claim under which this is written, None without one."""
        begun = self.clock.monotonic() if self._metrics is not None else 0.0
        ticket = self.write(batch, epoch)
        try:
            self.sync(ticket)
            self.publish(ticket)
        finally:
            with self.exclusive.mutex:
                ticket.file.unpin()
        if self._metrics is not None:
            self._metrics.appended(batch.records, self.clock.monotonic() - begun, ticket.tail.offset)
        return ticket.first

    def write(self, batch: Batch, epoch: int | None = None) -> Ticket:
        """Steps 1 and 2: the bytes are in the file, and the tail is behind them."""
        with self.exclusive:
            page = self.page
            file, (base, position, offset) = self._ready(epoch)
            seal(batch, offset, page.durable_offset)
            end = position + len(batch.buffer)
            rows = _rows(batch, position)
            failures = page.failures
            page.dirty = True  # 2. from here to the move of the tail, a death leaves bytes that the next one cuts off
            try:
                file.write(batch.buffer, rows, position, offset - base)
            except OSError as error:
                self._cut(file)
                raise explained(error, file.path) from error
            tail = Place(base, end, offset + batch.records)
            page.tail = tail
            page.dirty = False
            file.pins += 1
            self._unsettled = True
            return Ticket(file, offset, tail, failures, epoch)

    def _cut(self, file: OpenSegment) -> None:
        """Truncate to the tail. If even that fails the page stays dirty, and whoever comes next tries again."""
        base, position, offset = self.page.tail
        try:
            file.truncate(position, offset - base)
        except OSError:
            return
        self.page.dirty = False

    def sync(self, ticket: Ticket) -> None:
        """Step 3: through a descriptor held since before the write, so that no other process can have consumed its error."""
        page = self.page
        if page.durable_offset >= ticket.tail.offset and page.failures == ticket.failures:
            return  # another's sync has covered these bytes
        try:
            begun = self.clock.monotonic() if self._metrics is not None else 0.0
            ticket.file.sync()
            if self._metrics is not None:
                self._metrics.synced(self.clock.monotonic() - begun)
        except OSError as error:
            with self.exclusive:
                if page.failures == ticket.failures:
                    self._heal()  # 5.
            raise OutcomeUnknown(
                f"Syncing {ticket.file.path} failed ({error.strerror}); the records may or may not be there.",
                hint="Read the end of the partition before appending them again.",
            ) from error

    def publish(self, ticket: Ticket) -> None:
        """Step 4: readers may see it, the caller may be told. The end of the own batch counts: a fresh tail may lie in a later segment."""
        with self.exclusive:
            page = self.page
            if page.failures != ticket.failures:
                raise OutcomeUnknown(
                    f"Another process's sync of {self.name} failed meanwhile; the records may or may not be there.",
                    hint="Read the end of the partition before appending them again.",
                )
            if ticket.tail.offset > page.durable_offset:
                page.durable = ticket.tail
            if ticket.epoch is not None and page.epoch != ticket.epoch:
                raise OutcomeUnknown(
                    f"{self.name} was claimed by another writer while these records were written; they lie before its claim.",
                    hint="Claim it anew and read its end before appending them again.",
                )
            if self.clock.monotonic() - page.tick / 1e9 > _MANIFEST_SECONDS or self._far(ticket.tail):
                self._settle()

    def _ready(self, epoch: int | None) -> tuple[OpenSegment, Place]:
        """Step 1, under the lock: may this process append, and where? Mends what a dead writer left, follows and makes rolls."""
        page = self.page
        if page.deleted:
            raise UnknownTopic(f"The topic of {self.name} has been deleted.", hint="List topics with `headwater log topics`.")
        if page.failures & 1:
            raise Unavailable(
                f"{self.name} takes no records since a sync failed and could not be repaired.",
                hint="Close every process that uses it, see to the disk, and open it again.",
            )
        if page.epoch != (epoch or 0):
            raise self._fenced()
        try:
            tail = page.tail
            file = self._open(tail.base)
            if page.dirty:
                self._cut(file)
                if page.dirty:
                    raise Unavailable(
                        f"{file.path} cannot be truncated to its last whole batch.", hint="Look at the machine's disk, then try again."
                    )
            if tail.position >= self.settings.segment or (self.settings.period and tail.position and self._period_over(file.segment)):
                file, tail = self._roll(file), page.tail
        except OSError as error:
            raise explained(error, self.folder) from error
        return file, tail

    def _period_over(self, segment: Segment) -> bool:
        period = self.settings.period
        return self.clock.now_ms() // period > segment.created // period

    def _fenced(self) -> Fenced:
        if self.page.epoch:
            return Fenced(
                f"{self.name} belongs to another writer since claim {self.page.epoch}.",
                hint="Only its owner appends to it; claim it anew to take it over.",
            )
        return Fenced(f"{self.name} is not claimed any more.", hint="Claim it anew.")

    # -- segments -------------------------------------------------------------------------------------------

    def _open(self, base: int) -> OpenSegment:
        """The open file of the segment that begins at `base`; under the lock."""
        file, now = self._active, self._manifest
        current = now.generation >= self.page.generation and now.active.base == base
        if current and file is not None and file.segment == now.active and not file.retired:
            return file  # the same segment, not only the same base: after a repair another file begins there
        segment = self._segment(base)
        file = self._files_open.get(segment.stem)
        if file is None:
            file = self._files_open[segment.stem] = OpenSegment(self.files, self.folder, segment)
            # 3. Bytes older than this descriptor: another process may have consumed their error, so write them again before its first sync.
            durable, tail = self.page.durable, self.page.tail
            if tail.base == base and not self.page.dirty:
                file.rewrite(durable.position if durable.base == base else 0, tail.position)
        self._active = file
        return file

    def _segment(self, base: int) -> Segment:
        for last_try in (False, True):
            for segment in reversed(self._manifest.segments):
                if segment.base == base and (last_try or self._manifest.generation >= self.page.generation):
                    return segment
            self._manifest = self.stored()
        raise Damaged(
            f"The manifest of {self.name} does not name its active segment.", hint=f"Look at it with `headwater log check {self.name}`."
        )

    def stored(self) -> Manifest:
        """The manifest as it is on disk. Whoever changes it begins here: a process may have died between the file and the page."""
        found = manifests.load(self.folder)
        if found is None:
            raise manifests.lost(self.folder, "is missing")
        return found

    def _roll(self, file: OpenSegment) -> OpenSegment:
        """Step 6: close the active segment and open the next; the next process finishes what a dead roller began."""
        page, now = self.page, self.stored()
        base, position, offset = page.tail
        if now.active.base != base:  # it died after the manifest was renamed, before the page knew
            self.files.sync_dir(self.folder)  # perhaps before the name was durable: a power cut would bring the old manifest back
            self._manifest, page.generation = now, now.generation
        else:
            try:
                file.sync()
            except OSError as error:
                self._heal()
                raise Unavailable(
                    f"Syncing {file.path} failed ({error.strerror}); nothing was appended.",
                    hint="Look at the machine's disk, then try again.",
                ) from error
            file.sync_sidecar()
            page.durable = Place(base, position, offset)
            following = Segment(offset, created=self.clock.now_ms())
            create(self.files, self.folder, following)
            sealed = msgspec.structs.replace(now.active, length=position, end=offset)
            self.replace(now, segments=[*now.segments[:-1], sealed, following], durable=Place(offset, 0, offset))
        begin = self._manifest.active.base
        page.tail = Place(begin, 0, begin)
        page.durable = Place(begin, 0, begin)
        for stem in [stem for stem, one in self._files_open.items() if one.segment.base < begin]:
            self._files_open.pop(stem).retire()
        return self._open(begin)

    def _heal(self) -> None:
        """Step 5, under the lock, after a failed sync: what is not known to be on disk is cut off, and a fresh file taken.

        The kernel may have dropped the dirty pages and called them clean, so the old file is not trusted beyond its durable end. If this
        fails, `failures` stays odd and every process refuses to append until the partition is opened by one alone.
        """
        page = self.page
        page.failures += 1
        try:
            now = self.stored()
            durable, base = page.durable, page.tail.base
            begin = durable if durable.base == base else Place(base, 0, base)
            file = self._open(base)
            file.truncate(begin.position, begin.offset - base)
            file.sync()
            following = Segment(begin.offset, generation=now.generation + 1, created=self.clock.now_ms())
            create(self.files, self.folder, following)
            sealed = [msgspec.structs.replace(now.active, length=begin.position, end=begin.offset)] if begin.position else []
            fresh = Place(begin.offset, 0, begin.offset)
            self.replace(now, segments=[*now.segments[:-1], *sealed, following], durable=fresh)
            page.tail, page.durable, page.dirty = fresh, fresh, False
            self._files_open.pop(file.segment.stem).retire()
            page.failures += 1
        except (OSError, Damaged):
            return

    # -- the manifest ---------------------------------------------------------------------------------------

    def replace(self, now: Manifest, **changes: object) -> None:
        """Replace the manifest that is on disk (`now`), then let the others know. Under the lock."""
        changed = msgspec.structs.replace(now, generation=now.generation + 1, **changes)
        manifests.save(self.files, self.folder, changed)
        self._manifest = changed
        self.page.generation = changed.generation
        self.page.tick = int(self.clock.monotonic() * 1e9)

    def _far(self, durable: Place) -> bool:
        written = self._manifest.durable
        return durable.base == written.base and durable.position - written.position > _MANIFEST_BYTES

    def _settle(self) -> None:
        """Bring the manifest up to the durable end, so that little has to be read again after a crash. A failure costs only that."""
        try:
            durable = self.page.durable
            self._open(durable.base).sync_sidecar()  # the sidecar is true up to what the manifest says
            now = self.stored()
            if now.durable != durable and now.active.base == durable.base:
                self.replace(now, durable=durable)
            self._unsettled = self.page.durable != self.page.tail
        except OSError:
            self.page.tick = int(self.clock.monotonic() * 1e9)

    def settle(self) -> None:
        """Called within a second after the last append, and at close."""
        if self._unsettled and not self._closed:
            with self.exclusive:
                if not self.page.failures & 1 and not self.page.deleted:
                    self._settle()

    # -- claims -------------------------------------------------------------------------------------------

    def claim(self) -> int:
        """Take the partition over: a higher epoch, durable before it counts; everything written so far is durable when this returns."""
        try:
            with self.exclusive:
                if self.page.failures & 1 or self.page.deleted:
                    self._ready(self.page.epoch)
                now = self.stored()
                epoch = max(now.epoch, now.claims, self.page.epoch) + 1
                self.replace(now, epoch=epoch)
                self.page.epoch = epoch
                file, tail, failures = self._open(self.page.tail.base), self.page.tail, self.page.failures
                file.pins += 1
        except OSError as error:
            raise explained(error, self.folder) from error
        ticket = Ticket(file, tail.offset, tail, failures, None)
        try:
            self.sync(ticket)
            self.publish(ticket)
        finally:
            with self.exclusive.mutex:
                file.unpin()
        return epoch

    def mark_deleted(self) -> None:
        """Make every process that has this partition open refuse it."""
        with self.exclusive:
            self.page.deleted = True

    # -- life -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Settle and let go. Appends under way have ended when the log calls this."""
        if not self._closed:
            self.settle()
            self.discard()

    def discard(self) -> None:
        """Let go without settling: the topic is gone."""
        with self.exclusive.mutex:
            self.forget()
            del self.page  # unmapped with its last reference: a thread may still be looking at it

    def forget(self) -> None:
        """Let go of everything without writing, unlocking or waiting: what a forked child does."""
        self._closed = True
        for file in self._files_open.values():
            file.close()
        self._files_open, self._active = {}, None
        self._lock.forget()
        self._live.forget()
