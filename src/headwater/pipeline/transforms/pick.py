"""`pick`: messages with some fields alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.pipeline.message import Message
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Fields, Transform, field_by_field, one_by_one
from headwater.pipeline.transforms.changing import changed, simple
from headwater.pipeline.transforms.paths import Path, only, parsed_all


class Pick(Transform):
    """Made by `pick`."""

    def __init__(self, paths: tuple[Path, ...], name: str) -> None:
        self.paths, self.name = paths, name

    def keeps(self, id_fields: Sequence[str]) -> bool:
        return all((name,) in self.paths for name in id_fields)

    def fields(self) -> Fields | None:
        names = simple(self.paths)

        def picked(data: dict[str, Any]) -> dict[str, Any]:
            return {name: data[name] for name in names if name in data}

        return picked if names else None

    def opened(self) -> Apply:
        paths, fields = self.paths, self.fields()

        def nested(message: Message) -> Message:
            return changed(message, data=only(message.data, paths))

        return field_by_field(fields) if fields else one_by_one(self, nested)


@strict
def pick(*fields: str) -> Transform:
    """Keep these fields and no others: `pick("_id", "name", "address.city")`. A field that is not there is no error.

    Fields are paths, as for `omit`. Names without dots come in the order in which they are given. Keep the fields that tell documents
    apart (`_id`, or the primary key), or sinks that update and delete cannot.
    """
    return Pick(parsed_all(fields, "pick"), f"pick({','.join(map(str, fields))})")
