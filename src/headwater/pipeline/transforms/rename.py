"""`rename`: fields under other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.core.errors import BadConfig
from headwater.pipeline.message import Message
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Fields, Transform, field_by_field, one_by_one
from headwater.pipeline.transforms.changing import changed
from headwater.pipeline.transforms.paths import MISSING, Path, find, parsed, placed, removals, shown, without


class Rename(Transform):
    """Made by `rename`."""

    def __init__(self, pairs: tuple[tuple[Path, Path], ...], name: str) -> None:
        self.pairs, self.name = pairs, name

    def keeps(self, id_fields: Sequence[str]) -> bool:
        return not any(path[0] in id_fields for pair in self.pairs for path in pair)

    def fields(self) -> Fields | None:
        names = [(old[0], new[0]) for old, new in self.pairs] if all(len(path) == 1 for pair in self.pairs for path in pair) else []

        def renamed(data: dict[str, Any]) -> dict[str, Any]:
            taken = [(new, data.pop(old)) for old, new in names if old in data]  # all are taken before the first is put: swaps and chains
            data.update(taken)
            return data

        return renamed if names else None

    def opened(self) -> Apply:
        pairs, olds, fields = self.pairs, removals(old for old, _ in self.pairs), self.fields()

        def nested(message: Message) -> Message:
            found = [(new, value) for old, new in pairs if (value := find(message.data, old)) is not MISSING]
            return changed(message, data=placed(without(message.data, olds), found))

        return field_by_field(fields) if fields else one_by_one(self, nested)


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
