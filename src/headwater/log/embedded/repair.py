"""Repairing a damaged partition: what is whole goes on, what is not is kept in a side file. Nothing is destroyed."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Conflict, Damaged
from headwater.core.files import FileLock, Files
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.check import Damage, Whole, examine
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import CommitPage, Place
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
    lock, live = FileLock(files, folder / "lock"), FileLock(files, folder / "live")
    try:
        lock.exclusive()
        if not live.try_exclusive():
            raise Conflict(f"{name} is in use.", hint="Stop every process that has it open, `headwater serve` among them, then repair it.")
        page = CommitPage(files, folder / "commit", writable=True)
        now = manifests.load_for_reading(folder)
        if now is None:
            return Repaired(name, [], [], [])
        newer = manifests.outdated(folder, now)
        if newer is not None:  # what it does not name would look lost, and be removed at the next opening
            raise manifests.lost(folder, f"is older than {newer.name}, which it does not name")
        return _repair(folder, now, page, name, files, clock, page.boot == boot, dry_run)
    finally:
        live.close()
        lock.close()


def _repair(
    folder: Path, now: Manifest, page: CommitPage, name: str, files: Files, clock: Clock, same_boot: bool, dry_run: bool
) -> Repaired:
    known = max(page.durable_offset if same_boot else 0, now.durable.offset)
    damage: list[Damage] = []
    lost: list[tuple[int, int]] = []
    whole: dict[str, list[Whole]] = {}
    for segment in now.segments:
        end, limit = (segment.end, segment.length) if segment.closed else _active_extent(folder, now, known)
        pieces = list(examine(folder, segment, end, limit))
        found = [piece for piece in pieces if isinstance(piece, Damage)]
        if found:
            damage += found
            whole[segment.stem] = [piece for piece in pieces if isinstance(piece, Whole)]
            lost += [(piece.offset, piece.resumes_offset if piece.resumes_at >= 0 else end) for piece in found]
    side = [f"{stem}.damaged.cut" for stem in whole if (folder / f"{stem}.log").exists()]
    report = Repaired(name, damage, lost, [str(folder / one) for one in side])
    if dry_run or not damage:
        return report
    for stem, cut in zip((one.removesuffix(".damaged.cut") for one in side), side, strict=True):
        if not (folder / cut).exists():
            files.link(folder / f"{stem}.log", folder / cut)  # 1. kept under another name before anything else changes
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
        durable = Place(end, 0, end)
    else:
        durable = now.durable
    # 3. From here on the pieces count. The page is put aside: whoever opens next goes by the manifest and the bytes.
    page.boot = bytes(16)
    manifests.save(files, folder, msgspec.structs.replace(now, generation=now.generation + 1, segments=segments, durable=durable))
    for stem in whole:
        for suffix in (".log", ".pos"):
            if (folder / f"{stem}{suffix}").exists():
                files.unlink(folder / f"{stem}{suffix}")  # 4. the side file still names the bytes
    return report


def _active_extent(folder: Path, now: Manifest, known: int) -> tuple[int, int]:
    """How far the active segment must reach: what was acknowledged, plus whatever intact batches lie behind it."""
    path = now.active.log(folder)
    if not path.exists():
        return known, 1
    try:
        found = survey(folder, msgspec.structs.replace(now, segments=[now.active]), known=known, hint="")
    except Damaged:  # shorter than the manifest says
        return known, max(path.stat().st_size + 1, now.durable.position)
    return (found.durable, found.size) if found.damage else (found.place.offset, found.place.position)


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
