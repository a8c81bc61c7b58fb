"""A file system for SQLite that fails: the Nth call that changes the disk, or it and all that follow; or ends the process there.

with FailingVfs(fail_at=7) as vfs:
    Database(path, synced=True, vfs=vfs.name)
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import apsw

CHANGES = ("write", "sync", "truncate", "delete")


class FailingVfs(apsw.VFS):
    """Counts writes, syncs, truncations and deletions, and fails one of them. A failing write writes half of its bytes first.

    `forever`: so do all that follow. `dies`: the process ends there, as by kill -9. `only` narrows what is counted.
    """

    def __init__(self, fail_at: int = 0, *, forever: bool = False, dies: bool = False, only: tuple[str, ...] = CHANGES) -> None:
        self.name = f"failing-{uuid.uuid4().hex}"
        self.fail_at, self.forever, self.dies, self.only = fail_at, forever, dies, only
        self.calls = 0
        self.failed: list[str] = []
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> FailingFile:  # noqa: N802
        return FailingFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.count("delete", apsw.IOError, lambda: None)
        super().xDelete(filename, syncdir)

    def count(self, what: str, error: type[apsw.Error], first: Callable[[], None]) -> None:
        """Count one call; fail where this is the one, after having done `first`."""
        if what not in self.only:
            return
        self.calls += 1
        if self.fail_at and (self.calls == self.fail_at or (self.forever and self.calls > self.fail_at)):
            self.failed.append(what)
            first()
            if self.dies:
                os.kill(os.getpid(), 9)
            raise error(f"injected: {what} {self.calls}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.unregister()


class FailingFile(apsw.VFSFile):
    """A file of a `FailingVfs`."""

    def __init__(self, vfs: FailingVfs, name: Any, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        half = bytes(data)[: len(data) // 2]
        self._vfs.count("write", apsw.IOError, lambda: apsw.VFSFile.xWrite(self, half, offset))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._vfs.count("sync", apsw.IOError, lambda: None)
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._vfs.count("truncate", apsw.IOError, lambda: None)
        super().xTruncate(newsize)
