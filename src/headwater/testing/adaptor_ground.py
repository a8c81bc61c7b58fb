"""What the contract of adaptors stands on: documents, parts, and writing them as a run would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.core.ids import random_id
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch, CanWrite, Part

NAMESPACE = "things"
PIPELINE, SINK = "contract#1", "sink"


def documents(first: int, last: int, **more: Any) -> list[dict[str, Any]]:
    """Documents `first` to `last`, both included, each with its number as its id."""
    return [{"_id": number, "name": f"thing {number}", "size": number * 10} | more for number in range(first, last + 1)]


def messages(data: Sequence[dict[str, Any]], *, start: int, namespace: str, op: Op = Op.INSERT) -> list[Message]:
    """The documents as messages at consecutive offsets."""
    return [Message(namespace, dict(document), op, 1_700_000_000_000, offset=start + at) for at, document in enumerate(data)]


def deliver(
    adaptor: CanWrite, given: Sequence[Message], *, start: int, end: int | None = None, epoch: int = 1, publish: bool = True
) -> Part:
    """Write a part as a run does: open, one batch, finish, publish. `publish=False`: as a run that dies before."""
    end = start + len(given) if end is None else end
    part = Part(pipeline=PIPELINE, sink=SINK, start=start, end=end, epoch=epoch, attempt=random_id())
    writer = adaptor.writer(part)
    try:
        texts = (
            [values.store(message.data) for message in given]
            if type(writer).takes_text and all(message.op == Op.INSERT for message in given)
            else None
        )
        if texts is None or not writer.write_text(Batch(start=start, end=end, values=texts)):
            writer.write(Batch(start=start, end=end, messages=given))
        receipt = writer.finish()
    finally:
        writer.close()
    if publish and receipt:
        adaptor.publish(part, receipt)
    return part


def held(adaptor: CanWrite, namespace: str) -> list[dict[str, Any]]:
    """What the sink holds, in the order of ids."""
    return sorted(adaptor.rows(namespace), key=lambda row: values.canonical(row.get("_id")))


def as_stored(adaptor: CanWrite, data: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Documents as the sink gives them back."""
    return sorted((adaptor.stored(document) for document in data), key=lambda row: values.canonical(row.get("_id")))
