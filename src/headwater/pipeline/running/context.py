"""What the reader and the sinks' loops of a run share: the log, the clock, the stop, and how each says what it does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.log import Log
from headwater.pipeline.definition import Options
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.running.engine import Engine

PATIENCE = 300.0  # seconds that something unreachable is waited for where nothing is followed


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
    """What one of them does now; `message`: why, or with what. Its text is for people."""

    activity: Activity
    message: str = ""

    @property
    def unreachable(self) -> str:
        """Why what it waits for cannot be reached; empty where it does not wait."""
        return self.message if self.activity is Activity.UNREACHABLE else ""

    def __str__(self) -> str:
        return f"{self.activity}: {self.message}" if self.message else str(self.activity)


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run. `stopping` is set when it is to end; `follow`: it goes on with what changes until then."""

    control: Control
    engine: Engine
    epoch: int
    options: Options
    clock: Clock
    stopping: threading.Event
    follow: bool = False

    @property
    def log(self) -> Log:
        return self.control.log

    @property
    def topic(self) -> str:
        return self.control.messages

    def end(self) -> int:
        """The end of the message log."""
        return self.log.bounds(self.topic, 0).end


class Patience:
    """Waits for what cannot be reached, longer each time: for five minutes, or for ever where changes are followed."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.reached()

    def reached(self) -> None:
        """It was reached: the next failure is the first one."""
        self._since: float | None = None
        self._pause = 0.5

    def wait(self, error: HeadwaterError, told: Callable[[], None]) -> None:
        """Wait before the next try, which `told` hears of. Errors: `error`, when it has lasted too long."""
        now = self._context.clock.monotonic()
        self._since = now if self._since is None else self._since
        if not self._context.follow and now - self._since > PATIENCE:
            raise error
        told()
        self._context.clock.wait(self._context.stopping, self._pause)
        self._pause = min(30.0, self._pause * 2)


class Changes:
    """Events of the run's loops, all of which are set by `tell`. A loop clears its own, looks, and then waits for it: nothing is missed."""

    def __init__(self) -> None:
        self._listeners: list[threading.Event] = []

    def listener(self) -> threading.Event:
        """An event for one loop."""
        event = threading.Event()
        self._listeners.append(event)
        return event

    def tell(self) -> None:
        for event in self._listeners:
            event.set()


class StopEvent(threading.Event):
    """Set when the run is to end: all loops hear of it, whatever they wait for."""

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def set(self) -> None:
        super().set()
        self._changes.tell()
