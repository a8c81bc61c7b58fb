"""Changes of a partition's active segment: the roll, the repair after a failed sync, and finishing what a dead process left half done.

All under the partition's lock, which the caller holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headwater.core.errors import Damaged, Unavailable
from headwater.log.embedded import disposal
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import SegmentPosition
from headwater.log.embedded.segment import OpenSegment, create

if TYPE_CHECKING:
    from headwater.log.embedded.state import PartitionState


def roll(partition: PartitionState, file: OpenSegment) -> OpenSegment:
    """Step 6: close the active segment and open the next; the next process finishes a roll that a dead one began (`finish`)."""
    page, files = partition.page, partition.files
    base, position, offset = page.tail
    try:
        file.trim(position)
        file.sync()
    except OSError as error:
        heal(partition)
        raise Unavailable(
            f"Syncing {file.path} failed ({error.strerror}); nothing was appended.", hint="Look at the machine's disk, then try again."
        ) from error
    file.sync_sidecar()
    page.durable = SegmentPosition(base, position, offset)
    now = partition.stored()
    following, spares = disposal.next_segment(partition, now, offset)
    closed = [*now.segments[:-1], msgspec.structs.replace(now.active, length=position, end=offset)]
    kept = [
        segment for segment in closed if segment.end > now.start
    ]  # remove it now if all its records are deleted: nobody would come back for it
    out = disposal.removal(partition.settings.disposal, now, closed[: len(closed) - len(kept)])
    place = SegmentPosition(offset, 0, offset)
    partition.replace(now, segments=[*kept, following], durable=place, drained=out.drained, spares=spares)
    _enter(partition, partition.manifest)
    page.dirty = False
    disposal.take_away(files, partition.folder, out)
    return partition.open(offset)


def finish(partition: PartitionState) -> None:
    """Finish the change of a process that died or failed between two steps: make page, manifest and files agree, then clear the dirty mark.

    Whatever the change was, the manifest says whether it counts: a roll, an import, a claim, a deletion or a compaction is done once its
    manifest is renamed; bytes behind the tail belong to an append that was never acknowledged. No clock and no setting is asked.
    """
    page = partition.page
    now = partition.stored()
    partition.files.sync_dir(partition.folder)  # renamed, perhaps not durable: a power cut would bring the old manifest back
    partition.manifest, page.generation, page.epoch = now, now.generation, now.epoch
    if now.active.base != page.tail.base or page.durable.base != page.tail.base:
        _enter(partition, now)
    base, position, offset = page.tail
    try:
        partition.open(base).truncate(position, offset - base)
    except OSError as error:
        raise Unavailable(
            f"{now.active.log(partition.folder)} cannot be truncated to its last whole batch ({error.strerror}).",
            hint="Look at the machine's disk, then try again.",
        ) from error
    page.dirty = False


def _enter(partition: PartitionState, now: Manifest) -> None:
    """Let tail and durable end move to the manifest's active segment, if they are not there: everything before it is sealed and synced.

    Errors: `Damaged` where the manifest does not follow on the tail, as one from a backup does not: appending would overwrite records.
    """
    page, begin = partition.page, now.active.base
    if page.tail.base != begin:
        if page.tail.offset not in (begin, 0):  # 0: an import into an empty partition, which goes on behind the imported records
            raise Damaged(
                f"{partition.folder / manifests.NAME} goes on at offset {begin}, but the partition has come to {page.tail.offset}.",
                hint=f"Close every process that uses it, then look at it with `headwater log check {partition.name}`.",
            )
        page.tail = SegmentPosition(begin, 0, begin)
    if page.durable.base != begin:
        page.durable = SegmentPosition(begin, 0, begin)


def heal(partition: PartitionState) -> None:
    """Step 5, after a failed sync: cut off the bytes that may not be on disk, and go on in a new file.

    The kernel may have dropped the dirty pages and called them clean, so the old file is not trusted beyond its durable end. If this
    fails, `failures` stays odd and every process refuses to append until the partition is opened by one alone.
    """
    page, files, folder = partition.page, partition.files, partition.folder
    page.failures += 1
    try:
        now = partition.stored()
        if now.active.base != page.tail.base:
            _enter(partition, now)  # a roll that died half done: the segment before is sealed already, and must not be sealed again
        durable, base = page.durable, page.tail.base
        begin = durable if durable.base == base else SegmentPosition(base, 0, base)
        file = partition.open(base)
        file.truncate(begin.position, begin.offset - base)
        file.sync()
        following = Segment(begin.offset, generation=now.generation + 1, created=partition.clock.now_ms())
        create(files, folder, following)
        sealed = [msgspec.structs.replace(now.active, length=begin.position, end=begin.offset)] if begin.position else []
        fresh = SegmentPosition(begin.offset, 0, begin.offset)
        partition.replace(now, segments=[*now.segments[:-1], *sealed, following], durable=fresh)
        page.tail = page.durable = fresh
        page.dirty = False
        partition.discard_file(file)
        page.failures += 1
    except (OSError, Damaged):
        return
