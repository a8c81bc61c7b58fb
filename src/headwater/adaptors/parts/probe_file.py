"""A small file that a task leaves where it will write, and that the run must find there: see `SinkAdaptor.probe`."""

from __future__ import annotations

from pathlib import Path

from headwater.core.files import Files, explained, replace


def leave(files: Files, path: Path) -> str:
    """Make the file; return its name. Errors: `Unavailable`."""
    try:
        replace(files, path, b"")
    except OSError as error:
        raise explained(error, path) from error
    return path.name


def taken(files: Files, path: Path) -> bool:
    """Whether the file is there; removes it."""
    if not path.exists():
        return False
    files.unlink(path)
    return True
