"""`omit`: messages without some fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.pipeline.message import Message
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Fields, Transform, field_by_field, one_by_one
from headwater.pipeline.transforms.changing import changed, simple
from headwater.pipeline.transforms.paths import Path, parsed_all, removals, without


class Omit(Transform):
    """Made by `omit`."""

    def __init__(self, paths: tuple[Path, ...], name: str) -> None:
        self.paths, self.name = paths, name

    def keeps(self, id_fields: Sequence[str]) -> bool:
        return not any(path[0] in id_fields for path in self.paths)

    def fields(self) -> Fields | None:
        names = simple(self.paths)

        def omitted(data: dict[str, Any]) -> dict[str, Any]:
            for name in names:
                data.pop(name, None)
            return data

        return omitted if names else None

    def opened(self) -> Apply:
        paths, fields = removals(self.paths), self.fields()

        def nested(message: Message) -> Message:
            return changed(message, data=without(message.data, paths))

        return field_by_field(fields) if fields else one_by_one(self, nested)


@strict
def omit(*fields: str) -> Transform:
    """Remove fields: `omit("card", "address.street", "items.0")`. A field that is not there is no error.

    Fields are paths: dots go into objects and lists, a backslash before a dot makes it part of a name (see
    `headwater.pipeline.transforms.paths`). Positions in a list mean the list as it was: `omit("items.0", "items.1")` removes its first two.
    """
    return Omit(parsed_all(fields, "omit"), f"omit({','.join(map(str, fields))})")
