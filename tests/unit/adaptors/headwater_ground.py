"""What tests of headwater's own topics share."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.pipeline import values
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.running.run import Result, Run
from headwater.pipeline.sink_adaptor import Batch, Part

ALL = Namespaces()


def changes(adaptor: HeadwaterAdaptor, cursor: Any = None, chosen: Namespaces = ALL) -> tuple[list[Message], dict[int, str], Any]:
    """Everything up to the first empty piece, what is wrong with it, and the cursor behind it."""
    found: list[Message] = []
    bad: dict[int, str] = {}
    cursor = adaptor.plan(chosen, 1).cursor if cursor is None else values.decode_any(values.encode(cursor))
    for piece in adaptor.follow(cursor, chosen, lambda: False):
        bad |= {len(found) + index: why for index, why in piece.bad.items()}
        found += piece.messages
        cursor = piece.position
        if not piece.messages:
            break
    return found, bad, cursor


def part(**more: Any) -> Part:
    return msgspec.structs.replace(Part(pipeline="p#1", sink="s", start=0, end=1000), **more)


def write(adaptor: HeadwaterAdaptor, *messages: Message, where: Part | None = None) -> None:
    writer = adaptor.writer(where or part())
    try:
        writer.write(Batch(start=messages[0].offset, end=messages[-1].offset + 1, messages=messages))
    finally:
        writer.close()


def run(pipeline: Pipeline, log: Log, **more: Any) -> Result:
    return Run(pipeline, log, Settings(spark=SparkSettings(start="never")), **more).go()
