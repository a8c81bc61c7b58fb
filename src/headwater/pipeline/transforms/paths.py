"""Where a field is: `name`, `address.city`, `items.0.price`.

A path is names with dots between them. Inside a list a name is a position, counted from 0. A dot or backslash that belongs to a name has a
backslash before it: `a\\.b` is one field, `a.b` the field `b` of the object `a`. A path that leads nowhere finds nothing, and is no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from headwater.core.errors import BadConfig, BadInput

Path = tuple[str, ...]

_PART = re.compile(r"((?:[^.\\]|\\.)+)(\.|$)", re.DOTALL)
_LONGEST_INDEX = 9  # digits: a longer number is no position in any list that fits in memory


class MissingPath:
    """What is found where nothing is. Not None, which is a value of its own."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = MissingPath()


def parsed(text: object, where: str) -> Path:
    """The path that a text means. Errors: `BadConfig` for an empty name, a lone backslash, or something that is no text."""
    if not isinstance(text, str):
        raise BadConfig(f"{where}: {text!r} is no field.", hint='Give names of fields as texts, such as "address.city".')
    parts: list[str] = []
    at, more = 0, True
    while more:
        match = _PART.match(text, at)
        if match is None:
            raise BadConfig(
                f"{where}: {text!r} is no path to a field.",
                hint=r"Put a dot between names, and a backslash before a dot inside a name: a\.b.",
            )
        parts.append(re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL))
        at, more = match.end(), match[2] == "."
    return tuple(parts)


def parsed_all(texts: Iterable[object], where: str) -> tuple[Path, ...]:
    """Several paths, at least one. Errors: as `parsed`."""
    paths = tuple(parsed(text, where) for text in texts)
    if not paths:
        raise BadConfig(f"{where} needs a field.", hint=f'Name at least one, as in {where}("address.city").')
    return paths


def shown(path: Path) -> str:
    """The text that `parsed` reads as this path."""
    return ".".join(re.sub(r"([.\\])", r"\\\1", part) for part in path)


def find(value: Any, path: Path) -> Any:
    """What is there, or MISSING."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, list) and (at := _index(part)) < len(value):
            value = value[at]
        else:
            return MISSING
    return value


def removals(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Paths in the order in which `without` removes them, each once, and none inside of another.

    From the end of a list to its beginning, so that removing one element does not move the next one to remove.
    """
    each = set(paths)
    outer = [path for path in each if not any(path[:depth] in each for depth in range(1, len(path)))]
    return tuple(sorted(outer, key=lambda path: [(-_index(part), part) for part in path]))


def without(data: dict[str, Any], paths: tuple[Path, ...]) -> dict[str, Any]:
    """A copy without what is at the paths, as `removals` gave them. All mean the original: `a.0` and `a.1` are its first two."""
    out = _Copy(data)
    for path in paths:
        if find(data, path) is not MISSING:
            parent = out.writable(path[:-1])
            del parent[path[-1] if isinstance(parent, dict) else _index(path[-1])]
    return out.data


def placed(data: dict[str, Any], values: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """A copy with values put at their paths; objects on the way are made where nothing or null is.

    In a list, a position that exists is replaced and the one behind the last is added. Errors: `BadInput` where the way leads through a
    text or a number, or to a position farther on.
    """
    out = _Copy(data)
    for path, value in values:
        out.put(path, value)
    return out.data


def only(data: dict[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """What is at the paths, in objects as they were. Of a list the chosen elements remain, in their order and closed up."""
    chosen: dict[str, Any] = {}
    for path in paths:
        if find(data, path) is not MISSING:
            _choose(chosen, path)
    return {name: _narrowed(value, chosen[name]) for name, value in data.items() if name in chosen}


class _Copy:
    """A document of which only what is changed is copied, each object and list once."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = dict(data)
        self._own = {id(self.data)}

    def writable(self, path: Path) -> Any:
        """What is at the path, which exists, copied down to there."""
        at: Any = self.data
        for part in path:
            key: Any = part if isinstance(at, dict) else _index(part)
            below = self._owned(at[key])
            at[key] = below
            at = below
        return at

    def put(self, path: Path, value: Any) -> None:
        at: Any = self.data
        for depth, part in enumerate(path):
            last = depth == len(path) - 1
            below = value if last else self._owned(find(at, (part,)))
            if below is MISSING or (below is None and not last):
                below = self._owned({})
            if isinstance(at, dict):
                at[part] = below
            elif isinstance(at, list) and (index := _index(part)) <= len(at):
                at[index : index + 1] = [below]
            else:
                kind = "a list that is shorter" if isinstance(at, list) else f"a {type(at).__name__}"
                raise BadInput(f"Nothing can be put at {shown(path)}: {shown(path[:depth])} is {kind}.")
            at = below

    def _owned(self, value: Any) -> Any:
        if isinstance(value, dict | list) and id(value) not in self._own:
            value = value.copy()
            self._own.add(id(value))
        return value


def _choose(chosen: dict[str, Any], path: Path) -> None:
    """Add a path to a tree of names, in which None means: whole."""
    for part in path[:-1]:
        below = chosen.setdefault(part, {})
        if below is None:
            return
        chosen = below
    chosen[path[-1]] = None


def _narrowed(value: Any, chosen: dict[str, Any] | None) -> Any:
    if chosen is None:
        return value
    if isinstance(value, dict):
        return {name: _narrowed(item, chosen[name]) for name, item in value.items() if name in chosen}
    return [_narrowed(item, chosen[str(i)]) for i, item in enumerate(value) if str(i) in chosen]


def _index(part: str) -> int:
    """A position in a list; beyond every list for what is none. Leading zeros are none: `0` and `00` would be one place with two names."""
    if part.isascii() and part.isdigit() and len(part) <= _LONGEST_INDEX and (part == "0" or part[0] != "0"):
        return int(part)
    return 1 << 62
