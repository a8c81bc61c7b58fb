"""Rebuilds a lost manifest from the names of the segment files, their batches, and the durable ends in them.

It deletes nothing. Of overlapping files it uses those that together hold the most, and keeps the others under other names.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Damaged
from headwater.core.files import Files
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.candidate import Candidate, candidate
from headwater.log.embedded.check import Damage
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.offline import offline, stored_page
from headwater.log.embedded.page import CommitPage, SegmentPosition
from headwater.log.embedded.segment import create


class RebuiltSegment(msgspec.Struct, frozen=True):
    """A segment of the new manifest: offsets [first, end), of which `records` are there."""

    file: str
    first: int
    end: int
    records: int


class Rebuilt(msgspec.Struct, frozen=True):
    """What a rebuild has done, or with `dry_run` would do."""

    partition: str
    whole: bool  # the manifest was there, and was left alone
    start: int
    end: int
    epoch: int
    segments: list[RebuiltSegment]
    missing: list[tuple[int, int]]  # offsets [first, end) that no segment holds: lost now, or cut out, deleted or compacted before
    damage: list[Damage]  # what `repair --cut` has to see to afterwards
    side_files: list[str]  # where the files are kept that do not count


class _Plan(NamedTuple):
    manifest: Manifest
    chosen: list[Candidate]
    unused: list[Path]
    report: Rebuilt


class _Known(NamedTuple):
    """What the commit page knows, where it is of this boot."""

    durable: SegmentPosition
    generation: int


def rebuild(folder: Path, *, name: str, files: Files, clock: Clock, boot: bytes, dry_run: bool = False) -> Rebuilt:
    """Make the manifest of a partition that nobody has open. One that is whole, and not older than the segments, is left alone.

    Errors: `Conflict` while another process has it open; `NewerFormat`. A crash in the middle leaves no manifest, or the new one.
    """
    with offline(folder, name=name, files=files, dry_run=dry_run):
        try:
            now = manifests.load(folder)
        except Damaged:
            now = None
        if now is not None and manifests.outdated(folder, now) is None:
            return Rebuilt(name, True, now.start, now.durable.offset, now.epoch, [], [], [], [])
        plan = _plan(folder, name, clock, stored_page(files, folder), boot)
        if not dry_run:
            _carry_out(folder, files, plan, boot)
        return plan.report


def _plan(folder: Path, name: str, clock: Clock, page: CommitPage | None, boot: bytes) -> _Plan:
    known, epoch = _Known(SegmentPosition(0, 0, 0), 0), 0
    if page is not None and page.boot == boot and page.sound:
        known, epoch = _Known(page.durable, page.generation), page.epoch
    elif page is not None and page.epoch:
        # Claimed before the machine was started, and the page may be older than the newest claim: an epoch that nobody has lets nobody in.
        epoch = clock.now_ms()
    names = sorted(parts for path in folder.glob("*.log") if (parts := manifests.parsed(path.stem)) is not None)
    if page is not None and not names and page.sound:
        known = _Known(page.durable, page.generation)  # of an earlier boot it is a lower bound, and the only one where nothing is left
    candidates = [candidate(folder, base, generation) for base, generation in names]
    chosen = _chosen([readable for readable in candidates if readable.records])
    generation = 1 + max([known.generation, *(generation for _, generation in names)])
    highest = max([known.durable.offset, *(base for base, _ in names)])
    segments = [_closed(taken, following.segment.base) for taken, following in pairwise(chosen)]
    if chosen and _goes_on(chosen[-1], known.durable, highest):
        segments.append(chosen[-1].segment)
        durable = SegmentPosition(chosen[-1].segment.base, chosen[-1].intact, chosen[-1].following)
    else:
        end = max([highest, *(last.end for last in chosen[-1:])])
        segments += [_closed(last, end) for last in chosen[-1:]]
        segments.append(Segment(end, generation, created=clock.now_ms()))
        durable = SegmentPosition(end, 0, end)
    manifest = Manifest(generation, segments[0].base, segments, durable, epoch, claims=max(epoch, clock.now_ms()))
    unused = [unwanted.segment.log(folder) for unwanted in candidates if unwanted.holds and unwanted not in chosen]
    return _Plan(manifest, chosen, unused, _report(folder, name, manifest, chosen, unused, known.durable.offset))


def _goes_on(last: Candidate, durable: SegmentPosition, highest: int) -> bool:
    """Whether appends may go on in the last segment: it has no holes, and nothing durable has ever stood in one behind it."""
    if durable.offset > last.end:
        return last.segment.dense and durable.base == last.segment.base  # what is missing of it is for `repair --cut` to say
    return last.segment.dense and highest <= last.end


def _chosen(candidates: list[Candidate]) -> list[Candidate]:
    """Those that do not overlap and cover the most offsets.

    Among equals: those with the most records, so the sources go before what a crashed compaction made of them; then those with the fewest
    damaged places, so the pieces of a crashed repair go before the segment that it cut; then the older ones.
    """
    ordered = sorted(candidates, key=lambda other: (other.end, other.segment.base))
    ends = [other.end for other in ordered]
    best: list[_Choice] = [_Choice((0, 0, 0, 0), None, None)]
    for number, tried in enumerate(ordered):
        before = best[bisect_right(ends, tried.segment.base, 0, number)]
        adds = (tried.covered, tried.records, -len(tried.damage), -tried.segment.generation)
        with_it = _Choice(tuple(map(sum, zip(before.worth, adds, strict=True))), tried, before)
        best.append(max(with_it, best[-1], key=lambda choice: choice.worth))
    chosen: list[Candidate] = []
    choice: _Choice | None = best[-1]
    while choice is not None and choice.last is not None:
        chosen.append(choice.last)
        choice = choice.before
    return chosen[::-1]


class _Choice(NamedTuple):
    """Segments that do not overlap, as a list from the last to the first."""

    worth: tuple[int, ...]
    last: Candidate | None
    before: _Choice | None


def _closed(closing: Candidate, following: int) -> Segment:
    """A segment's entry, where the one behind it begins at offset `following`."""
    if closing.damage and not (closing.torn and closing.end == following):
        # What is missing may stand behind the damage: the entry reaches to the next segment, so that every reader meets the damage.
        return msgspec.structs.replace(closing.segment, length=closing.size, end=following)
    return msgspec.structs.replace(closing.segment, length=closing.position, end=closing.end)


def _report(folder: Path, name: str, manifest: Manifest, chosen: list[Candidate], unused: list[Path], known: int) -> Rebuilt:
    at, missing = manifest.start if chosen else 0, []
    for taken in chosen:
        if taken.segment.base > at:
            missing.append((at, taken.segment.base))
        at = max(at, taken.end)
    end = max(at, manifest.durable.offset, known)
    if end > at:
        missing.append((at, end))
    damage = []
    for segment, taken in zip(manifest.segments, chosen, strict=False):
        # A torn tail is no damage: behind a closed segment it does not count, and in the active one whoever opens it moves it aside.
        counts = segment.length == taken.size if segment.closed else known > taken.end
        damage += taken.damage if counts or not taken.torn else taken.damage[:-1]
    side_files = [str(folder / _side_name(folder, path)) for path in unused]
    if (folder / manifests.NAME).exists():
        side_files.append(str(folder / _side_name(folder, folder / manifests.NAME)))
    shown = [
        RebuiltSegment(str(taken.segment.log(folder)), taken.segment.base, segment.end if segment.closed else taken.end, taken.records)
        for segment, taken in zip(manifest.segments, chosen, strict=False)
    ]
    return Rebuilt(name, False, manifest.start, end, manifest.epoch, shown, missing, damage, side_files)


def _side_name(folder: Path, path: Path) -> str:
    """A free name that no opening removes."""
    stem = path.stem
    number = 1
    while (folder / f"{stem}.unused-{number}.cut").exists():
        number += 1
    return f"{stem}.unused-{number}.cut"


def _carry_out(folder: Path, files: Files, plan: _Plan, boot: bytes) -> None:
    for path in plan.unused:  # 1. Out of the way of the next opening, which removes segment files that the manifest does not name.
        files.rename(path, folder / _side_name(folder, path))
    if (folder / manifests.NAME).exists():
        files.link(folder / manifests.NAME, folder / _side_name(folder, folder / manifests.NAME))
    for taken in plan.chosen:
        fd = files.open(taken.segment.log(folder), os.O_RDWR)
        try:
            files.sync(fd)  # 2. The manifest calls them durable.
        finally:
            files.close(fd)
    active = plan.manifest.active
    if not active.log(folder).exists():
        create(files, folder, active)
    files.sync_dir(folder)
    manifests.save(files, folder, plan.manifest)  # 3. From here on the partition has a manifest.
    page = stored_page(files, folder)
    if page is not None and page.boot == boot:
        writable = CommitPage(files, folder / "commit", writable=True)
        writable.generation = plan.manifest.generation  # readers that hold the lost manifest read the new one
