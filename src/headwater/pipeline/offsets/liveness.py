"""Whether a run lives. A run that was killed, or whose machine is lost, could not write that it has ended."""

from __future__ import annotations

import os
import socket
import threading
from typing import Literal

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import RunInfo

BEAT = 10.0  # seconds between two heartbeats of a run
PATIENCE = 60.0  # seconds without a heartbeat after which a run is `silent`
Life = Literal["running", "silent", "gone"]


def life(run: RunInfo | None, now: int) -> Life:
    """How a run is, at `now` in milliseconds since 1970.

    `gone`: it has ended, or its process on this machine has. `silent`: it has written no heartbeat for a minute: its machine may be
    lost, or it is held up and comes back. A new run fences it in both cases.
    """
    return "gone" if run is None or run.state != "running" else process_life(run.process, last_sign(run), now)


def process_life(process: str, beat: int, now: int) -> Life:
    """How a process HOST:NUMBER is that gave its last sign of life at `beat`. As `life`."""
    if _missing(process):
        return "gone"
    return "silent" if now - beat > PATIENCE * 1000 else "running"


def last_sign(run: RunInfo) -> int:
    """The time of a run's last heartbeat."""
    return max(run.beat, run.began)


def _missing(process: str) -> bool:
    """Whether a process of this machine has ended. Where another process has its number now, the heartbeats tell."""
    host, _, number = process.rpartition(":")
    if host != socket.gethostname() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it lives, under another user
        return False
    return _dead(int(number))


def _dead(number: int) -> bool:
    """Whether a process is a zombie: it has ended, and keeps its number until its parent waits for it.

    The letter is that of its first thread. While others have not ended, such as one that waits for the disk, it may still write.
    """
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            stat = file.read()
    except OSError:  # it has ended since; or a system without /proc, where the heartbeats tell
        return False
    fields = stat.rpartition(b")")[2].split()  # after the name, which may hold any byte
    return fields[0] in (b"Z", b"X") and int(fields[17]) <= 1


class Heartbeat:
    """Writes the heartbeat of a run to the offset log, in a thread of its own: a long compaction must not look like a death."""

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
                self._control.change_run(self._epoch, lambda run: [("run", msgspec.structs.replace(run, beat=self._clock.now_ms()))])
            except HeadwaterError:
                continue  # a full disk, a broker that is away: the sinks' loops report them
