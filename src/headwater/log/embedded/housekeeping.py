"""Changes of a partition besides appends: rolls, deletions, and replacements of segments by compacted or imported ones.

All under its lock, where the claim is compared as for an append: `epoch` is the one under which the caller works, None without one.
"""

from __future__ import annotations

from headwater.core.errors import AlreadyExists, BadBounds
from headwater.core.files import explained
from headwater.log.embedded import changes, disposal
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import SegmentPosition
from headwater.log.embedded.partition import Partition
from headwater.log.embedded.segment import create
from headwater.log.embedded.wiping import discard
from headwater.log.record import whole


def roll(partition: Partition, epoch: int | None = None, *, due: bool = False) -> int:
    """Close the active segment, if it holds anything; return the offset at which the next one begins.

    `due`: only where its period is over. What was written is durable then. Removes a closed segment at once when all its records are
    deleted.
    """
    try:
        with partition.changing() as now:
            partition.check_claim(now.epoch, epoch)
            tail = partition.page.tail
            if tail.position and (not due or (partition.settings.period and partition.period_over(now.active))):
                changes.roll(partition, partition.open(tail.base))
            return tail.offset
    except OSError as error:
        raise explained(error, partition.folder) from error


def delete_before(partition: Partition, offset: int, epoch: int | None = None) -> int:
    """Raise the start, then remove what lies wholly below it, as the topic's disposal says."""
    offset = whole(offset)
    try:
        with partition.changing() as now:
            partition.check_claim(now.epoch, epoch)
            if offset > partition.page.durable_offset:
                end = partition.page.durable_offset
                raise BadBounds(f"{partition.name} ends at offset {end}; {offset} lies beyond.", hint=f"Give an offset up to {end}.")
            if offset <= now.start:
                return now.start
            gone = [segment for segment in now.segments[:-1] if segment.end <= offset]
            _remove(partition, now, gone, start=offset, segments=now.segments[len(gone) :])
            return offset
    except OSError as error:
        raise explained(error, partition.folder) from error


def swap(partition: Partition, old: list[Segment], new: list[Segment], epoch: int | None = None) -> bool:
    """Replace closed segments by compacted ones, if they are all still there; then remove the old files."""
    with partition.changing() as now:
        partition.check_claim(now.epoch, epoch)
        stems = [segment.stem for segment in now.segments]
        at = stems.index(old[0].stem) if old[0].stem in stems else -1
        if at < 0 or now.segments[at : at + len(old)] != old:
            return False
        _remove(partition, now, old, segments=[*now.segments[:at], *new, *now.segments[at + len(old) :]])
        return True


def _remove(partition: Partition, now: Manifest, gone: list[Segment], **fields: object) -> None:
    """Replace the manifest by one without these segments; then begin to dispose of their files. `disposal.dispose` ends it."""
    out = disposal.removal(partition.settings.disposal, now, gone)
    partition.replace(now, drained=out.drained, **fields)
    disposal.take_away(partition.files, partition.folder, out)


def adopt(partition: Partition, segments: list[Segment], end: int) -> None:
    """Put finished segments in front of an empty partition, which then goes on at offset `end`."""
    with partition.changing() as now:
        partition.check_claim(now.epoch, None)
        if partition.page.tail.offset or len(now.segments) > 1:
            raise AlreadyExists(f"{partition.name} holds records already.", hint="Import into a new topic.")
        following = Segment(end, generation=now.generation + 1, created=partition.clock.now_ms())
        create(partition.files, partition.folder, following)
        place = SegmentPosition(end, 0, end)
        partition.replace(now, segments=[*segments, following], durable=place, start=segments[0].base)
        partition.page.tail = place
        partition.page.durable = place
        discard(partition.files, partition.folder, [now.active])


def next_generation(partition: Partition, epoch: int | None = None) -> int:
    """A generation for the names of replacing files; unique while a manifest holds it."""
    with partition.changing() as now:
        partition.check_claim(now.epoch, epoch)
        partition.replace(now)
        return partition.manifest.generation
