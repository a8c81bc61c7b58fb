"""The manifest: the list of a partition's segments, replaced whole and synced, only under the partition's lock."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import msgspec
from google_crc32c import value as crc32c

from headwater.core.errors import Damaged, NewerFormat
from headwater.core.files import Files, replace
from headwater.log.embedded.page import CommitPage, SegmentPosition
from headwater.log.layout import U32

FORMAT = 1
NAME = "manifest"
SPARE = ".spare"
_STEM = re.compile(r"(\d{20})(?:-(\d+))?", re.ASCII)


class Segment(msgspec.Struct, frozen=True):
    """One segment file. `length` and `end` are -1 while it is the active one."""

    base: int  # the lowest offset it may hold
    generation: int = 0  # part of the file's name where it is not 0
    length: int = -1  # bytes, once closed
    end: int = -1  # the offset after its last, once closed
    created: int = 0  # milliseconds since 1970
    dense: bool = True  # every offset of [base, end) is there: not so after compaction and import

    @property
    def closed(self) -> bool:
        return self.length >= 0

    @property
    def stem(self) -> str:
        return f"{self.base:020d}-{self.generation}" if self.generation else f"{self.base:020d}"

    def log(self, folder: Path) -> Path:
        return folder / f"{self.stem}.log"

    def pos(self, folder: Path) -> Path:
        """The sidecar: where each record begins, u32 little-endian. It can be made again from the segment."""
        return folder / f"{self.stem}.pos"


_base = attrgetter("base")


def spare(folder: Path, stem: str) -> Path:
    """The file of a segment that is drained, or that has become a spare; no reader opens it."""
    return folder / f"{stem}{SPARE}"


class Manifest(msgspec.Struct, frozen=True):
    """A partition's segments in order, the last one active. `durable` is a lower bound of what is synced."""

    generation: int
    start: int  # the first offset still kept
    segments: list[Segment]
    durable: SegmentPosition
    epoch: int = 0  # the newest claim
    claims: int = 0  # every claim is higher: where the newest one is not known any more, older ones must not be given again
    partition: str = ""  # whose it is, as "topic 0": a folder may be copied or swapped. Manifests of before lack it
    topic: str = ""  # the topic's generation, which a description that is made anew keeps. Manifests of before lack it
    format: int = FORMAT
    drained: list[str] = []  # stems of files that hold deleted records alone, and wait for their disposal
    spares: list[str] = []  # stems of files of zeros that become segments again

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    def segments_from(self, offset: int) -> Iterator[Segment]:
        """The segments that may hold an offset or what lies behind it, in order. Does not look at the others: there may be thousands."""
        first = bisect_right(self.segments, offset, key=_base) - 1
        return map(self.segments.__getitem__, range(max(0, first), len(self.segments)))


class _Format(msgspec.Struct):
    format: int


def load(folder: Path) -> Manifest | None:
    """The manifest in `folder`, or None where there is none.

    Errors: `NewerFormat`, `Damaged`.
    """
    path = folder / NAME
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    body = raw[4:]
    if len(raw) < 8 or U32.unpack(raw[:4])[0] != crc32c(body):
        raise lost(folder, "fails its checksum")
    version = msgspec.json.decode(body, type=_Format).format
    if version > FORMAT:
        raise NewerFormat(f"{path} has format {version}; this headwater knows up to {FORMAT}.", hint="Use a newer headwater.")
    manifest = msgspec.json.decode(body, type=Manifest)
    if manifest.partition not in ("", _name(folder)):
        raise Damaged(
            f"{path} belongs to {manifest.partition}: it, or its folder, was copied or swapped.",
            hint=f"Put what belongs to {_name(folder)} back. If these segments are to become it: "
            f"`headwater log repair {_name(folder)} --rebuild --dry-run` shows what that gives.",
        )
    return manifest


def _name(folder: Path) -> str:
    return f"{folder.parent.name} {folder.name}"


def load_for_reading(folder: Path) -> Manifest | None:
    """As `load`, but None only where there are no records either: without its manifest a full partition would look like an empty one.

    Errors: those of `load`.
    """
    for _ in range(2):  # load again, because a writer may have begun the partition, or removed it, between the two checks
        manifest = load(folder)
        holding = _witness(folder) if manifest is None else None
        if holding is None:
            return manifest
    raise lost(folder, f"is missing, but {holding}")


def _witness(folder: Path) -> str | None:
    """Evidence that a partition without a manifest once had one; None for a partition that was never written."""
    check_folder(folder)
    for path in folder.glob("*.log"):
        if parsed(path.stem) and _holds(path):
            return f"{path.name} holds records"
    try:
        return told_by(CommitPage(Files(), folder / "commit", writable=False))
    except (FileNotFoundError, ValueError):
        return None


def told_by(page: CommitPage) -> str | None:
    """Evidence in a commit page that somebody has written or claimed the partition; None without any."""
    if page.durable_offset:
        return f"the commit page tells of records up to offset {page.durable_offset - 1}"
    return f"the commit page tells of claim {page.epoch}" if page.epoch else None


def lost(folder: Path, what: str) -> Damaged:
    """The error for an unusable manifest."""
    rebuild = f"headwater log repair {_name(folder)} --rebuild --dry-run"
    return Damaged(
        f"{folder / NAME} {what}.",
        hint=f"Restore it from a copy, or make it anew from the segments, which are untouched: `{rebuild}` shows what that gives.",
    )


def parsed(stem: str) -> tuple[int, int] | None:
    """Base and generation of the segment whose file has this name; None for any other file."""
    match = _STEM.fullmatch(stem)
    return (int(match[1]), int(match[2] or 0)) if match else None


def outdated(folder: Path, manifest: Manifest) -> Path | None:
    """A segment that was made after this manifest and holds something; None where there is none, as it should be.

    A segment gets its first byte when the manifest that names it is durable. So this one is older: it was put back from a copy, and
    going by it would remove or overwrite what was acknowledged later. Results of a compaction or an import that died carry a
    generation that this manifest knows.
    """
    named = {segment.stem for segment in manifest.segments}
    for path in sorted(folder.glob("*.log"), reverse=True):
        parts = parsed(path.stem)
        if parts is None or path.stem in named or not _holds(path):
            continue
        base, generation = parts
        if generation > manifest.generation or (not generation and base > manifest.active.base):
            return path
    return None


def check_newest(folder: Path, manifest: Manifest) -> None:
    """Errors: `Damaged` for a manifest that is older than the segments."""
    newer = outdated(folder, manifest)
    if newer is not None:
        raise lost(folder, f"is older than {newer.name}, which it does not name")


def check_folder(folder: Path) -> None:
    """Errors: `Damaged` for a partition whose folder is gone. It is made before its topic's description, so it was there."""
    # The last look is for a topic that was deleted before the first one, and made anew before the second.
    if not folder.is_dir() and (folder.parent / "topic.json").exists() and not folder.is_dir():
        raise Damaged(
            f"{folder} is missing, and with it every record of the partition.",
            hint=f"Restore it from a copy; without one, `mkdir {folder}` lets the partition begin anew, empty.",
        )


def _holds(path: Path) -> bool:
    """Whether a record begins where the file does: zeros may have been written ahead of the first one."""
    try:
        with path.open("rb") as file:
            return bool(file.read(64).strip(b"\0"))
    except FileNotFoundError:
        return False


def save(files: Files, folder: Path, manifest: Manifest) -> None:
    """Replace the manifest, all or nothing, and durable."""
    body = msgspec.json.encode(msgspec.structs.replace(manifest, partition=_name(folder)))
    replace(files, folder / NAME, U32.pack(crc32c(body)) + body)
