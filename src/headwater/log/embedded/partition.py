"""One partition, written: append, sync, publish. The numbered steps are explained in docs/explanation/durability.md.

Several processes may do this at once. What they agree on is in the commit page, changed only under the `lock` file's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec
import numpy as np

from headwater.core.clock import Clock
from headwater.core.errors import Damaged, Fenced, OutcomeUnknown, Unavailable, UnknownTopic
from headwater.core.files import FileLock, Files, explained
from headwater.core.metrics import PartitionMetrics
from headwater.log.embedded import changes, opened
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.exclusive import Exclusive
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import CommitPage, Place
from headwater.log.embedded.segment import OpenSegment
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
    its own: descriptors and locks are the parent's. Whoever makes one holds the topics' lock shared, so that no topic is deleted or made
    anew under the same path meanwhile.
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
        self.appends = 0  # since it was opened
        self._metrics = metrics
        self._files_open: dict[str, OpenSegment] = {}
        self._closed = self._closing = False
        self._under_way = 0  # appends and claims between their first byte and their answer
        self._holds = 0  # compactions and the like
        self.manifest: Manifest
        self._unsettled = False
        self._active: OpenSegment | None = None  # the file of the last append: nearly always that of the next
        self._lock = self._live = None
        self.page: CommitPage
        try:
            self._lock = FileLock(files, folder / "lock")
            self._live = FileLock(files, folder / "live")
            self.exclusive = Exclusive(self._lock, name)
            self._ended = threading.Condition(self.exclusive.mutex)
            with self.exclusive:
                # 0. Alone: recover, whatever the page says. Not alone: the page is true, because somebody has kept it so.
                self.page = CommitPage(files, folder / "commit", writable=True)
                if self._live.try_exclusive():
                    self.manifest = opened.recover(folder, self.page, name=name, files=files, clock=clock, boot=boot)
                else:
                    self.manifest = opened.join(folder, name=name)
                self.page.deleted = False  # the topic is there, and nobody deletes it now: set by one that died before it was done
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
            self.end(ticket)
        if self._metrics is not None:
            self._metrics.appended(batch.records, self.clock.monotonic() - begun, ticket.tail.offset)
        return ticket.first

    def write(self, batch: Batch, epoch: int | None = None) -> Ticket:
        """Steps 1 and 2: the bytes are in the file, and the tail is behind them. Whoever has the ticket ends it by `end`."""
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
            self._begin(file)
            self._unsettled = True
            return Ticket(file, offset, tail, failures, epoch)

    def _begin(self, file: OpenSegment) -> None:
        """Under the lock: an append or a claim is under way, and will sync through `file`."""
        file.pins += 1
        self._under_way += 1
        self.appends += 1

    def end(self, ticket: Ticket) -> None:
        """A ticket's append is answered, or has failed. Closing waits for this."""
        with self._ended:
            ticket.file.unpin()
            self._under_way -= 1
            if self._closing and not self._under_way:
                self._ended.notify_all()

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
        if page.durable_offset >= ticket.tail.offset <= page.durable.offset and page.failures == ticket.failures:
            return  # another's sync has covered these bytes: the word and the place with its checksum say so
        try:
            begun = self.clock.monotonic() if self._metrics is not None else 0.0
            ticket.file.sync()
            if self._metrics is not None:
                self._metrics.synced(self.clock.monotonic() - begun)
        except OSError as error:
            with self.exclusive:
                if page.failures == ticket.failures:
                    changes.heal(self)  # 5.
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
            if ticket.tail.offset > page.durable_offset or ticket.tail.offset > page.durable.offset:
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
        try:
            self.usable()
            if page.epoch != (epoch or 0):
                self._check_epoch(epoch or 0)
            tail = page.tail
            file = self.open(tail.base)
            if tail.position >= self.settings.segment or (self.settings.period and tail.position and self._period_over(file.segment)):
                file, tail = changes.roll(self, file), page.tail
        except OSError as error:
            raise explained(error, self.folder) from error
        return file, tail

    def usable(self) -> None:
        """Under the lock: may this process change the partition? What a dead or failed change left half done is finished first.

        Errors: `Closed`, `UnknownTopic`, `Unavailable`, `Damaged`, `OSError`.
        """
        page = self.page
        if self._closing:
            raise self.exclusive.closed()
        if page.deleted:
            raise UnknownTopic(f"The topic of {self.name} has been deleted.", hint="List topics with `headwater log topics`.")
        if page.failures & 1:
            raise Unavailable(
                f"{self.name} takes no records since a sync failed and could not be repaired.",
                hint="Close every process that uses it, see to the disk, and open it again.",
            )
        if page.dirty:
            changes.finish(self)

    def _period_over(self, segment: Segment) -> bool:
        period = self.settings.period
        return self.clock.now_ms() // period > segment.created // period

    def _check_epoch(self, epoch: int) -> None:
        """The page and the writer differ. The manifest decides: it is replaced before the page, and cannot rot unseen."""
        claimed = self.page.epoch = self.stored().epoch
        if claimed == epoch:
            return
        if claimed:
            raise Fenced(
                f"{self.name} belongs to another writer since claim {claimed}.",
                hint="Only its owner appends to it; claim it anew to take it over.",
            )
        raise Fenced(f"{self.name} is not claimed any more.", hint="Claim it anew.")

    # -- segments -------------------------------------------------------------------------------------------

    def open(self, base: int) -> OpenSegment:
        """The open file of the segment that begins at `base`; under the lock."""
        file, now = self._active, self.manifest
        current = now.generation >= self.page.generation and now.active.base == base
        if current and file is not None and file.segment == now.active and not file.retired:
            return file  # the same segment, not only the same base: after a repair another file begins there
        segment = self._segment(base)
        file = self._files_open.get(segment.stem)
        if file is None:
            file = self._files_open[segment.stem] = OpenSegment(self.files, self.folder, segment, most=self.settings.segment)
            # 3. Bytes older than this descriptor: another process may have consumed their error, so write them again before its first sync.
            durable, tail = self.page.durable, self.page.tail
            if tail.base == base:
                try:
                    file.rewrite(durable.position if durable.base == base else 0, tail.position)
                except OSError:
                    self._files_open.pop(segment.stem).close()
                    raise
        self._active = file
        return file

    def _segment(self, base: int) -> Segment:
        for last_try in (False, True):
            for segment in reversed(self.manifest.segments):
                if segment.base == base and (last_try or self.manifest.generation >= self.page.generation):
                    return segment
            self.manifest = self.stored()
        raise Damaged(
            f"The manifest of {self.name} does not name its active segment.", hint=f"Look at it with `headwater log check {self.name}`."
        )

    def retire(self, keep: int) -> None:
        """Let go of every open segment but the one that begins at `keep`; those with appends under way, when they have ended."""
        for stem in [stem for stem, one in self._files_open.items() if one.segment.base != keep]:
            self._files_open.pop(stem).retire()

    def discard_file(self, file: OpenSegment) -> None:
        """Let go of a segment whose file is not trusted any more."""
        self._files_open.pop(file.segment.stem).retire()

    # -- the manifest ---------------------------------------------------------------------------------------

    def stored(self) -> Manifest:
        """The manifest as it is on disk. Whoever changes it begins here: a process may have died between the file and the page."""
        found = manifests.load(self.folder)
        if found is None:
            raise manifests.lost(self.folder, "is missing")
        if found.generation < self.page.generation:
            self.page.generation = found.generation  # the file is replaced before the page: the page has rotted
        return found

    @contextmanager
    def changing(self) -> Iterator[Manifest]:
        """The manifest on disk, to be replaced under the lock. Errors: those of `usable`, and `OSError`.

        A change that fails or dies half-way leaves the page dirty: whoever comes next finishes it before anything else.
        """
        with self.exclusive:
            self.usable()
            yield self.stored()
            self.page.dirty = False

    def replace(self, now: Manifest, **fields: object) -> None:
        """Replace the manifest that is on disk (`now`), then let the others know. Under the lock; the caller clears `dirty`."""
        changed = msgspec.structs.replace(now, generation=now.generation + 1, **fields)
        self.page.dirty = True  # a death between the file and the page must not go unnoticed
        manifests.save(self.files, self.folder, changed)
        self.manifest = changed
        self.page.generation = changed.generation
        self.page.tick = int(self.clock.monotonic() * 1e9)

    def _far(self, durable: Place) -> bool:
        written = self.manifest.durable
        return durable.base == written.base and durable.position - written.position > _MANIFEST_BYTES

    def _settle(self) -> None:
        """Bring the manifest up to the durable end, so that little has to be read again after a crash. A failure costs only that."""
        page = self.page
        if page.dirty:
            return  # half a change: whoever appends next finishes it
        try:
            durable = page.durable
            self.open(durable.base).sync_sidecar()  # the sidecar is true up to what the manifest says
            now = self.stored()
            if now.durable != durable and now.active.base == durable.base:
                self.replace(now, durable=durable)
                page.dirty = False
            self._unsettled = page.durable != page.tail
        except OSError:
            page.tick = int(self.clock.monotonic() * 1e9)

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
            with self.changing() as now:
                page = self.page
                epoch = max(now.epoch, now.claims, page.epoch) + 1
                self.replace(now, epoch=epoch)
                page.epoch = epoch
                file, tail, failures = self.open(page.tail.base), page.tail, page.failures
                self._begin(file)
        except OSError as error:
            raise explained(error, self.folder) from error
        ticket = Ticket(file, tail.offset, tail, failures, None)
        try:
            self.sync(ticket)
            self.publish(ticket)
        finally:
            self.end(ticket)
        return epoch

    # -- life -----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._under_way + self._holds > 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """It is not let go for want of use meanwhile."""
        with self.exclusive.mutex:
            self._holds += 1
        try:
            yield
        finally:
            with self.exclusive.mutex:
                self._holds -= 1

    def close(self) -> None:
        """Wait for appends under way, settle, and let go."""
        if self._drained():
            try:
                self.settle()
                self._trim()
            finally:
                self._let_go()

    def discard(self) -> None:
        """Wait for appends under way, and let go without settling: the topic is gone."""
        if self._drained():
            self._let_go()

    def _drained(self) -> bool:
        """Let nothing new begin, and wait for what has begun: it is synced and answered. False when another thread has done so."""
        with self._ended:
            if self._closing:
                return False
            self._closing = True
            while self._under_way:
                self._ended.wait()
            return True

    def _trim(self) -> None:
        """Give back what was written ahead of the tail. A failure costs only space."""
        with self.exclusive:
            page = self.page
            if page.failures & 1 or page.dirty or page.deleted or self._active is None:
                return
            try:
                file = self.open(page.tail.base)
                file.trim(page.tail.position)
            except OSError:
                return

    def _let_go(self) -> None:
        with self.exclusive.mutex:
            self.forget()
            del self.page  # unmapped with its last reference

    def __getattr__(self, name: str) -> NoReturn:
        if name == "page" and self._closed:
            raise self.exclusive.closed()
        raise AttributeError(name)

    def forget(self) -> None:
        """Let go of everything without writing, unlocking or waiting: what a forked child does."""
        self._closed = True
        for file in self._files_open.values():
            file.close()
        self._files_open, self._active = {}, None
        for lock in (self._lock, self._live):
            if lock is not None:
                lock.forget()
