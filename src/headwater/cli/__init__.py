"""The command line: `headwater COMMAND`. One file per group of commands; each command only parses, calls what lies below, and prints."""

from __future__ import annotations

import contextlib
import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """The program: run the command in `sys.argv` and end with its exit code."""
    try:
        from headwater.cli.running import run

        code = run(sys.argv[1:])
        if code == _INTERRUPTED:
            _end_now(code)
    except KeyboardInterrupt:  # while the program is still being loaded: nothing has begun
        code = _INTERRUPTED
    sys.exit(code)


def _end_now(code: int) -> None:
    """End without waiting for threads that still work for an interrupted command: that is as in a crash, which loses nothing."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
