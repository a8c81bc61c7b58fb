"""An idle run sleeps, and is woken by what it waits for. The clock hardly moves: whatever happens here, no loop's pause has ended."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ground import piped, rows

from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline.adaptor import About
from headwater.pipeline.adaptors import sqlite
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.control import Control, offsets_topic
from headwater.pipeline.offsets.state import SinkState
from headwater.pipeline.running.context import Activity, LoopState, RunContext, StopEvent, Unsettled
from headwater.pipeline.running.run import Run
from headwater.pipeline.source_adaptor import CanTail, Piece
from headwater.testing.clock import ManualClock
from headwater.testing.log_ground import PATIENCE

FOLLOWING, WAITING = LoopState(Activity.FOLLOWING), LoopState(Activity.WAITING)


class Feed(CanTail, frozen=True, kw_only=True):
    """Gives what a test puts into it."""

    kind: ClassVar[str] = "feed"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    fed: ClassVar[queue.Queue[int | None]] = queue.Queue()
    path: str = "x"

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        while not stopped():
            try:
                number = self.fed.get(timeout=0.02)
            except queue.Empty:
                continue
            yield (
                Piece(position=cursor, messages=[])
                if number is None
                else Piece(position=number, messages=[Message("t", {"_id": number}, Op.INSERT, 1)])
            )


class Running:
    """A run with two sinks in a thread."""

    def __init__(self, log: Log, folder: Path) -> None:
        self.clock, self.files = ManualClock(), [folder / f"{name}.db" for name in "ab"]
        while not Feed.fed.empty():
            Feed.fed.get()
        pipeline = piped(folder, {path.stem: sqlite(str(path)) for path in self.files}, source=Feed())
        self.run = Run(pipeline, log, Settings(data=folder / "data", spark=SparkSettings(start="never")), clock=self.clock, follow=True)
        self._rests = 10
        self._thread = threading.Thread(target=self.run.go)
        self._thread.start()

    def until(self, true: Callable[[], bool]) -> None:
        wait = threading.Event()
        for turn in range(1, int(PATIENCE / 0.01)):
            if true():
                return
            wait.wait(0.01)
            if turn % 50 == 0 and self._rests:
                # A loop that was woken twice in a row rests for 50 ms of this clock. All rests together are shorter than a pause.
                self._rests -= 1
                self.clock.advance(0.1)
        assert true()

    def waiting(self) -> bool:
        return self.run.phase == FOLLOWING and [one.state for one in self.run.progress()] == [WAITING, WAITING]

    def stopped(self) -> bool:
        """Whether it ends when it is told to."""
        self.run.stop()
        for _ in range(int(PATIENCE / 0.02)):
            self.clock.advance(0.2)  # only who looks after the stop waits for time
            self._thread.join(0.02)
            if not self._thread.is_alive():
                return True
        return False


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


@pytest.fixture
def running(log: Log, tmp_path: Path) -> Iterator[Running]:
    made = Running(log, tmp_path)
    try:
        made.until(made.waiting)
        yield made
    finally:
        assert made.stopped()


def written(running: Running, path: Path) -> list[tuple[Any, ...]]:
    return (
        rows(path, "select _id from t order by 1") if path.exists() and rows(path, "select 1 from sqlite_master where name = 't'") else []
    )


def test_a_message_wakes_every_sink(running: Running) -> None:
    Feed.fed.put(1)
    for path in running.files:
        running.until(lambda path=path: written(running, path) == [(1,)])


def test_an_operators_word_wakes_a_sink(running: Running, log: Log) -> None:
    Feed.fed.put(1)
    for path in running.files:
        running.until(lambda path=path: written(running, path) == [(1,)])
        rows(path, "delete from t")
    other = Control(log, "p", running.clock)
    other.change(lambda state: [("sink/a", SinkState(position=-1, generation=state.sink("a").generation + 1))])
    running.clock.advance(0.1)  # so that it has rested since its last look
    running.until(lambda: written(running, running.files[0]) == [(1,)])
    assert written(running, running.files[1]) == []


def test_an_idle_run_writes_nothing(running: Running, log: Log) -> None:
    Feed.fed.put(1)
    for path in running.files:
        running.until(lambda path=path: written(running, path) == [(1,)])
    running.clock.advance(1.5)  # the positions are written
    running.until(lambda: all(one.position == 0 for one in Control(log, "p", running.clock).state.sinks.values()))
    Feed.fed.put(None)
    running.until(Feed.fed.empty)
    running.until(running.waiting)
    end = settled(lambda: log.bounds(offsets_topic("p"), 0).end)
    for _ in range(3):
        running.clock.advance(1.5)
        Feed.fed.put(None)  # the source says that there is nothing
        running.until(Feed.fed.empty)
    assert settled(lambda: log.bounds(offsets_topic("p"), 0).end) == end


def settled(figure: Callable[[], int]) -> int:
    """A figure that has not moved for a while."""
    wait, found = threading.Event(), figure()
    for _ in range(10):
        wait.wait(0.02)
        if figure() != found:
            return settled(figure)
    return found


def test_stopping_is_told_to_all_who_listen() -> None:
    stopping = StopEvent()
    listeners = [stopping.listener() for _ in range(3)]
    stopping.set()
    assert stopping.is_set()
    assert all(one.is_set() for one in listeners)


def test_sinks_are_given_nothing_that_tasks_have_begun_to_write(log: Log) -> None:
    woken = list[str]()
    unsettled = Unsettled(lambda: woken.append("woken"))
    control = Control.create(log, "p", ManualClock())
    log.create_topic(control.messages, part="pipeline")
    given: dict[str, Any] = {"control": control, "engine": None, "epoch": 1, "options": None, "clock": ManualClock()}
    context = RunContext(**given, stopping=threading.Event(), unsettled=unsettled)
    writer = log.claim(control.messages, 0, part="pipeline")
    writer.append([Record(b"t", b"{}")])
    unsettled.begin(1)
    writer.append([Record(b"t", b"{}")] * 3)
    assert (context.end(), context.settled()) == (4, 1)
    unsettled.end()
    unsettled.end()
    assert (context.settled(), woken) == (4, ["woken"])
