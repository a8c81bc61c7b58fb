"""The command line: `headwater COMMAND`. One file per group of commands; each command parses its arguments, calls the door, and prints the
answer."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType

_INTERRUPTED, _TERMINATED = 130, 143


def main() -> None:
    """The program: run the command in `sys.argv` and end with its exit code.

    SIGTERM ends a command as Ctrl-C does, from the first moment on, and with a code of its own; commands that can stop in order handle
    both themselves.
    """
    terminated: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        terminated.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        from headwater.cli.running import run

        code = run(sys.argv[1:])
        if code == _INTERRUPTED and terminated:  # by a command that does not handle it
            sys.stderr.write("headwater: Stopped by SIGTERM.\n")
            code = _TERMINATED
        if code in (_INTERRUPTED, _TERMINATED):
            _end_now(code)
    except KeyboardInterrupt:  # while the program is still loading: no command has begun
        sys.stderr.write("headwater: Stopped before the command began. Nothing has changed.\n")
        code = _TERMINATED if terminated else _INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    sys.exit(code)


def _end_now(code: int) -> None:
    """End without waiting for the threads of an interrupted command: like a crash, this loses nothing acknowledged."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
