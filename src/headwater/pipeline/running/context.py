"""What the reader and the sinks' loops of a run share: the log, the clock, the stop event, and the states that they report."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.log import Log
from headwater.pipeline.definition import Options
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.overlap import OverlapCheck
from headwater.pipeline.running.engine import Engine

PATIENCE = 300.0  # seconds that a run which does not follow changes waits for a source or sink


class Activity(StrEnum):
    """What the reader or a sink's loop does."""

    STARTING = "starting"
    COPYING = "copy"
    FOLLOWING = "sync"
    DELIVERING = "delivering"
    WAITING = "waiting"
    RETRYING = "retrying"
    UNREACHABLE = "unreachable"
    STOPPED = "stopped"
    FAILED = "failed"
    DONE = "done"


class LoopState(msgspec.Struct, frozen=True):
    """The activity of one of them; `message`: the reason, or the message that it is about. Its text is for people."""

    activity: Activity
    message: str = ""

    @property
    def unreachable(self) -> str:
        """Why the source or sink cannot be reached; empty where it can."""
        return self.message if self.activity is Activity.UNREACHABLE else ""

    def __str__(self) -> str:
        return f"{self.activity}: {self.message}" if self.message else str(self.activity)


class Unsettled:
    """Where records begin of which the run does not know yet whether they count: those of tasks that read the source on Kafka."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        """`wake` is called when it is known of all records."""
        self._wake = wake
        self.start: int | None = None

    def begin(self, offset: int) -> None:
        """Tasks write from `offset` on. Sinks are given nothing of it."""
        self.start = offset

    def end(self) -> None:
        """The offset log says which records of the tasks count."""
        if self.start is not None:
            self.start = None
            self._wake()


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run. `stopping` is set when it is to end; `follow`: it follows changes until then."""

    control: Control
    engine: Engine
    epoch: int
    options: Options
    clock: Clock
    stopping: threading.Event
    follow: bool = False
    overlap: OverlapCheck | None = None
    unsettled: Unsettled = field(default_factory=Unsettled)
    begun: int | None = None  # the log's end before this run has read anything; None: it reads nothing

    @property
    def log(self) -> Log:
        return self.control.log

    @property
    def topic(self) -> str:
        return self.control.messages

    def end(self) -> int:
        """The end of the message log."""
        return self.log.bounds(self.topic, 0).end

    def settled(self) -> int:
        """The offset up to which sinks may be given messages."""
        end, start = self.end(), self.unsettled.start  # in this order: tasks that begin in between write behind that end
        return end if start is None else min(start, end)


class Patience:
    """Waits for a source or sink that cannot be reached, longer each time: for `PATIENCE`, or for ever where the run follows changes."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.reached()

    def reached(self) -> None:
        """It was reached: the wait begins anew."""
        self._since: float | None = None
        self._pause = 0.5

    def wait(self, error: HeadwaterError, on_wait: Callable[[], None]) -> None:
        """Call `on_wait`, and wait before the next try. Errors: `error`, when patience has ended."""
        now = self._context.clock.monotonic()
        self._since = now if self._since is None else self._since
        if not self._context.follow and now - self._since > PATIENCE:
            raise error
        on_wait()
        self._context.clock.wait(self._context.stopping, self._pause)
        self._pause = min(30.0, self._pause * 2)


class StopEvent(threading.Event):
    """Set when the run is to end. It wakes the run's loops, and so does `wake`.

    A loop clears its own event, looks for work, and then waits for the event: it misses no change.
    """

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[threading.Event] = []
        self.attention = threading.Event()
        """Set with it, once. Whoever watches the loops clears it, and sets it when one of them ends."""

    def listener(self) -> threading.Event:
        """A new event for one loop."""
        self._listeners.append(threading.Event())
        return self._listeners[-1]

    def wake(self) -> None:
        for event in self._listeners:
            event.set()

    def set(self) -> None:
        super().set()
        self.attention.set()
        self.wake()
