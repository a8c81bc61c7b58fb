"""File systems that fail: the Nth call, every call from the Nth on, the process, or the power.

files = FailingFiles(fail_at=7)          # the 7th call that changes the disk raises EIO
files = DyingFiles(7)                    # the process ends before the 4th call, as by kill -9
files = UnpoweredFiles(); …; files.cut(folder, into=other, random=Random(1))
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from headwater.core.files import Bytes, Files
from headwater.log.embedded.log import EmbeddedLog

T = TypeVar("T")
PAGE = 4096
CHANGES = ("pwritev", "truncate", "datasync", "sync", "rename", "unlink", "link", "mkdir", "rmdir")


class FailingFiles(Files):
    """Counts the calls that change the disk, and fails one of them, or it and all that follow.

    `only` narrows what is counted. A failing write writes `torn` of its bytes first: half of them by default, which is what full disks do.
    """

    def __init__(
        self, fail_at: int = 0, *, forever: bool = False, number: int = errno.EIO, only: Collection[str] = CHANGES, torn: float = 0.5
    ) -> None:
        self.fail_at, self.forever, self.number, self.only, self.torn = fail_at, forever, number, only, torn
        self.calls = 0
        self.failed: list[str] = []

    def _fails(self, name: str) -> bool:
        if name not in self.only:
            return False
        self.calls += 1
        hit = self.fail_at > 0 and (self.calls == self.fail_at or (self.forever and self.calls > self.fail_at))
        if hit:
            self.failed.append(name)
        return hit

    def _or_fail(self, name: str, call: Callable[[], T]) -> T:
        if self._fails(name):
            raise OSError(self.number, os.strerror(self.number))
        return call()

    def pwritev(self, fd: int, parts: Sequence[Bytes], position: int) -> int:
        if self._fails("pwritev"):
            whole = b"".join(parts)
            if self.torn and self.number != errno.EROFS:
                super().pwritev(fd, [whole[: int(len(whole) * self.torn)]], position)
            raise OSError(self.number, os.strerror(self.number))
        return super().pwritev(fd, parts, position)

    def truncate(self, fd: int, length: int) -> None:
        self._or_fail("truncate", lambda: Files.truncate(self, fd, length))

    def datasync(self, fd: int) -> None:
        self._or_fail("datasync", lambda: Files.datasync(self, fd))

    def sync(self, fd: int) -> None:
        self._or_fail("sync", lambda: Files.sync(self, fd))

    def rename(self, old: Path, new: Path) -> None:
        self._or_fail("rename", lambda: Files.rename(self, old, new))

    def unlink(self, path: Path) -> None:
        self._or_fail("unlink", lambda: Files.unlink(self, path))

    def link(self, old: Path, new: Path) -> None:
        self._or_fail("link", lambda: Files.link(self, old, new))

    def mkdir(self, path: Path) -> None:
        self._or_fail("mkdir", lambda: Files.mkdir(self, path))

    def rmdir(self, path: Path) -> None:
        self._or_fail("rmdir", lambda: Files.rmdir(self, path))


class DyingFiles(FailingFiles):
    """Ends the process, as by kill -9, at the Nth moment: there is one before each call that changes the disk, one after it, and one in the
    midst of a write, when half of its bytes are written. `only` narrows which calls have moments; 0: it never dies.
    """

    def __init__(self, die_at: int = 0, *, only: Collection[str] = CHANGES) -> None:
        super().__init__(die_at, only=only)

    def _or_fail(self, name: str, call: Callable[[], T]) -> T:
        self._moment(name)
        done = call()
        self._moment(name)
        return done

    def pwritev(self, fd: int, parts: Sequence[Bytes], position: int) -> int:
        self._moment("pwritev")
        if "pwritev" in self.only and self.calls + 1 == self.fail_at:
            whole = b"".join(parts)
            Files.pwritev(self, fd, [whole[: len(whole) // 2]], position)
        self._moment("pwritev")
        done = Files.pwritev(self, fd, parts, position)
        self._moment("pwritev")
        return done

    def _moment(self, name: str) -> None:
        if self._fails(name):
            os.kill(os.getpid(), signal.SIGKILL)


class UnpoweredFiles(Files):
    """Remembers what has been synced, so that `cut` can build the disk that a loss of power would leave.

    Bytes are durable by `datasync` or `sync` of their file, names by `sync_dir` of their directory. Everything else may or may not be
    there, page by page. What is changed through memory maps, the commit page, is never synced.
    """

    def __init__(self) -> None:
        self._bytes: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}

    def datasync(self, fd: int) -> None:
        super().datasync(fd)
        self._remember(fd)

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._remember(fd)

    def _remember(self, fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}")  # the descriptor itself may be for writing alone
        if not path.is_dir():
            self._bytes[os.fstat(fd).st_ino] = path.read_bytes()

    def sync_dir(self, path: Path) -> None:
        super().sync_dir(path)
        self._names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}

    def cut(self, folder: Path, *, into: Path, random: Random) -> None:
        """Write into `into` what `folder` could look like after the power went now."""
        living = {entry.name: entry.inode() for entry in os.scandir(folder)}
        now = {entry.inode(): Path(entry.path) for entry in os.scandir(folder)}
        durable = self._names.get(folder, {})
        # Each name that was not synced is on disk or not, and so is each that was removed or now means another file.
        names = {}
        for name in sorted({*living, *durable}):
            number = random.choice([living.get(name), durable.get(name)])
            if number is not None:
                names[name] = number
        into.mkdir(parents=True, exist_ok=True)
        for name, number in names.items():
            path = now.get(number)
            if path is not None and path.is_dir():
                self.cut(path, into=into / name, random=random)
            elif name in ("lock", "live"):
                (into / name).touch()
            else:
                (into / name).write_bytes(self._left_over(number, path, name, random))

    def _left_over(self, number: int, path: Path | None, name: str, random: Random) -> bytes:
        durable = self._bytes.get(number, b"")
        if path is None:
            return durable  # unlinked since: the name came back with what was synced
        current = path.read_bytes()
        if name == "commit":
            return random.choice([b"", bytes(PAGE), current])
        length = random.choice(
            [len(durable), len(current), random.randint(min(len(durable), len(current)), max(len(durable), len(current)))]
        )
        if len(current) < len(durable):
            length = random.choice([len(durable), len(current)])  # a truncation that may not have reached the disk
        image = bytearray(durable[:length].ljust(length, b"\0"))
        for at in range(0, length, PAGE):
            if random.random() < 0.5:  # this page was written back before the power went
                page = current[at : min(at + PAGE, length)]
                image[at : at + len(page)] = page
        return bytes(image)


def crash(log: EmbeddedLog) -> None:
    """What a killed process leaves: nothing is settled, written or unlocked; the system closes its descriptors."""
    log._keeper.stop()
    log._forget()
