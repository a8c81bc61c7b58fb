"""The writing side of a partition: append, sync, publish. The numbered steps are explained in docs/explanation/durability.md.

Several processes may do this at once. They share the commit page, which they change only under the `lock` file's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, OutcomeUnknown
from headwater.core.files import FileLock, Files, explained
from headwater.core.metrics import PartitionMetrics
from headwater.log.embedded import changes, opened
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.disposal import dispose
from headwater.log.embedded.exclusive import Exclusive
from headwater.log.embedded.page import CommitPage, SegmentPosition
from headwater.log.embedded.segment import OpenSegment
from headwater.log.embedded.state import PartitionState
from headwater.log.embedded.ticket import Question, Ticket
from headwater.log.layout import EncodedBatch, seal
from headwater.log.record import Topic

_UNMEASURED = 0.001  # seconds: what a sync is taken to last until some have been measured
_FADING = 0.95  # after 50 quicker syncs, a slow one counts a twelfth
_READ_AGAIN = "Read the end of the partition before appending them again."


def _rows(batch: EncodedBatch, position: int) -> bytes:
    """The sidecar rows of a batch that begins at `position`."""
    return (np.asarray(batch.starts, "<u4") + np.uint32(position)).tobytes()


class Partition(PartitionState):
    """A partition opened for writing by this process. Safe for several threads.

    `append` returns once the batch is synced and readers can see it. Errors: see `Log`. After a fork the child calls `forget` and opens
    its own: descriptors and locks are the parent's. Its maker holds the topics' lock shared, so that nobody deletes or re-creates the topic
    meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        topic: Topic,
        files: Files,
        clock: Clock,
        boot: bytes,
        metrics: PartitionMetrics | None = None,
    ) -> None:
        settings = topic.settings
        super().__init__(folder, name=name, settings=settings, files=files, clock=clock, boot=boot)
        self.generation = topic.generation
        self.appends = 0  # appends since the partition was opened
        self.max_record = settings.max_record
        self._most, self._timed = settings.segment, bool(settings.period)  # below this position nothing rolls before the period is over
        self._metrics = metrics
        self._closed = False
        self._under_way: dict[int, OpenSegment] = {}  # by thread: appends and claims between their first byte and their answer
        self._holds = 0  # compactions and the like
        self.slowest_sync = _UNMEASURED  # seconds; fades with each quicker sync
        self._lock = self._live = None
        try:
            manifests.check_folder(folder)
            self._lock = FileLock(files, folder / "lock")
            self._live = FileLock(files, folder / "live")
            self.exclusive = Exclusive(self._lock, name)
            self._ended = threading.Condition(self.exclusive.mutex)
            with self.exclusive:
                # 0. Alone: recover, whatever the page says. Not alone: the page is true, because somebody has kept it so.
                self.page = CommitPage(files, folder / "commit", writable=True)
                self._live.shared()  # waits for one killed in its recovery, of whose locks the system has let go of `lock` first
                if self._live.try_exclusive():
                    self.manifest = opened.recover(
                        folder, self.page, name=name, files=files, clock=clock, boot=boot, disposal=settings.disposal
                    )
                else:
                    self.manifest = opened.join(folder, name=name)
                self.page.deleted = False  # the topic exists, and nobody deletes it now: a deleting process set the mark and died
                self._live.shared()
        except BaseException as error:
            self._unlock()
            self.forget()
            if isinstance(error, OSError):
                raise explained(error, folder) from error
            raise
        if settings.disposal != "delete":
            dispose(self)  # what a dead process has begun

    # -- appending ------------------------------------------------------------------------------------------

    def append(self, batch: EncodedBatch, epoch: int | None = None, question: Question | None = None) -> int:
        """Write, sync, publish; return the first offset. `epoch` is the claim under which this is written, None without one.

        Where `question` is answered with a reason, nothing is written: whatever lies before is synced and published all the same.
        """
        metrics = self._metrics
        begun = self.clock.monotonic() if metrics is not None else 0.0
        try:
            ticket = self.write(batch, epoch, question)
            self.finish(ticket)
        except HeadwaterError:
            raise
        except BaseException:
            self.abandon()
            raise
        if metrics is not None and ticket.tail.offset > ticket.first:
            self.count(ticket, begun)
        return ticket.first

    def count(self, ticket: Ticket, begun: float) -> None:
        """Count an acknowledged batch whose append began at this time of the clock."""
        if self._metrics is not None:
            self._metrics.appended(ticket.tail.offset - ticket.first, self.clock.monotonic() - begun, ticket.tail.offset)

    def write(self, batch: EncodedBatch, epoch: int | None = None, question: Question | None = None) -> Ticket:
        """Steps 1 and 2: the bytes are in the file, and the tail is behind them. The same thread finishes the ticket."""
        exclusive = self.exclusive
        with exclusive.mutex:
            exclusive.acquire()  # without `with`, for speed: every append comes here
            try:
                file = self.unchanged(epoch) if question is None else None
                if file is None:
                    page, (file, tail) = self.page, self._ready(epoch)
                    if question is not None and question(tail) is not None:
                        self._begin(file)
                        return Ticket(file, tail.offset, tail, page.failures, None)
                ticket = self.put(file, batch, epoch)
                self._begin(file)
                return ticket
            finally:
                exclusive.release()

    def unchanged(self, epoch: int | None = None) -> OpenSegment | None:
        """Step 1, under the lock: the active file, if everything is as this process left it, which it nearly always is."""
        page, file = self.page, self._active
        base, position, _ = page.tail
        if (
            file is None
            or file.segment.base != base
            or position >= self._most
            or file.retired
            or self._closing
            or not page.quiet(self.manifest.generation, epoch or 0)
            or (self._timed and position and self.period_over(file.segment))
        ):
            return None
        return file

    def put(self, file: OpenSegment, batch: EncodedBatch, epoch: int | None = None) -> Ticket:
        """Step 2, under the lock: write the batch at the tail. Errors: `DiskFull` and the like; nothing was appended then."""
        page, buffer = self.page, batch.buffer
        base, position, offset = page.tail
        seal(batch, offset, page.durable_offset)
        rows = position.to_bytes(4, "little") if batch.records == 1 else _rows(batch, position)
        page.dirty = True  # from here to the move of the tail, a death leaves bytes that the next process cuts off
        try:
            file.write(buffer, rows, position, offset - base)
        except OSError as error:
            self._cut(file)
            raise explained(error, file.path) from error
        page.tail = tail = SegmentPosition(base, position + len(buffer), offset + batch.records)
        page.dirty = False
        self._unsettled = True
        return Ticket(file, offset, tail, page.failures, epoch)

    def finish(self, ticket: Ticket) -> None:
        """Steps 3 and 4, for what `write` or a claim has begun."""
        try:
            self.sync(ticket)
        except BaseException:
            with self.exclusive.mutex:
                self._end()
            raise
        with self.exclusive.mutex:
            self.exclusive.acquire()
            try:
                self.publish(ticket)
                if self.settle_due(ticket.tail):
                    self._settle()
            finally:
                self.exclusive.release()
                self._end()

    def _begin(self, file: OpenSegment) -> None:
        """Under the lock: an append or a claim of this thread is under way, and will sync through `file`."""
        me = threading.get_ident()
        file.pins.add(me)
        self._under_way[me] = file
        self.appends += 1

    def _end(self) -> None:
        """Under the mutex: it is answered, or has failed. Closing waits for this. Done twice, it is as if done once."""
        me = threading.get_ident()
        if (file := self._under_way.get(me)) is not None:
            file.unpin(me)
            del self._under_way[me]
        if self._closing and not self._under_way:
            self._ended.notify_all()

    def abandon(self) -> None:
        """After an exception that can have come between any two steps, as Ctrl-C does: this thread holds nothing any more."""
        self.exclusive.abandon()
        with self.exclusive.mutex:
            self._end()

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
            self.sync_file(ticket.file)
        except OSError as error:
            with self.exclusive:
                raise self.repaired(ticket, error) from error

    def sync_file(self, file: OpenSegment) -> None:
        """Sync and measure it. Errors: `OSError`."""
        begun = self.clock.monotonic()
        file.sync()
        seconds = self.clock.monotonic() - begun
        self.slowest_sync = max(seconds, self.slowest_sync * _FADING)
        if self._metrics is not None:
            self._metrics.synced(seconds)

    def repaired(self, ticket: Ticket, error: OSError) -> OutcomeUnknown:
        """Step 5, under the lock: repair the partition after a failed sync, unless another has; returns what the caller is to be told."""
        if self.page.failures == ticket.failures:
            changes.heal(self)
        problem = f"Syncing {ticket.file.path} failed ({error.strerror}); the records may or may not be there."
        return OutcomeUnknown(problem, hint=_READ_AGAIN)

    def publish(self, ticket: Ticket) -> None:
        """Step 4, under the lock: make the batch visible to readers. Its own end counts: the tail may be in a later segment."""
        page, tail = self.page, ticket.tail
        if page.failures != ticket.failures:
            problem = f"Another process's sync of {self.name} failed meanwhile; the records may or may not be there."
            raise OutcomeUnknown(problem, hint=_READ_AGAIN)
        if tail.offset > page.durable_offset or tail.offset > page.durable.offset:
            page.durable = tail
        if ticket.epoch is not None and page.epoch != ticket.epoch:
            raise OutcomeUnknown(
                f"{self.name} was claimed by another writer while these records were written; they lie before its claim.",
                hint="Claim it again and read its end before appending them again.",
            )

    def _ready(self, epoch: int | None) -> tuple[OpenSegment, SegmentPosition]:
        """Step 1, under the lock: may this process append, and where? Finishes a dead writer's change, follows others' rolls, and rolls a
        full segment."""
        page = self.page
        try:
            self.usable()
            if page.epoch != (epoch or 0):  # the manifest decides: it is replaced before the page, and cannot rot unseen
                page.epoch = self.stored().epoch
                self.check_claim(page.epoch, epoch)
            tail = page.tail
            file = self.open(tail.base)
            if tail.position >= self.settings.segment or (self.settings.period and tail.position and self.period_over(file.segment)):
                file, tail = changes.roll(self, file), page.tail
        except OSError as error:
            raise explained(error, self.folder) from error
        return file, tail

    # -- the manifest ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Called within a second after the last append, and at close."""
        if self._unsettled and not self._closed:
            with self.held(), self.exclusive:
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
            self.finish(Ticket(file, tail.offset, tail, failures, None))
        except OSError as error:
            raise explained(error, self.folder) from error
        return epoch

    # -- life -----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return bool(self._under_way) or self._holds > 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps the partition open inside; an exception inside leaves no lock held."""
        with self.exclusive.mutex:
            self._holds += 1
        try:
            yield
        except HeadwaterError:
            raise
        except BaseException:
            self.abandon()
            raise
        finally:
            with self.exclusive.mutex:
                self._holds -= 1

    def close(self) -> None:
        """Wait for appends under way, settle, and close."""
        if self._drained():
            try:
                with self.held():
                    self.settle()
                    self._trim()
            finally:
                self._let_go()

    def discard(self) -> None:
        """Wait for appends under way, and close without settling: the topic is gone."""
        if self._drained():
            self._let_go()

    def _drained(self) -> bool:
        """Let nothing new begin, and wait for what has begun: it is synced and answered. False when another thread has done so."""
        with self._ended:
            if self._closing:
                return False
            self.exclusive.check()
            if threading.get_ident() in self._under_way:
                raise self.exclusive.interrupted()  # it would wait for itself
            self._closing = True
            try:
                while self._under_way:
                    self._ended.wait()
            except BaseException:
                self._closing = False  # Ctrl-C: it is open as before, and can be closed again
                raise
            return True

    def _trim(self) -> None:
        """Truncate the zeros after the tail. A failure costs only space."""
        with self.exclusive:
            page = self.page
            if page.failures & 1 or page.dirty or page.deleted or self._active is None:
                return
            with suppress(OSError):
                self.open(page.tail.base).trim(page.tail.position)

    def _let_go(self) -> None:
        with self.exclusive.mutex:
            self._unlock()
            self.forget()
            del self.page  # unmapped with its last reference; whoever takes `exclusive` learns before that it is closed

    def _unlock(self) -> None:
        """A child that is forked while this one is opened or closed has the descriptors, and does not know of them."""
        for lock in (self._lock, self._live):
            if lock is not None:
                lock.close()

    def forget(self) -> None:
        """In a forked child: close everything without writing, unlocking or waiting."""
        self._closed = True
        for file in self._files_open.values():
            file.close()
        self._files_open, self._active = {}, None
        for lock in (self._lock, self._live):
            if lock is not None:
                lock.forget()
