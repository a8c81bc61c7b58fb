"""What a process knows and holds of a partition that it writes: the commit page, the manifest, and its open segments.

Everything here is called under the partition's lock. `changing` and `replace` are how the manifest is changed.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Damaged, Fenced, Unavailable, UnknownTopic
from headwater.core.files import Files
from headwater.core.metrics import PartitionMetrics
from headwater.core.period import period_end
from headwater.log.embedded import changes
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.exclusive import Exclusive
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import CommitPage, SegmentPosition
from headwater.log.embedded.segment import OpenSegment
from headwater.log.record import TopicSettings

_logger = logging.getLogger("headwater.log")
_MANIFEST_BYTES = 64 << 20
_MANIFEST_SECONDS = 1.0


class PartitionState:
    """The part of an open partition that rolls, repairs and housekeeping change; `Partition` is the whole."""

    page: CommitPage
    manifest: Manifest
    exclusive: Exclusive

    def __init__(self, folder: Path, *, name: str, settings: TopicSettings, files: Files, clock: Clock, boot: bytes) -> None:
        self.folder, self.name, self.settings = folder, name, settings
        self.files, self.clock, self.boot = files, clock, boot
        self.generation = ""  # of the topic
        self._closing = False
        self._files_open: dict[str, OpenSegment] = {}
        self._active: OpenSegment | None = None  # the file of the last append: nearly always that of the next
        self._period = (-1, 0)  # when the active segment was created, and when its period ends
        self._unsettled = False  # the manifest is behind the durable end
        self._metrics: PartitionMetrics | None = None
        self._refused: set[str] = set()  # files of which `refused` has told

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

    def check_claim(self, claimed: int, epoch: int | None) -> None:
        """Errors: `Fenced` unless `claimed`, the newest claim in the manifest, is the one of `epoch` (None or 0: without one).

        A claim outlives its process: what it protected is changed again by whoever claims the partition next.
        """
        if claimed == (epoch or 0):
            return
        if claimed:
            raise Fenced(
                f"{self.name} belongs to another writer since claim {claimed}.",
                hint="Only its owner appends to it, deletes from it and compacts it; claim it again to take it over.",
            )
        raise Fenced(f"{self.name} is no longer claimed.", hint="Claim it again.")

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
            self._retire()  # whoever rolled, this process or another
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

    def _retire(self) -> None:
        """Close every open segment; one with appends under way when they have ended."""
        while self._files_open:
            self._files_open.popitem()[1].retire()

    def discard_file(self, file: OpenSegment) -> None:
        """Close a segment whose file is no longer trusted."""
        self._files_open.pop(file.segment.stem).retire()

    def period_over(self, segment: Segment) -> bool:
        """Whether the segment's period is over. A clock that is set back does not end it; one that is set forward does, once."""
        created, end = self._period
        if created != segment.created:
            created, end = self._period = segment.created, period_end(self.settings.period, segment.created)
        return self.clock.now_ms() >= end

    def refused(self, file: str, why: str) -> None:
        """Tell, once for each file, that its bytes must be overwritten, and could not be."""
        if file in self._refused:
            return
        self._refused.add(file)
        _logger.warning("The bytes of %s, which %s must overwrite, are still there: %s.", self.folder / file, self.settings.disposal, why)
        if self._metrics is not None:
            self._metrics.refused_disposal()

    # -- the manifest ---------------------------------------------------------------------------------------

    def stored(self) -> Manifest:
        """The manifest as it is on disk. Whoever changes it begins here: a process may have died between the file and the page."""
        manifest = manifests.load(self.folder)
        if manifest is None:
            raise manifests.lost(self.folder, "is missing")
        if manifest.generation < self.page.generation:
            self.page.generation = manifest.generation  # the file is replaced before the page: the page has rotted
        return manifest

    def changing(self) -> Changing:
        """The manifest on disk, to be replaced under the lock. Errors: those of `usable`, and `OSError`.

        A change that fails or dies half-way leaves the page dirty: whoever comes next finishes it before anything else.
        """
        return Changing(self)

    def replace(self, now: Manifest, **fields: object) -> None:
        """Replace the manifest that is on disk (`now`), then let the others know. Under the lock; the caller clears `dirty`."""
        changed = msgspec.structs.replace(now, generation=now.generation + 1, topic=now.topic or self.generation, **fields)
        self.page.dirty = True  # a death between the file and the page must not go unnoticed
        manifests.save(self.files, self.folder, changed)
        self.manifest = changed
        self.page.generation = changed.generation
        self.page.tick = int(self.clock.monotonic() * 1e9)

    def settle_due(self, durable: SegmentPosition) -> bool:
        """Whether the manifest is too old, or too far behind this durable end."""
        if self.clock.monotonic() - self.page.tick / 1e9 > _MANIFEST_SECONDS:
            return True
        written = self.manifest.durable
        return durable.base == written.base and durable.position - written.position > _MANIFEST_BYTES

    def _settle(self) -> None:
        """Bring the manifest up to the durable end, so that little has to be read again after a crash. A failure costs only that."""
        page = self.page
        if page.dirty or page.deleted:
            return  # half a change, which whoever appends next finishes; or the path means another topic by now, or none
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


class Changing:
    """See `PartitionState.changing`. No generator: one that Ctrl-C leaves behind would let go of the lock whenever it is collected."""

    def __init__(self, partition: PartitionState) -> None:
        self._partition = partition

    def __enter__(self) -> Manifest:
        partition = self._partition
        partition.exclusive.__enter__()
        try:
            partition.usable()
            return partition.stored()
        except BaseException:
            partition.exclusive.__exit__()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._partition.page.dirty = False
        self._partition.exclusive.__exit__()
