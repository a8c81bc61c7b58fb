"""Pipelines that keep their log in a directory of their own (`log_dir`): where, noted in the data directory that they are run with.

Without the note nobody who looks at that data directory (`headwater pipeline list`, a server, an operator) would know of them. The note
is a file, `<data>/pipelines/NAME.json`, written when such a pipeline is run, and taken away when it is run without a `log_dir`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.core.errors import NotFound
from headwater.core.files import Files, explained, make_dirs, replace
from headwater.log.address import LogAddress

FOLDER = "pipelines"


class LogDirNote(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pipeline keeps its log."""

    log_dir: str


def remember(data: Path, pipeline: str, log_dir: Path | None) -> None:
    """LogDirNote where a pipeline that is about to run keeps its log; None: in the data directory. Errors: those of the disk."""
    path = data / FOLDER / f"{pipeline}.json"
    try:
        if log_dir is None:
            path.unlink(missing_ok=True)
        elif _read(path) != log_dir:
            files = Files()
            make_dirs(files, path.parent)
            replace(files, path, msgspec.json.encode(LogDirNote(log_dir=str(log_dir))))
    except OSError as error:
        raise explained(error, path) from error


def log_dirs(data: str | Path) -> dict[str, Path]:
    """The directories of all pipelines that are noted, by name. A note that cannot be read is none."""
    if not str(data):
        return {}
    folders = {path.stem: _read(path) for path in sorted((Path(data) / FOLDER).glob("*.json"))}
    return {name: folder for name, folder in folders.items() if folder is not None}


def address(pipeline: str, log_dir: Path) -> LogAddress:
    """The log of a pipeline that is noted. Errors: `NotFound` where its directory is gone."""
    if not log_dir.is_dir():
        raise NotFound(
            f"Pipeline {pipeline} keeps its log in {log_dir}, which is not there.",
            hint="Bring it back; or, if it is somewhere else now, name that directory with --data.",
        )
    return LogAddress(path=str(log_dir))


def _read(path: Path) -> Path | None:
    try:
        return Path(msgspec.json.decode(path.read_bytes(), type=LogDirNote).log_dir)
    except (OSError, msgspec.MsgspecError):
        return None
