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
        if row.key == FATAL and _first(folder):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(_WORK)
        note(folder, f"built {row.key}")


def _first(folder: Path) -> bool:
    """Whether nobody has asked before. The row's attempts do not say it: a claim that came too late to be run counts, too."""
    try:
        (folder / "killed").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def note(folder: Path, text: str) -> None:
    """Append a line, in one write."""
    with (folder / NOTES).open("ab", buffering=0) as file:
        file.write(f"{text}\n".encode())
