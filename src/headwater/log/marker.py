"""The file that names the engine of a data directory, so that the other engine refuses the directory."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.core.errors import BadInput, Damaged, NewerFormat, WrongEngine
from headwater.core.files import Files, make_dirs, replace

FORMAT = 1


class _Marker(msgspec.Struct, frozen=True):
    engine: str
    format: int


def check_engine(data: Path, engine: str = "embedded") -> None:
    """Errors: `WrongEngine` where the other engine has made `data`, `NewerFormat`, and `BadInput` for what is no data directory."""
    path = data / "log" / "engine.json"
    if data.exists() and not data.is_dir():
        raise BadInput(f"{data} is not a directory.", hint="Name the data directory, which `headwater serve` creates.")
    try:
        marker = msgspec.json.decode(path.read_bytes(), type=_Marker)
    except FileNotFoundError:
        if data.is_dir() and any(len(path.stem) == 20 and path.stem.isdigit() for path in data.glob("*.log")):
            raise WrongEngine(f"{data} holds another program's log.", hint=f"Import it with `headwater log import {data} TOPIC`.") from None
        return
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged(f"{path} cannot be read: {error}.", hint="Restore it from a copy.") from error
    if marker.format > FORMAT:
        raise NewerFormat(f"{data} has format {marker.format}; this headwater knows up to {FORMAT}.", hint="Use a newer headwater.")
    if marker.engine != engine:
        raise WrongEngine(
            f"{data} belongs to the {marker.engine} engine, not to {engine}.",
            hint=f'Set log.engine = "{marker.engine}", or name another data directory.',
        )


def mark_engine(data: Path, files: Files, engine: str) -> None:
    """Write the engine's name into the directory. Only the first topic's creation writes it."""
    check_engine(data, engine)
    path = data / "log" / "engine.json"
    if not path.exists():
        make_dirs(files, path.parent)
        replace(files, path, msgspec.json.encode(_Marker(engine, FORMAT)) + b"\n")
