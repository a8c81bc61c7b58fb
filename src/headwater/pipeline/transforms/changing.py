"""What transforms share. They make new messages of those they are given; only functions of people, in `python`, change them in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from headwater.core.errors import Rejected
from headwater.pipeline.message import Message
from headwater.pipeline.transform import Fields, Transform
from headwater.pipeline.transforms.paths import Path
from headwater.pipeline.values import canonical

changed = replace  # a new message from one that is there, with some of its fields changed


def simple(paths: tuple[Path, ...]) -> tuple[str, ...]:
    """The names, where all paths are of one name; else nothing."""
    return tuple(path[0] for path in paths) if all(len(path) == 1 for path in paths) else ()


def same_id(before: Any, after: Any) -> bool:
    """Whether two ids are one, as stored: 1 and "1" are two, and so are 1 and true."""
    return before is after or (type(before) is type(after) and before == after and canonical(before) == canonical(after))


def each_changed(transform: Transform, messages: Iterable[Message], change: Fields) -> list[Message]:
    """New messages with what `change` makes of copies of their data. Errors: as `check_id`, where the transform says that it keeps ids."""
    made: list[Message] = []
    for message in messages:
        one = changed(message, data=change(message.data.copy()))
        if transform.keeps_id:
            check_id(transform.name, message.id, one)
        made.append(one)
    return made


def check_id(name: str, before: Any, after: Message) -> None:
    """Errors: `Rejected` when a transform that has promised to keep ids has changed one."""
    if not same_id(before, after.id):
        raise Rejected(
            f"Transform {name} says keeps_id=True, and changed the id {before!r} to {after.id!r}.",
            offset=after.offset,
            hint="Leave keeps_id out, or the fields that documents are told apart by as they are.",
        )
