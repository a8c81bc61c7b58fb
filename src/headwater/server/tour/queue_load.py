"""What the tour's workers do with a row: they note that it runs, and one of them kills itself in the midst of its row."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Any

FATAL = "page:/13"
NOTES = "ran.txt"
_WORK = 0.005  # seconds that a page takes


def rebuild(row: Any) -> None:
    """Rebuild a page. A lock by key, which ends with its process however that ends, shows whether another process runs it, too."""
    folder = Path.cwd()
    with (folder / f"lock-{row.id}").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            note(folder, f"twice {row.key}")
            return
        note(folder, f"began {row.key}")
        if row.key == FATAL and row.attempts == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(_WORK)
        note(folder, f"built {row.key}")


def note(folder: Path, text: str) -> None:
    """Append a line, in one write."""
    with (folder / NOTES).open("ab", buffering=0) as file:
        file.write(f"{text}\n".encode())
