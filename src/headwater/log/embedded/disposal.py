"""Disposal of drained segments, those whose records are all deleted: their files are removed, or zeroed and kept to become later segments.

Each step can be done again after a crash or an error in any of them; the manifest says how far a file has come:

1. The manifest no longer names the segment, and names its file as drained.
2. The file gets a name that readers do not open.
3. Lock the file. Where somebody still reads it, it stays drained, and is tried again (`Keeper`, the next deletion, the next opening).
4. Overwrite it, or cut it to three blocks of zeros, and sync it; the sidecar, too.
5. The manifest names it as a spare, or no longer at all.
6. Unlink what is not kept.

Steps 1, 2, 3, 5 and 6 are done under the partition's lock, so that no file is treated by two processes, and none that a process deleted
with its topic is taken for one of the topic that has its path now. Step 4, which may take long, lets appends go on. A topic that only
deletes its segments has none of this: it unlinks them after step 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headwater.core.disposal import Disposal, overwrites, recycles, shortens
from headwater.core.errors import HeadwaterError
from headwater.core.files import FileLock, Files, write_all
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.segment import create
from headwater.log.embedded.segment_lock import lock_alone
from headwater.log.embedded.wiping import discard, overwrite, wipe

if TYPE_CHECKING:
    from headwater.log.embedded.state import PartitionState

SPARES = 4  # the most files that wait to be recycled: more would only keep space from others
BLOCKS = 3 * 4096  # bytes of a file that was cut down
_AT_ONCE = 16  # files that are treated between two changes of the manifest


class Removal(NamedTuple):
    """Segments on their way out: files to be treated, by their stems, and those that are unlinked at once."""

    drained: list[str]
    unlinked: Sequence[Segment]


def removal(disposal: Disposal, now: Manifest, gone: Sequence[Segment]) -> Removal:
    """Step 1, as it is written to the manifest: which of the segments become drained files."""
    if overwrites(disposal):
        return Removal([*now.drained, *(segment.stem for segment in gone)], [])
    room = max(0, SPARES - len(now.spares) - len(now.drained)) if recycles(disposal) else 0
    kept = gone[max(0, len(gone) - room) :] if room else []
    return Removal([*now.drained, *(segment.stem for segment in kept)], gone[: len(gone) - len(kept)])


def take_away(files: Files, folder: Path, out: Removal) -> None:
    """Step 2, when the manifest is in place. What fails here is done by `dispose`."""
    discard(files, folder, out.unlinked)
    for stem in out.drained:
        with suppress(OSError):
            _rename(files, folder, stem)


def _rename(files: Files, folder: Path, stem: str) -> None:
    log = folder / f"{stem}.log"
    if log.exists():
        files.rename(log, manifests.spare(folder, stem))


def dispose(partition: PartitionState) -> None:
    """Steps 2 to 6 for all drained files that nobody reads. Not under the lock. An error leaves them for the next time."""
    disposal = partition.settings.disposal
    tried: set[str] = set()
    with suppress(HeadwaterError, OSError):
        while True:
            with _locked(partition, tried) as files:
                if not files:
                    break
                for file in files:
                    if (refused := file.treat(partition.files, disposal)) and overwrites(disposal):
                        partition.refused(manifests.spare(partition.folder, file.stem).name, refused)
                _finish(partition, files)
    if overwrites(disposal):
        with suppress(HeadwaterError, OSError):
            _wipe_cuts(partition)


class _DrainedFile:
    """A drained file that is locked and open. `done`: it has been treated; `kept`: it may become a spare."""

    def __init__(self, stem: str, lock: FileLock, fd: int, pos_fd: int) -> None:
        self.stem, self.lock, self._fd, self._pos_fd = stem, lock, fd, pos_fd
        self.done = self.kept = False

    def treat(self, files: Files, disposal: Disposal) -> str:
        """Step 4. An error leaves the file drained, where its bytes have to be overwritten; otherwise it is not kept.

        Returns why it was not treated as it should be; "" where it was.
        """
        status = os.fstat(self._fd)
        alone = status.st_nlink == 1  # else a copy by hard link, as backups and `repair` make them, would be zeroed and recycled, too
        try:
            if alone and (overwrites(disposal) or (recycles(disposal) and not shortens(disposal))):
                overwrite(files, self._fd, status.st_size)
            if overwrites(disposal) and self._pos_fd >= 0:
                overwrite(files, self._pos_fd, os.fstat(self._pos_fd).st_size)
            self.done = True
            if alone and shortens(disposal):
                files.truncate(self._fd, 0)
                write_all(files, self._fd, [bytes(BLOCKS)], 0)
                files.sync(self._fd)
            self.kept = alone and recycles(disposal) and status.st_size > 0
        except OSError as error:
            self.done = self.done or not overwrites(disposal)
            return str(error.strerror)
        return "" if alone else "the file has another name, as a backup by hard links makes it"

    def close(self, files: Files) -> None:
        self.lock.close()
        for fd in (self._fd, self._pos_fd):
            if fd >= 0:
                files.close(fd)
        self._fd = self._pos_fd = -1


@contextmanager
def _locked(partition: PartitionState, tried: set[str]) -> Iterator[list[_DrainedFile]]:
    """Steps 2 and 3: some drained files that nobody reads, open. `tried`: those that have had their turn."""
    files, folder = partition.files, partition.folder
    opened: list[_DrainedFile] = []
    try:
        with partition.changing() as now:
            lost = []
            for stem in now.drained:
                if stem in tried:
                    continue
                if len(opened) == _AT_ONCE:
                    break
                tried.add(stem)
                path = manifests.spare(folder, stem)
                try:
                    _rename(files, folder, stem)
                    lock = lock_alone(files, path)
                    if lock is not None:
                        opened.append(_opened(files, folder, stem, lock))
                    elif not path.exists():
                        lost.append(stem)
                except OSError as error:  # one file that cannot be opened does not keep the others
                    if overwrites(partition.settings.disposal):
                        partition.refused(path.name, str(error.strerror))
            if lost:  # by a power cut after step 6, or somebody has removed them
                partition.replace(now, drained=[stem for stem in now.drained if stem not in lost])
        yield opened
    finally:
        for file in opened:
            file.close(files)


def _opened(files: Files, folder: Path, stem: str, lock: FileLock) -> _DrainedFile:
    fd = pos_fd = -1
    try:
        fd = files.open(manifests.spare(folder, stem), os.O_RDWR)
        with suppress(FileNotFoundError):
            pos_fd = files.open(folder / f"{stem}.pos", os.O_RDWR)
    except BaseException:
        lock.close()
        if fd >= 0:
            files.close(fd)
        raise
    return _DrainedFile(stem, lock, fd, pos_fd)


def _finish(partition: PartitionState, treated: list[_DrainedFile]) -> None:
    """Steps 5 and 6. The files' locks are released before the partition's: a spare may become a segment from then on, and be read."""
    files, folder = partition.files, partition.folder
    with partition.changing() as now:
        done = [file for file in treated if file.done and file.stem in now.drained]
        if not done:
            return
        room = max(0, SPARES - len(now.spares))
        kept = [file.stem for file in done if file.kept][:room]
        gone = {file.stem for file in done}
        partition.replace(now, drained=[stem for stem in now.drained if stem not in gone], spares=[*now.spares, *kept])
        for file in done:
            file.close(files)
            for path in (folder / f"{file.stem}.pos", manifests.spare(folder, file.stem)):
                if path.suffix == ".pos" or file.stem not in kept:
                    with suppress(OSError):
                        files.unlink(path)


def _wipe_cuts(partition: PartitionState) -> None:
    """Overwrite and remove the side files of recovery and repair that begin below everything that is kept: they are copies of records."""
    with partition.changing() as now:
        first = min(now.segments[0].base, now.start)
        for path in list(partition.folder.glob("*.cut")):
            segment = manifests.parsed(path.name.partition(".")[0])
            if segment is not None and segment[0] < first and not wipe(partition.files, path):
                partition.refused(path.name, "somebody reads it, or the disk refuses")


class Following(NamedTuple):
    """The next segment, whose files are there, and the spares that are left."""

    segment: Segment
    spares: list[str]


def next_segment(partition: PartitionState, now: Manifest, offset: int) -> Following:
    """Create the segment that begins at `offset`, of a spare where there is one. Errors: `OSError`.

    A spare is full of zeros, and they are synced. It gets a name that no segment has had. A death between this and the manifest leaves
    a file without a record, which the next opening removes, and a manifest that names a spare which is not there: that one is passed over.
    """
    files, folder, created = partition.files, partition.folder, partition.clock.now_ms()
    for number, stem in enumerate(now.spares):
        path = manifests.spare(folder, stem)
        if path.exists():
            segment = Segment(offset, now.generation + 1, created=created)
            files.rename(path, segment.log(folder))
            create(files, folder, segment, recycled=True)
            return Following(segment, now.spares[number + 1 :])
    segment = Segment(offset, created=created)
    create(files, folder, segment)
    return Following(segment, [])


def sweep(files: Files, folder: Path, now: Manifest, disposal: Disposal) -> None:
    """Remove files that the manifest does not name: leftovers of a dead roll, compaction or replacement, and spares that were not kept."""
    named = {segment.stem for segment in now.segments} | set(now.drained)
    spares = {*now.spares, *now.drained}
    for path in list(folder.iterdir()):
        ours = manifests.parsed(path.stem) is not None  # keep foreign files
        left = (path.suffix in (".log", ".pos") and path.stem not in named) or (path.suffix == manifests.SPARE and path.stem not in spares)
        if path.name == f"{manifests.NAME}.tmp":
            files.unlink(path)
        elif ours and left and overwrites(disposal):
            wipe(files, path)
        elif ours and left:
            files.unlink(path)
