"""What this process has open, for tests that must not count what others leave behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def descriptors() -> Iterator[str]:
    """What each descriptor is open on: a path, or the kernel's name for it."""
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # another thread has closed it, or it was this list's own
            yield os.readlink(f"/proc/self/fd/{fd}")


def open_below(folder: Path) -> int:
    """How many files and folders below a folder are open. What earlier tests have left is freed at any moment, and is not counted."""
    return sum(link.startswith(f"{folder}/") for link in descriptors())
