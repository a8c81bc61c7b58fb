"""Exclusive access to a partition that no process has open, for `repair`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headwater.core.errors import Conflict
from headwater.core.files import FileLock, Files, explaining
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.page import CommitPage


@contextmanager
def offline(folder: Path, *, name: str, files: Files, dry_run: bool) -> Iterator[None]:
    """Keep other processes from opening the partition. With `dry_run`, creates no lock file: without the file nobody holds the lock.

    Errors: `Conflict` while another process has it open; `Damaged` where there is no such folder; what the system refuses, as ours.
    """
    with explaining(folder, reading=dry_run), ExitStack() as stack:
        manifests.check_folder(folder)
        for number, file in enumerate(("lock", "live")):
            try:
                lock = FileLock(files, folder / file, create=not dry_run)
            except FileNotFoundError:
                continue
            stack.callback(lock.close)
            if number == 0:
                lock.exclusive()
            elif not lock.try_exclusive():
                raise Conflict(
                    f"{name} is in use.", hint="Stop every process that has it open, `headwater serve` among them, then repair it."
                )
        yield


def stored_page(files: Files, folder: Path) -> CommitPage | None:
    """The commit page as it is on disk, not to be changed; None where there is none, or only a part of one."""
    try:
        return CommitPage(files, folder / "commit", writable=False)
    except (FileNotFoundError, ValueError):
        return None
