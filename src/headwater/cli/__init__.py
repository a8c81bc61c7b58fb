"""The command line: `headwater COMMAND`. One file per group of commands; each command parses its arguments, calls the door, and prints the
answer."""

from __future__ import annotations

import contextlib
import os
import sys

_INTERRUPTED, _TERMINATED = 130, 143


def main() -> None:
    """The program: run the command in `sys.argv` and end with its exit code."""
    try:
        from headwater.cli.running import run

        code = run(sys.argv[1:])
        if code in (_INTERRUPTED, _TERMINATED):
            _end_now(code)
    except KeyboardInterrupt:  # while the program is still loading: no command has begun
        code = _INTERRUPTED
    sys.exit(code)


def _end_now(code: int) -> None:
    """End without waiting for the threads of an interrupted command: like a crash, this loses nothing acknowledged."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
