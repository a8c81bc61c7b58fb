"""Whether a sink has newer messages of the same documents: an older one that is sent now would be put over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headwater.core.errors import Rejected
from headwater.pipeline.definition import Sink
from headwater.pipeline.id_hash import alike
from headwater.pipeline.message import Message, Op
from headwater.pipeline.offsets.ranges import Span, joined
from headwater.pipeline.operating.changes import withheld
from headwater.pipeline.operating.verification import batches
from headwater.pipeline.operating.view import PipelineView
from headwater.pipeline.running.work import SinkWork

_SENT = 10_000  # messages whose documents are looked for, at most
_LOOKED = 1_000_000  # offsets behind them that are looked at: some seconds


def superseded(operator: PipelineView, sink: Sink, first: int, last: int) -> int | None:
    """The first newer message that the sink has taken of a document of `first` to `last`; None where none is among the million behind.

    What was put aside or skipped by an operator the sink does not have. Ids that the sink may call equal count as one. Behind a command,
    every message of its namespace is newer.
    """
    if last - first >= _SENT:
        return None
    state, work = operator.state(), operator.delivery(sink)
    sent: set[tuple[str, Any] | None] = set()
    emptied: set[str] = set()
    for message in _messages(operator, work, first, last + 1, []):
        if message.op is Op.COMMAND:
            emptied.add(message.namespace)
        elif (known := _known(message)) is not None:
            sent.add(known)
    now, begin = state.sink(sink.name), last + 1
    skipped = withheld(operator, sink.name)
    for start, end in joined([(0, now.position + 1), *now.taken]) if sent or emptied else ():
        for message in _messages(operator, work, max(begin, start), min(begin + _LOOKED, end), skipped):
            if message.namespace in emptied or _known(message) in sent:
                return message.offset
    return None


def command_among(operator: PipelineView, sink: Sink, first: int, last: int) -> int | None:
    """The first command for the sink, such as to empty a table, of the messages `first` to `last`."""
    for chunk in operator.log.scan(operator.topic, 0, first, last + 1):
        for index in np.flatnonzero(chunk.column("op").to_numpy(zero_copy_only=False) == Op.COMMAND):
            key = chunk.column("key")[index].as_py()
            if key is not None and key.decode() in sink.namespaces:
                return int(chunk.column("offset")[index].as_py())
    return None


def _known(message: Message) -> tuple[str, Any] | None:
    return None if message.id is None else (message.namespace, alike(message.id))


def _messages(operator: PipelineView, work: SinkWork, start: int, end: int, skipped: Sequence[Span]) -> Iterator[Message]:
    """The messages of [start, end) as the sink is given them, before its transforms; those that cannot be read are left out."""
    for batch, without in batches(operator, work, (start, end), skipped):
        while True:
            try:
                yield from batch.messages(leave_out=without)
                break
            except Rejected as unreadable:
                without.add(unreadable.offset)
