"""Functions for workers of queues: they note what they run, and whether a key is ever run twice at once."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Any


def _note(text: str) -> None:
    with open("ran.txt", "ab", buffering=0) as file:
        file.write(f"{text}\n".encode())


def note(row: Any) -> None:
    """One line for each run."""
    _note(f"{os.getpid()} {row.key}")


async def note_async(row: Any) -> None:
    """The same in asyncio."""
    note(row)


def alone(row: Any) -> None:
    """Notes `twice` where another process runs the key at this moment; the lock ends with its process, however that ends."""
    with Path(f"lock-{row.key}").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _note(f"twice {row.key}")
            return
        _note(f"{os.getpid()} {row.key}")
        time.sleep(0.01)


def hangs(row: Any) -> None:
    """Never ends, except where the file `go` is there."""
    _note(f"{os.getpid()} {row.key}")
    while not Path("go").exists():
        time.sleep(0.01)


def fails(row: Any) -> None:
    raise ValueError(f"no page {row.key}")
