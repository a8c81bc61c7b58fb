"""Repairs a damaged partition: keeps the intact batches, and moves damaged segments to side files."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Damaged
from headwater.core.files import Files
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.check import Damage, Whole, examine
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.offline import offline, stored_page
from headwater.log.embedded.page import CommitPage, SegmentPosition
from headwater.log.embedded.recovery import survey
from headwater.log.embedded.rewriting import SegmentWriter
from headwater.log.embedded.segment import create


class Repaired(msgspec.Struct, frozen=True):
    """What a repair has done, or with `dry_run` would do."""

    partition: str
    damage: list[Damage]
    lost: list[tuple[int, int]]  # offsets [first, end) that can no longer be read
    side_files: list[str]  # where the damaged segments are kept, whole


def repair(folder: Path, *, name: str, files: Files, clock: Clock, boot: bytes, dry_run: bool = False) -> Repaired:
    """Cut damaged batches out of a partition that nobody has open. Offsets are never given again: the log goes on behind the lost ones.

    Errors: `Conflict` while another process has it open; `Damaged` where there is no manifest to go by, or one that is older than the
    segments. A crash in the middle leaves the partition as it was, or repaired.
    """
    with offline(folder, name=name, files=files, dry_run=dry_run):
        now = manifests.load_for_reading(folder)
        if now is None:
            return Repaired(name, [], [], [])
        manifests.check_newest(folder, now)  # replacing an older manifest would remove the segments that it does not name
        page = stored_page(files, folder)
        known = page.durable_offset if page is not None and page.boot == boot and page.sound else 0
        return _repair(folder, now, max(known, now.durable.offset), name, files, clock, dry_run)


def _repair(folder: Path, now: Manifest, known: int, name: str, files: Files, clock: Clock, dry_run: bool) -> Repaired:
    damage: list[Damage] = []
    lost: list[tuple[int, int]] = []
    whole: dict[str, list[Whole]] = {}
    for segment in now.segments:
        end, limit = (segment.end, segment.length) if segment.closed else _active_extent(folder, now, known)
        pieces = list(examine(folder, segment, end, limit))
        broken = [piece for piece in pieces if isinstance(piece, Damage)]
        if broken:
            damage += broken
            whole[segment.stem] = [piece for piece in pieces if isinstance(piece, Whole)]
            lost += [(piece.offset, piece.resumes_offset if piece.resumes_at >= 0 else end) for piece in broken]
    side = {folder / f"{stem}.log": _side_file(folder, stem) for stem in whole if (folder / f"{stem}.log").exists()}
    report = Repaired(name, damage, lost, [str(path) for path in side.values()])
    if dry_run or not damage:
        return report
    for damaged, kept in side.items():
        if not kept.exists():
            files.link(damaged, kept)  # 1. kept under another name before anything else changes
    files.sync_dir(folder)
    # 2. A manifest that knows the generation of the pieces: without it, those of a repair that died would look newer than the manifest.
    now = msgspec.structs.replace(now, generation=now.generation + 1)
    manifests.save(files, folder, now)
    segments = []
    for segment in now.segments:
        segments += _pieces(folder, files, segment, whole[segment.stem], now.generation) if segment.stem in whole else [segment]
    end = max([known, *(high for _, high in lost), *(segment.end for segment in segments)])
    if not segments or segments[-1].closed:
        active = Segment(end, generation=now.generation, created=clock.now_ms())
        create(files, folder, active)
        segments.append(active)
        durable = SegmentPosition(end, 0, end)
    else:
        durable = now.durable
    # 3. From here on the pieces count. The page is put aside: whoever opens next goes by the manifest and the bytes. Not before the
    # manifest holds what the page knew of the end: rot in the last batch would look like a torn tail to whoever comes after a death here.
    manifests.save(files, folder, msgspec.structs.replace(now, generation=now.generation + 1, segments=segments, durable=durable))
    CommitPage(files, folder / "commit", writable=True).boot = bytes(16)
    for stem in whole:
        for suffix in (".log", ".pos"):
            if (folder / f"{stem}{suffix}").exists():
                files.unlink(folder / f"{stem}{suffix}")  # 4. the side file keeps the bytes
    return report


def _side_file(folder: Path, stem: str) -> Path:
    """Where a damaged segment is kept: under a name that nothing has, or that a repair which died has given it already."""
    number, kept = 1, folder / f"{stem}.damaged.cut"
    while kept.exists() and not kept.samefile(folder / f"{stem}.log"):
        number += 1
        kept = folder / f"{stem}.damaged-{number}.cut"
    return kept


def _active_extent(folder: Path, now: Manifest, known: int) -> tuple[int, int]:
    """How far the active segment must reach: what was acknowledged, plus whatever intact batches lie behind it."""
    path = now.active.log(folder)
    if not path.exists():
        return known, 1
    try:
        surveyed = survey(folder, msgspec.structs.replace(now, segments=[now.active]), known=known, hint="")
    except Damaged:  # shorter than the manifest says
        return known, max(path.stat().st_size + 1, now.durable.position)
    return (surveyed.durable, surveyed.size) if surveyed.damage else (surveyed.place.offset, surveyed.place.position)


def _pieces(folder: Path, files: Files, segment: Segment, whole: list[Whole], generation: int) -> list[Segment]:
    """The intact stretches of a damaged segment, each as a segment of its own."""
    made = []
    for piece in whole:
        fd = os.open(segment.log(folder), os.O_RDONLY | os.O_CLOEXEC)
        try:
            raw = os.pread(fd, piece.end - piece.begin, piece.begin)
        finally:
            os.close(fd)
        first = int.from_bytes(raw[:8], "big")
        writer = SegmentWriter(
            files, folder, Segment(first if piece.begin else segment.base, generation, created=segment.created, dense=segment.dense)
        )
        writer.copy(raw, piece.starts - piece.begin)
        made.append(writer.finish(piece.following))
    return made
