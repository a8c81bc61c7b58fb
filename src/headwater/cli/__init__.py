"""The command line: `headwater COMMAND`. One file per group of commands; each command only parses, calls what lies below, and prints."""

from __future__ import annotations

import sys


def main() -> None:
    """The program: run the command in `sys.argv` and end with its exit code."""
    try:
        from headwater.cli.running import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while the program is still being loaded: nothing has begun
        code = 130
    sys.exit(code)
