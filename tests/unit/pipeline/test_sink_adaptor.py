"""The interfaces of sinks: what one does that says nothing else."""

from __future__ import annotations

from typing import ClassVar

import pytest

from headwater.core.errors import Unsupported
from headwater.pipeline.adaptor import About
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch, CanWrite, Delivery, Part, SinkWriter, deliverable


class Bare(CanWrite, frozen=True, kw_only=True):
    kind: ClassVar[str] = "bare"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    delivery: ClassVar[Delivery] = "at least once"


class Kept(SinkWriter):
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self.batches.append(batch)

    def close(self) -> None:
        """Nothing is open."""


def test_a_sink_that_says_nothing_holds_and_promises_nothing() -> None:
    sink = Bare()
    assert (sink.begin("p#1", "s", 1), sink.held("p#1", "s"), sink.owner("p#1", "s")) == (None, None, None)
    assert (sink.ordered(), sink.gathers(), sink.place("n"), sink.column_rules()) == (False, False, "n", None)
    for call in (lambda: sink.writer(Part(pipeline="p#1", sink="s", start=0, end=1)), lambda: list(sink.rows("n"))):
        with pytest.raises(Unsupported):
            call()


def test_a_writer_takes_text_as_messages_and_is_not_fenced_by_itself() -> None:
    writer, batch = Kept(), Batch(start=0, end=2, values=[b"{}", b"{}"])
    writer.fence()
    assert writer.write_text(batch)
    assert (writer.batches, writer.finish(), len(batch), len(Batch(start=0, end=5))) == ([batch], {}, 2, 0)


@pytest.mark.parametrize(("op", "given"), [(Op.INSERT, True), (Op.DELETE, True), (Op.COMMAND, True), (Op.NOOP, False), (Op.SKIP, False)])
def test_messages_that_say_nothing_are_not_delivered(op: Op, given: bool) -> None:
    assert deliverable(Message("n", {}, op)) is given
