"""Files and folders as places: by their real paths, and by their inodes, which hard links have in common."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from headwater.adaptors.file.formats import collection
from headwater.pipeline.location import FILES, Location
from headwater.pipeline.namespaces import Namespaces

INODES, PATTERNS = "inodes", "patterns"
_WILD = "*?["


def file_locations(path: Path) -> list[Location]:
    """One file, which need not be there."""
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError:
        return [Location(FILES, real)]
    return [Location(FILES, real), Location(INODES, f"{status.st_dev}:{status.st_ino}")]


def folder_location(path: Path, chosen: Namespaces | None = None) -> Location:
    """Everything in a folder."""
    return Location(FILES, os.path.join(os.path.realpath(path), ""), within=True, chosen=chosen)


def read_locations(path: Path, files: Iterable[Path], chosen: Namespaces) -> list[Location]:
    """What a source reads: the files that are there, and those that would be found in its folder, or by its pattern, later."""
    places = [place for file in files for place in file_locations(file)]
    if path.is_dir():
        places.append(folder_location(path, chosen))
    elif not path.exists() and any(c in str(path) for c in _WILD):
        plain = _plain(path.parts)
        places.append(Location(PATTERNS, os.path.join(os.path.realpath(Path(*plain)), *path.parts[len(plain) :]), chosen=chosen))
    return places


def writes_file(path: Path, reads: Sequence[Location]) -> bool:
    """Whether a sink that writes one file writes to what is read, or would be read."""
    mine = file_locations(path)
    return any(place in mine or _finds(place, mine[0].name) for place in reads)


def writes_folder(path: Path, part: str, reads: Sequence[Location]) -> bool:
    """Whether what is read lies in the folder that a sink writes, or its parts would be read. `part`: a part's name."""
    mine = folder_location(path).name
    return any((place.system == FILES and place.name.startswith(mine)) or _finds(place, mine + part) for place in reads)


def is_work(path: Path) -> bool:
    """Whether a path lies in the folder of a sink's unfinished work: `.headwater` in a folder of parts, `.NAME.headwater` beside a file."""
    return any(name.startswith(".") and name.endswith(".headwater") for name in path.parts)


def _finds(place: Location, path: str) -> bool:
    """Whether a source that reads this folder or pattern would read a new file of this path."""
    if place.chosen is None:
        return False
    if place.system == FILES:
        inside = path.removeprefix(place.name)
        return inside != path and not any(name.startswith((".", "_")) for name in inside.split("/")) and collection(inside) in place.chosen
    names, wanted = Path(path).parts, Path(place.name).parts
    plain = _plain(wanted)
    if names[: len(plain)] != plain or collection(str(Path(*names[len(plain) :]))) not in place.chosen:
        return False
    if "**" in wanted:
        head = tuple(takewhile(lambda name: name != "**", wanted))
        return len(names) > len(head) and _each(names, head) and (wanted[-1] == "**" or fnmatchcase(names[-1], wanted[-1]))
    return len(names) == len(wanted) and _each(names, wanted)


def _plain(parts: Sequence[str]) -> tuple[str, ...]:
    """The parts of a path before the first one that is a pattern."""
    return tuple(takewhile(lambda name: not any(c in name for c in _WILD), parts))


def _each(names: Sequence[str], wanted: Sequence[str]) -> bool:
    return all(fnmatchcase(name, want) for name, want in zip(names, wanted, strict=False))
