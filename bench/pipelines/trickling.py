"""What one message costs that trickles in: beside much else that a pipeline may have collected, and beside little."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.sizes import Sizes
from headwater.core.clock import SystemClock
from headwater.core.settings import SparkSettings
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode, TopicSettings
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptor import About
from headwater.pipeline.adaptors import file
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, Edit, ReaderState, RunInfo, SinkState
from headwater.pipeline.running.context import RunContext, StopEvent
from headwater.pipeline.running.delivery_loop import SinkLoop
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.sink_adaptor import Batch, CanWrite, Part, SinkWriter

_NAME = "trickle"
_MESSAGES = 200
_LITTLE, _MUCH = 10, 10_000


class NowhereWriter(SinkWriter):
    def write(self, batch: Batch) -> None:
        """Takes everything and keeps nothing: what is left is the pipeline's own cost."""

    def close(self) -> None:
        """There is nothing to close."""


class Nowhere(CanWrite, frozen=True, kw_only=True):
    kind: ClassVar[str] = "nowhere"
    about: ClassVar[About] = About(summary="Takes everything.", namespace="", sample="")
    delivery = "at least once"

    def writer(self, part: Part) -> SinkWriter:
        return NowhereWriter()


def trickling(folder: Path, sizes: Sizes) -> Iterator[Case | Skipped]:
    """A case for each thing that can be many."""
    for what in ("namespaces", "edits", "segments", "commands"):
        with ExitStack() as stack:
            little = stack.enter_context(Trickle(folder / f"{what}-little", **{what: _LITTLE}))
            much = stack.enter_context(Trickle(folder / f"{what}-much", **{what: _MUCH}))
            ours, floor = Side(f"{_MUCH:,} {what}", much.round), Side(f"{_LITTLE} {what}", little.round)
            yield Case(
                f"one trickling message beside many {what}", "message", ours, floor, mark.ratio(0.8), shown="time", rounds=sizes.rare
            )


class Trickle:
    """A pipeline's log with so much in it, and the loop of one sink that has taken all."""

    def __init__(self, folder: Path, *, namespaces: int = 1, edits: int = 0, segments: int = 1, commands: int = 0) -> None:
        self._namespaces, self._edits, self._segments, self._commands = namespaces, edits, segments, commands
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Trickle:
        log = self._stack.enter_context(EmbeddedLog(self._folder))
        log.create_topic(log_topic(_NAME), settings=TopicSettings(), part=PART)
        self._writer = log.claim(log_topic(_NAME), 0, part=PART)
        for _ in range(self._segments - 1):
            self._writer.append([Record(b"n0", b'{"_id":0}', mode=Mode.SYNC)])
            self._writer.roll()
        before = log.bounds(log_topic(_NAME), 0).end
        ids = {f"n{number}": ["_id"] for number in range(self._namespaces)}
        plan = {"identity": {}, "slices": [], "ids": ids}
        control = Control.create(log, _NAME, SystemClock())
        changes: list[Change] = [
            ("run", RunInfo(epoch=self._writer.epoch, id="r", began=1)),
            ("reader", ReaderState(run="r", plan=plan, begun=0, upto=before, copied=True)),
            ("sink/out", SinkState(position=before - 1)),
            *((f"edit/{number}", Edit(data={"_id": number})) for number in range(self._edits)),
        ]
        control.change(lambda state: changes)
        pipeline = Pipeline(_NAME)
        pipeline.source("in", file("in.jsonl")).save("out", Nowhere())
        stopping = StopEvent()
        context = RunContext(
            control=control,
            engine=Engine(log, SparkSettings(start="never"), stopping=stopping),
            epoch=self._writer.epoch,
            options=pipeline.options,
            clock=SystemClock(),
            stopping=stopping,
        )
        self._loop = SinkLoop(pipeline.sinks["out"], context, reading=lambda: True)
        self._loop.begin()
        if self._commands:  # the sink is behind: the range of each message is cut out of all of them
            self._writer.append(self._with_commands())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _with_commands(self) -> list[Record]:
        """Changes, of which every second one is a command: no message overtakes it."""
        ops = (int(Op.INSERT), int(Op.COMMAND))
        return [Record(b"n0", b'{"_id":0}', mode=Mode.SYNC, op=ops[number % 2]) for number in range(max(self._commands, _MESSAGES * 8))]

    def round(self) -> Sample:
        """Messages one by one, each delivered before the next is appended; of a sink that is behind, only the deliveries."""
        delivered, begun = 0, time.perf_counter()
        for number in range(_MESSAGES):
            if not self._commands:
                self._writer.append([Record(b"n%d" % (number % self._namespaces), b'{"_id":0}', mode=Mode.SYNC)])
            self._loop.step()
            delivered += 1
        return Sample(delivered, time.perf_counter() - begun)
