"""`omit`: messages without some fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.pipeline.message import Message
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Transform, one_by_one
from headwater.pipeline.transforms.changing import changed, simple
from headwater.pipeline.transforms.paths import Path, parsed_all, without


class Omit(Transform):
    """Made by `omit`."""

    def __init__(self, paths: tuple[Path, ...], name: str) -> None:
        self.paths, self.name = paths, name

    def keeps(self, id_fields: Sequence[str]) -> bool:
        return not any(path[0] in id_fields for path in self.paths)

    def opened(self) -> Apply:
        paths, names = self.paths, simple(self.paths)

        def quick(message: Message) -> Message:
            data = message.data.copy()
            for name in names:
                data.pop(name, None)
            return changed(message, data=data)

        def nested(message: Message) -> Message:
            data: dict[str, Any] = without(message.data, paths)
            return changed(message, data=data)

        return one_by_one(self, quick if names else nested)


@strict
def omit(*fields: str) -> Transform:
    """Remove fields: `omit("card", "address.street", "items.0")`. A field that is not there is no error.

    Fields are paths: dots go into objects and lists, a backslash before a dot makes it part of a name (see
    `headwater.pipeline.transforms.paths`). Positions in a list mean the list as it was: `omit("items.0", "items.1")` removes its first two.
    """
    return Omit(parsed_all(fields, "omit"), f"omit({','.join(map(str, fields))})")
