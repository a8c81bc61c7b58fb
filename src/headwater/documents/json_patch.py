"""JSON Patch (RFC 6902): operations on places of a document, which count together or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from headwater.core.document_errors import NotMatched, UnfitBody
from headwater.core.errors import BadInput
from headwater.documents.body import DEEPEST, kind_of
from headwater.documents.patch import same_value

_VERBS = ("add", "remove", "replace", "move", "copy", "test")
_NEEDS = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from"}
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_BAD_ESCAPE = re.compile(r"~(?![01])")
_MOST_OPERATIONS = 10_000
_MOST_COPIED = 100_000  # values that all copies of a patch make together: each may double the document
_MOST_COPIED_TEXT = 64 << 20  # characters of them
_MOST_MOVED = 100_000_000
"""Elements of arrays that all insertions and removals of a patch move: some hundredths of a second, in which the partition's other writes
wait."""


class _Misfit(Exception):
    """An operation does not fit the document."""


def apply_operations(target: Any, operations: Any) -> Any:
    """The value after the operations. The target itself stays as it is.

    Errors, which name the operation: `BadInput` for a patch that is malformed; `UnfitBody` for an operation whose place is not there;
    `NotMatched` for a `test` that does not hold.
    """
    if type(operations) is not list:
        raise BadInput(f"A JSON Patch is an array of operations, not {kind_of(operations)}.", hint=_EXAMPLE)
    if len(operations) > _MOST_OPERATIONS:
        raise BadInput(f"The patch has {len(operations)} operations.", hint=f"Send at most {_MOST_OPERATIONS}, or replace the document.")
    document = _Patched(target)
    for number, operation in enumerate(operations):
        verb, path, origin = _checked(number, operation)
        try:
            document.perform(verb, path, origin, operation.get("value"))
        except _Misfit as misfit:
            kind = NotMatched if verb == "test" else UnfitBody
            raise kind(f"Operation {number} ({verb} {operation['path']!r:.60}) {misfit}.", hint="Nothing of the patch counts.") from None
        except RecursionError:
            raise UnfitBody(f"Operation {number} ({verb}) nests the document too deeply.", hint="Nothing of the patch counts.") from None
    return document.root


_EXAMPLE = 'Send such as [{"op": "replace", "path": "/price", "value": 3}].'
Pointer = tuple[str, ...]


def _checked(number: int, operation: Any) -> tuple[str, Pointer, Pointer | None]:
    if type(operation) is not dict:
        raise BadInput(f"Operation {number} is {kind_of(operation)}, not an object.", hint=_EXAMPLE)
    verb, path = operation.get("op"), operation.get("path")
    if verb not in _VERBS:
        raise BadInput(f"Operation {number} has op {verb!r:.60}.", hint=f"There are {', '.join(_VERBS)}.")
    need = _NEEDS.get(verb)
    if type(path) is not str or (need is not None and need not in operation):
        raise BadInput(f"Operation {number} ({verb}) has no {'path' if type(path) is not str else need}.", hint=_EXAMPLE)
    return verb, _pointer(number, path), _pointer(number, operation["from"]) if need == "from" else None


def _pointer(number: int, text: Any) -> Pointer:
    """RFC 6901."""
    if type(text) is not str or (text and text[0] != "/") or _BAD_ESCAPE.search(text):
        raise BadInput(f"Operation {number} has {text!r:.60} for a place.", hint='Write such as "/a/0/b"; ~1 is a slash and ~0 is ~.')
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


class _Patched:
    """The document while operations change it. An object or array is copied when it changes first: what is left as it is, is shared with
    the document of before, and with the patch."""

    def __init__(self, root: Any) -> None:
        self.root, self._copied, self._copied_text, self._moved = root, 0, 0, 0
        self._own: dict[int, Any] = {}  # objects and arrays that were made here

    def perform(self, verb: str, path: Pointer, origin: Pointer | None, value: Any) -> None:
        if len(path) > DEEPEST:
            raise _Misfit(f"goes more than {DEEPEST} deep")
        if verb == "test":
            if not same_value(self._at(path), value):
                raise _Misfit("does not hold")
        elif verb == "remove":
            self._taken(path)
        elif verb == "replace":
            if path:
                parent, place = self._place(path)
                parent[place] = value
            else:
                self.root = value
        elif verb == "add":
            self._put(path, value)
        else:
            assert origin is not None
            self._carry(verb, origin, path)

    def _carry(self, verb: str, origin: Pointer, path: Pointer) -> None:
        if verb == "move":
            if path[: len(origin)] == origin and path != origin:
                raise _Misfit("moves a value into itself")
            carried = self._at(origin) if path == origin else self._taken(origin)
            if path != origin:
                self._put(path, carried)
            return
        carried = self._at(origin)
        values, text = _weight(carried)
        self._copied, self._copied_text = self._copied + values, self._copied_text + text
        if self._copied > _MOST_COPIED or self._copied_text > _MOST_COPIED_TEXT:
            raise _Misfit("copies too much")
        self._put(path, deepcopy(carried))

    def _at(self, path: Sequence[str]) -> Any:
        value = self.root
        for part in path:
            if type(value) is dict and part in value:
                value = value[part]
            elif type(value) is list:
                value = value[_index(part, len(value))]
            else:
                raise _Misfit(f"finds no {part!r:.60}")
        return value

    def _own_at(self, path: Sequence[str]) -> Any:
        """The object or array at a place, to be changed: it and those around it are ours from here on."""
        value = self.root = self._owned(self.root)
        for part in path:
            if type(value) is dict and part in value:
                place: Any = part
            elif type(value) is list:
                place = _index(part, len(value))
            else:
                raise _Misfit(f"finds no {part!r:.60}")
            inner = value[place] = self._owned(value[place])
            value = inner
        return value

    def _owned(self, value: Any) -> Any:
        if id(value) in self._own or type(value) not in (dict, list):
            return value
        own_copy = value.copy()
        self._own[id(own_copy)] = own_copy
        return own_copy

    def _taken(self, path: Pointer) -> Any:
        parent, place = self._place(path)
        if type(parent) is list:
            self._move(len(parent) - place)
        return parent.pop(place)

    def _move(self, elements: int) -> None:
        """Count the elements of an array that an operation moves."""
        self._moved += elements
        if self._moved > _MOST_MOVED:
            raise _Misfit("moves too many elements of arrays: PUT the document, or keep the elements as items of a collection")

    def _place(self, path: Pointer) -> tuple[Any, Any]:
        """The object or array of a value that is there, and its name or index."""
        if not path:
            raise _Misfit("would leave nothing: DELETE removes a document")
        parent, name = self._own_at(path[:-1]), path[-1]
        if type(parent) is dict and name in parent:
            return parent, name
        if type(parent) is list:
            return parent, _index(name, len(parent))
        raise _Misfit(f"finds no {name!r:.60}")

    def _put(self, path: Pointer, value: Any) -> None:
        if not path:
            self.root = value
            return
        parent, name = self._own_at(path[:-1]), path[-1]
        if type(parent) is dict:
            parent[name] = value
        elif type(parent) is list:
            place = len(parent) if name == "-" else _index(name, len(parent) + 1)
            self._move(len(parent) - place)
            parent.insert(place, value)
        else:
            raise _Misfit(f"finds no object or array for {name!r:.60}")


def _index(part: str, length: int) -> int:
    if not _INDEX.fullmatch(part) or int(part) >= length:
        raise _Misfit(f"finds no element {part!r:.60}")
    return int(part)


def _weight(value: Any) -> tuple[int, int]:
    """How many values it has, itself included, and how many characters of text."""
    values, text, left = 0, 0, [value]
    while left:
        value = left.pop()
        values += 1
        if type(value) is dict:
            text += sum(map(len, value))
            left += value.values()
        elif type(value) is list:
            left += value
        elif type(value) is str:
            text += len(value)
    return values, text
