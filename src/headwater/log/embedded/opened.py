"""Opening a partition for writing: as the only process (recover) or beside others (join)."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headwater.core.clock import Clock
from headwater.core.disposal import Disposal
from headwater.core.files import Files, write_all
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.disposal import sweep
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import SIZE, CommitPage, SegmentPosition
from headwater.log.embedded.recovery import Survey, survey
from headwater.log.embedded.segment import OpenSegment, create


def join(folder: Path, *, name: str) -> Manifest:
    """Open beside living processes, which keep the page valid."""
    manifest = manifests.load(folder)
    if manifest is None:
        raise manifests.lost(folder, f"is missing while {name} is in use")
    return manifest


def recover(
    folder: Path, page: CommitPage, *, name: str, files: Files, clock: Clock, boot: bytes, disposal: Disposal = "delete"
) -> Manifest:
    """Open as the only process: find the end of the intact batches, move a torn tail aside, write the page and the sidecar.

    Damage changes nothing: `Damaged` is raised, and reading goes on up to it. Every step can be done again after a crash in any of them.
    """
    now = manifests.load(folder)
    if now is None:
        now = _begin(folder, page, files, clock)
    same_boot = page.boot == boot and page.sound  # ignore a damaged page
    surveyed = survey(
        folder,
        now,
        known=page.durable_offset if same_boot else 0,
        hint=f"Look at it with `headwater log check {name}`; mend it with `headwater log repair {name} --cut`.",
    )
    if surveyed.damage is not None:
        raise surveyed.damage
    place, active = surveyed.place, now.active
    files.sync_dir(folder)  # the manifest was perhaps renamed and not synced: what is built on it now must not find the old one
    file = OpenSegment(files, folder, active)
    try:
        if place.position < surveyed.size:
            _move_aside(files, folder, active, place.position, max(place.position, surveyed.written))
            file.truncate(place.position, surveyed.row)
        # Adopted bytes are written again and synced: clean pages in memory may hide a write that the disk has lost.
        known = page.durable if same_boot else now.durable
        file.rewrite(known.position if known.base == active.base else 0, place.position)
        file.sync()
        _sidecar(files, file, surveyed)
    finally:
        file.close()
    sweep(files, folder, now, disposal)
    if now.durable != place:
        now = msgspec.structs.replace(now, generation=now.generation + 1, durable=place)
        manifests.save(files, folder, now)
    if not same_boot:
        _fill(files, folder / "commit")
    page.dirty = False
    page.failures = (page.failures + 1) // 2 * 2
    page.epoch = now.epoch
    page.generation = now.generation
    page.tick = int(clock.monotonic() * 1e9)
    page.tail = place
    page.durable = place
    page.boot = boot  # last: from here on readers use the page
    return now


def _begin(folder: Path, page: CommitPage, files: Files, clock: Clock) -> Manifest:
    """A partition's first opening. Segments without a manifest are not a first opening, and neither is a page that tells of records."""
    if (claim := manifests.told_by(page)) is not None:
        raise manifests.lost(folder, f"is missing, but {claim}")
    for path in folder.glob("*.log"):
        if path.stat().st_size:
            raise manifests.lost(folder, f"is missing, but {path.name} holds records")
    for above in (folder.parent, folder.parent.parent):
        files.sync_dir(above)  # whoever made the topic may have died before its names were durable, and records are to come below them
    first = Segment(0, created=clock.now_ms())
    create(files, folder, first)
    now = Manifest(1, 0, [first], SegmentPosition(0, 0, 0))
    manifests.save(files, folder, now)
    return now


def _move_aside(files: Files, folder: Path, segment: Segment, begin: int, end: int) -> None:
    """Keep a torn tail in a side file, synced before it is cut: rot in the very last acknowledged batch looks torn, too."""
    with segment.log(folder).open("rb") as source:
        source.seek(begin)
        torn = source.read(end - begin).rstrip(b"\0")  # what was written ahead, or a hole that the file system left
    if not torn:
        return
    fd = files.open(_side_file(folder, f"{segment.stem}.{begin}", torn), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(files, fd, [torn], 0)
        files.sync(fd)
    finally:
        files.close(fd)
    files.sync_dir(folder)


def _side_file(folder: Path, stem: str, torn: bytes) -> Path:
    """Where to keep `torn`: under a name that nothing has. A second tail may be torn at the same byte; what a recovery that died has
    begun to write is written again."""
    number, kept = 1, folder / f"{stem}.cut"
    while kept.exists() and not torn.startswith(kept.read_bytes()):
        number += 1
        kept = folder / f"{stem}-{number}.cut"
    return kept


def _sidecar(files: Files, file: OpenSegment, surveyed: Survey) -> None:
    files.truncate(file.pos_fd, surveyed.row * 4)
    if len(surveyed.starts):
        write_all(files, file.pos_fd, [surveyed.starts.astype("<u4").tobytes()], surveyed.row * 4)
    file.sync_sidecar()


def _fill(files: Files, path: Path) -> None:
    """Write the page's bytes once more: a power cut may have left a hole, and a store into a hole on a full disk kills the process."""
    fd = files.open(path, os.O_RDWR)
    try:
        write_all(files, fd, [os.pread(fd, SIZE, 0).ljust(SIZE, b"\0")], 0)
    finally:
        files.close(fd)
