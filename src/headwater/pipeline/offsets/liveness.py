"""Whether a run is still there. One that was killed, or whose machine is lost, could not say that it has ended."""

from __future__ import annotations

import os
import socket
import threading
from typing import Literal

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Change, RunInfo, State

BEAT = 10.0  # seconds between two signs of life of a run
PATIENCE = 60.0  # seconds without one, after which it is doubted
Life = Literal["running", "silent", "gone"]


def life(run: RunInfo | None, now: int) -> Life:
    """How a run is, at `now` in milliseconds since 1970.

    `gone`: it has ended, or its process on this machine is no more. `silent`: it has given no sign of life for a minute, so that its
    machine may be lost; or it is held up, and comes back. Only a new run can tell, which shuts it out.
    """
    if run is None or run.state != "running" or _missing(run.process):
        return "gone"
    return "silent" if now - last_sign(run) > PATIENCE * 1000 else "running"


def last_sign(run: RunInfo) -> int:
    """When a run last said that it lives."""
    return max(run.beat, run.began)


def _missing(process: str) -> bool:
    """Whether this is a process of this machine that is no more. That another one has its number now, the signs of life tell."""
    host, _, number = process.rpartition(":")
    if host != socket.gethostname() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is there, and somebody else's
        return False
    return _dead(int(number))


def _dead(number: int) -> bool:
    """Whether a process has ended, and only its parent has not taken note of it: it still has its number then, and is signalled in vain."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            said = file.read()
    except OSError:  # gone since; or a system that tells it elsewhere, where the signs of life have to do
        return False
    return said.rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"])  # behind the name, which may hold anything


class Heartbeat:
    """Says at intervals in the offset log that a run lives, in a thread of its own: a long compaction must not look like a death."""

    def __init__(self, control: Control, epoch: int, clock: Clock) -> None:
        self._control, self._epoch, self._clock = control, epoch, clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"headwater {control.pipeline} heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._clock.wait(self._ended, BEAT):
            try:
                self._control.change(self._sign)
            except HeadwaterError:
                continue  # a full disk, a broker that is away: told by whoever has more to write than this

    def _sign(self, state: State) -> list[Change]:
        if state.run is None or state.run.epoch != self._epoch:
            return []
        return [("run", msgspec.structs.replace(state.run, beat=self._clock.now_ms()))]
