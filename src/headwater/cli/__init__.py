"""The command line: `headwater COMMAND`. One file per group of commands; each command only parses, calls what lies below, and prints."""

from __future__ import annotations

import sys


def main() -> None:
    """The program: run the command in `sys.argv` and end with its exit code."""
    from headwater.cli.running import run

    sys.exit(run(sys.argv[1:]))
