"""Transforms that take many messages at once, namespace by namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import Rejected, Unavailable
from headwater.pipeline.message import Message
from headwater.pipeline.transform import Apply, Transform, refused
from headwater.pipeline.transforms.changing import check_id
from headwater.pipeline.transforms.columns import batch_of, messages_of

if TYPE_CHECKING:
    import pyarrow as pa


def by_namespace(
    transform: Transform, call: Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table], *, schema: pa.Schema | None, digits: int
) -> Apply:
    """An `Apply` of a function for columns. What it raises becomes `Rejected` at the first message of its batch: of one message, at it."""

    def apply(messages: Sequence[Message]) -> list[Message | None]:
        places: dict[str, list[int]] = {}
        for i, message in enumerate(messages):
            places.setdefault(message.namespace, []).append(i)
        out: list[Message | None] = [None] * len(messages)
        for at in places.values():
            part = [messages[i] for i in at]
            for i, made in zip(at, one(part), strict=True):
                out[i] = made
        return out

    def one(messages: list[Message]) -> list[Message | None]:
        try:
            given = batch_of(messages, schema=schema, digits=digits)
            made = messages_of(messages, given, call(given))
        except (Rejected, Unavailable):
            raise
        except Exception as error:
            raise refused(transform, messages[0].offset, error) from error
        if transform.keeps_id:
            for before, after in zip(messages, made, strict=True):
                if after is not None:
                    check_id(transform.name, before.id, after)
        return made

    return apply
