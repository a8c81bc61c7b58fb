"""What documents are, in few lines: the verbs on a dictionary. Property tests compare the writer with it."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from headwater.documents.path import ResourcePath
from headwater.documents.write import Draft
from headwater.wire import json

_read = json.decoder(object)
GONE = object()


class ModelRefusal(Exception):
    """The write is refused; its text is the name of the error's class."""


class DocumentModel:
    """Revisions and bodies by uri; rows by path. A collection is a uri with items."""

    def __init__(self) -> None:
        self.revisions: dict[str, int] = {}
        self.living: set[str] = set()
        self.rows: dict[ResourcePath, tuple[Any, int]] = {}

    def write(self, draft: Draft, id: str = "") -> tuple[int, bool]:
        """The revision, and whether something was created. `id`: that a POST was given."""
        path, verb = draft.path, draft.verb
        if path.is_collection and verb in ("put", "patch"):
            raise ModelRefusal("CollectionPut" if verb == "put" else "BadMethod")
        if verb == "post" and not path.is_collection:
            raise ModelRefusal("BadMethod")
        value = None if verb == "delete" else _read(draft.body)
        row = self.rows.get(path)
        tag = (self.revisions[path.uri] if path.uri in self.living else None) if path.is_collection else row[1] if row else None
        if tag is None and verb in ("patch", "delete"):
            raise ModelRefusal("DocumentNotFound")
        match, none_match = draft.condition.match, draft.condition.none_match
        if match is not None and (tag is None or (match and tag not in match)):
            raise ModelRefusal("NotMatched")
        if none_match is not None and tag is not None and (not none_match or tag in none_match):
            raise ModelRefusal("NotMatched")
        target = ResourcePath(path.uri, id) if verb == "post" else path
        after = GONE if verb == "delete" else self._after(target, verb, draft.patch, value, None if row is None else row[0])
        revision = self.revisions[path.uri] = self.revisions.get(path.uri, 0) + 1
        if after is GONE:
            for gone in [row_path for row_path in self.rows if row_path == path or (path.is_collection and row_path.uri == path.uri)]:
                del self.rows[gone]
            if not path.item:
                self.living.discard(path.uri)
        else:
            self.rows[target] = (after, revision)
            self.living.add(path.uri)
        return revision, verb == "post" or (row is None and verb == "put")

    def _after(self, path: ResourcePath, verb: str, kind: str, value: Any, before: Any) -> Any:
        if path.item and kind != "operations":
            value = {} if value is None else value
            if not isinstance(value, dict):
                raise ModelRefusal("UnfitBody")
        if verb == "patch" and kind == "merge":
            value = merged(before, value)
        elif verb == "patch" and kind == "increment":
            before = {} if before is None else before
            if not isinstance(before, dict) or any(isinstance(before.get(name, 0), str | dict | list) for name in value if name != "id"):
                raise ModelRefusal("UnfitBody")
            value = before | {name: before.get(name, 0) + amount for name, amount in value.items() if name != "id"}
        elif verb == "patch":
            value = operated(before, value)
        value = stripped(value)
        return value | {"id": path.item} if path.item else value


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, as its text has it."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merged(target.get(name), value)
    return target


def operated(target: Any, operations: Any) -> Any:
    """RFC 6902, for fields of the document itself."""
    target = deepcopy(target)
    for operation in operations:
        name = operation["path"][1:]
        if not isinstance(target, dict) or (operation["op"] != "add" and name not in target):
            raise ModelRefusal("NotMatched" if operation["op"] == "test" else "UnfitBody")
        if operation["op"] == "test" and target[name] != operation["value"]:
            raise ModelRefusal("NotMatched")
        if operation["op"] == "remove":
            del target[name]
        elif operation["op"] in ("add", "replace"):
            target[name] = operation["value"]
    return target


def stripped(value: Any) -> Any:
    """Without null fields."""
    return {name: stripped(inner) for name, inner in value.items() if inner is not None} if isinstance(value, dict) else value


def random_body(random: Random) -> Any:
    """Mostly an object of a few fields."""
    if random.random() < 0.1:
        return random.choice([None, 3, "text", [1, {"a": None}]])
    names = random.sample("abcd", random.randint(0, 3))
    return {name: random.choice([random.randint(0, 9), "x", None, {"e": None, "f": 1}, [None, 2]]) for name in names}
