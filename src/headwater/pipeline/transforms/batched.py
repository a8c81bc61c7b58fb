"""Transforms that take many messages at once, namespace by namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import Rejected, Unavailable
from headwater.pipeline.message import Message
from headwater.pipeline.transform import Apply, Transform, check_id, refused
from headwater.pipeline.transforms.columns import batch_of, messages_of
from headwater.pipeline.transforms.expression import Stay

if TYPE_CHECKING:
    import pyarrow as pa


def by_namespace(
    transform: Transform,
    call: Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table],
    *,
    schema: pa.Schema | None,
    digits: int,
    wanted: Callable[[str], bool] | None = None,
    named: Callable[[str], bool] | None = None,
    stay: Stay = "none",
    anew: bool = True,
) -> Apply:
    """An `Apply` of a function for columns. What it raises becomes `Rejected` at the first message for which it does.

    With `wanted` the function gets those columns alone, and of the ones that are `named` nothing but that they are there. What it gives is
    the new documents, together with the fields that `stay`. `anew`: as of `messages_of`.
    """

    def apply(messages: Sequence[Message]) -> list[Message | None]:
        places: dict[str, list[int]] = {}
        for i, message in enumerate(messages):
            places.setdefault(message.namespace, []).append(i)
        out: list[Message | None] = [None] * len(messages)
        problems: list[Rejected] = []
        for at in places.values():
            part = [messages[i] for i in at]
            try:
                made = attempt(part)
            except Rejected as problem:
                problems.append(narrowed(part, problem))
                continue
            for i, changed in zip(at, made, strict=True):
                out[i] = changed
        if problems:
            raise min(problems, key=lambda problem: problem.offset)
        return out

    def attempt(messages: Sequence[Message]) -> list[Message | None]:
        try:
            columns = batch_of(messages, schema=schema, digits=digits, wanted=wanted, named=named)
            made = messages_of(messages, columns, call(columns), stay=stay, anew=anew)
        except (Rejected, Unavailable):
            raise
        except Exception as error:
            raise refused(transform, messages[0].offset, error) from error
        if transform.keeps_id:
            for before, after in zip(messages, made, strict=True):
                if after is not None:
                    check_id(transform.name, before.id, after)
        return made

    def narrowed(messages: Sequence[Message], problem: Rejected) -> Rejected:
        """The problem at the message that makes it: batches of half the size, again and again, are far fewer than messages one by one.

        Where the halves pass and the whole did not, it stays with the whole, at its first message.
        """
        while len(messages) > 1:
            half = messages[: len(messages) // 2]
            try:
                attempt(half)
            except Rejected as narrower:
                messages, problem = half, narrower
            else:
                messages = messages[len(half) :]
        try:
            attempt(messages)
        except Rejected as narrower:
            return narrower
        return problem

    return apply
