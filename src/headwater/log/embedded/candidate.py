"""A segment file as a rebuild sees it: its name and its batches, without a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from headwater.log.embedded.check import Damage, Whole, examine
from headwater.log.embedded.manifest import Segment


class Candidate(NamedTuple):
    """A file that a manifest could name. `segment` says whether it has holes; its length and end are left open."""

    segment: Segment
    size: int  # bytes of the file
    holds: bool  # anything but zeros
    position: int  # where its last intact batch ends
    intact: int  # where the first intact stretch ends
    following: int  # the offset after that stretch
    end: int  # the offset after all that it covers
    records: int
    covered: int  # offsets that it covers
    damage: list[Damage]
    torn: bool  # the last damaged place reaches to the end of the file


def candidate(folder: Path, base: int, generation: int) -> Candidate:
    """Read a segment file whole, and describe it."""
    path = Segment(base, generation).log(folder)
    status = path.stat()
    segment = Segment(base, generation, created=status.st_mtime_ns // 1_000_000, dense=False)
    whole: list[Whole] = []
    damage: list[Damage] = []
    records = 0
    for piece in examine(folder, segment, 0, status.st_size):
        if isinstance(piece, Damage):
            damage.append(piece)
        else:
            records += len(piece.starts)
            whole.append(msgspec.structs.replace(piece, starts=piece.starts[:0]))
    if not whole:
        return Candidate(segment, status.st_size, bool(damage), 0, 0, base, base, 0, 0, damage, bool(damage))
    last = whole[-1]
    # Compaction and import give each of their batches the end of their segment; others carry an end below their own offsets.
    end = max(last.following, max(stretch.carried for stretch in whole))
    unbroken = records == last.following - base and end == last.following
    torn = bool(damage) and damage[-1].resumes_at < 0
    damaged = len(damage) > torn
    return Candidate(
        msgspec.structs.replace(segment, dense=unbroken or (damaged and not generation)),
        status.st_size,
        True,
        last.end,
        whole[0].end,
        whole[0].following,
        end,
        records,
        records if damaged else end - base,
        damage,
        torn,
    )
