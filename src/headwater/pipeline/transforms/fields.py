"""`omit`, `pick` and `rename`: messages without some fields, with some fields alone, with fields under other names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headwater.core.errors import BadConfig
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Fields, Transform, field_by_field, one_by_one
from headwater.pipeline.transforms.paths import MISSING, Path, find, only, parsed, parsed_all, placed, removals, shown, without


class FieldTransform(Transform):
    """A transform that moves or removes fields: quick for names, which `fields` has a function for, else by paths."""

    def opened(self) -> Apply:
        fields = self.fields()
        return field_by_field(fields) if fields else one_by_one(self, lambda message: replace(message, data=self.nested(message.data)))

    @abstractmethod
    def nested(self, data: dict[str, Any]) -> dict[str, Any]:
        """What becomes of a document whose fields are found by paths."""


class Omit(FieldTransform):
    """Made by `omit`."""

    def __init__(self, paths: tuple[Path, ...], name: str) -> None:
        self.paths, self.name, self._removals = paths, name, removals(paths)

    def keeps(self, id_fields: Sequence[str]) -> bool:
        return not any(path[0] in id_fields for path in self.paths)

    def fields(self) -> Fields | None:
        names = _names(self.paths)

        def omitted(data: dict[str, Any]) -> dict[str, Any]:
            for name in names:
                data.pop(name, None)
            return data

        return omitted if names else None

    def nested(self, data: dict[str, Any]) -> dict[str, Any]:
        return without(data, self._removals)


class Pick(FieldTransform):
    """Made by `pick`."""

    def __init__(self, paths: tuple[Path, ...], name: str) -> None:
        self.paths, self.name = paths, name

    def keeps(self, id_fields: Sequence[str]) -> bool:
        return all((name,) in self.paths for name in id_fields)

    def fields(self) -> Fields | None:
        names = _names(self.paths)

        def picked(data: dict[str, Any]) -> dict[str, Any]:
            return {name: data[name] for name in names if name in data}

        return picked if names else None

    def nested(self, data: dict[str, Any]) -> dict[str, Any]:
        return only(data, self.paths)


class Rename(FieldTransform):
    """Made by `rename`."""

    def __init__(self, pairs: tuple[tuple[Path, Path], ...], name: str) -> None:
        self.pairs, self.name, self._removals = pairs, name, removals(old for old, _ in pairs)

    def keeps(self, id_fields: Sequence[str]) -> bool:
        return not any(path[0] in id_fields for pair in self.pairs for path in pair)

    def fields(self) -> Fields | None:
        olds, news = (_names(paths) for paths in zip(*self.pairs, strict=True))
        names = list(zip(olds, news, strict=True)) if olds and news else []

        def renamed(data: dict[str, Any]) -> dict[str, Any]:
            taken = [(new, data.pop(old)) for old, new in names if old in data]  # all are taken before the first is put: swaps and chains
            data.update(taken)
            return data

        return renamed if names else None

    def nested(self, data: dict[str, Any]) -> dict[str, Any]:
        renamed = [(new, value) for old, new in self.pairs if (value := find(data, old)) is not MISSING]
        return placed(without(data, self._removals), renamed)


def _names(paths: Sequence[Path]) -> tuple[str, ...]:
    """The names, where all paths are of one name; else nothing."""
    return tuple(path[0] for path in paths) if all(len(path) == 1 for path in paths) else ()


@strict
def omit(*fields: str) -> Transform:
    """Remove fields: `omit("card", "address.street", "items.0")`. A field that is not there is no error.

    Fields are paths: dots go into objects and lists, a backslash before a dot makes it part of a name (see
    `headwater.pipeline.transforms.paths`). Positions in a list mean the list as it was: `omit("items.0", "items.1")` removes its first two.
    """
    return Omit(parsed_all(fields, "omit"), f"omit({','.join(map(str, fields))})")


@strict
def pick(*fields: str) -> Transform:
    """Keep these fields and no others: `pick("_id", "name", "address.city")`. A field that is not there is no error.

    Fields are paths, as for `omit`. Names without dots come in the order in which they are given. Keep the fields that tell documents
    apart (`_id`, or the primary key), or sinks that update and delete cannot.
    """
    return Pick(parsed_all(fields, "pick"), f"pick({','.join(map(str, fields))})")


@strict
def rename(mapping: Mapping[str, str]) -> Transform:
    """Give fields other names: `rename({"name": "title", "address.zip": "postcode"})`. A field that is not there is no error.

    All old values are read before the first new one is written, so `{"a": "b", "b": "a"}` swaps and `{"a": "b", "b": "c"}` moves both by
    one. Both sides are paths, as for `omit`; objects on the way to a new place are made. A field that had the new name is replaced.
    A renamed field stands behind the others.
    """
    if not isinstance(mapping, Mapping) or not mapping:
        raise BadConfig(f"rename: {mapping!r} names no fields.", hint='Give old and new names: rename({"name": "title"}).')
    pairs = tuple((parsed(old, "rename"), parsed(new, "rename")) for old, new in mapping.items())
    news = [new for _, new in pairs]
    for new in news:
        if any(other[: len(new)] == new for other in news if other is not new):
            raise BadConfig(f"rename: two fields would be put at {shown(new)}.", hint="Give each its own place.")
    return Rename(pairs, f"rename({','.join(f'{old}→{new}' for old, new in mapping.items())})")
