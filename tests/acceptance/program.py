"""Runs the real `headwater` program, as a user's shell would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

PROGRAM = str(Path(sys.executable).parent / "headwater")


class Ran(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """One JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def problem(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.err)
        return found


class Commands(Protocol):
    """Runs commands in another way than by starting the program."""

    def __call__(self, *words: str, home: Path, env: dict[str, str], stdin: str = "") -> Ran: ...

    def popen(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], **options: Any) -> subprocess.Popen[str]: ...


def environment(**more: str) -> dict[str, str]:
    """This process's environment without settings of its own: only what a test gives counts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_") or name == "HEADWATER_CACHE"}
    return kept | {"NO_COLOR": "1", "COLUMNS": "100"} | more


class Program:
    """`headwater` in a directory of its own, with its data in `data`. `forked_program` runs commands without starting Python for each."""

    def __init__(self, home: Path, forked_program: Commands | None = None) -> None:
        self.home, self.data = home, home / "data"
        self._forked = forked_program

    def __call__(self, *words: str, stdin: str = "", **env: str) -> Ran:
        if self._forked is not None:
            return self._forked(*words, home=self.home, env=environment(**env), stdin=stdin)
        done = subprocess.run(
            [PROGRAM, *words], cwd=self.home, env=environment(**env), input=stdin, capture_output=True, text=True, timeout=120
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """A command that goes on; whoever starts it ends it."""
        popen: Any = subprocess.Popen if self._forked is None else self._forked.popen
        started: subprocess.Popen[str] = popen(
            [PROGRAM, *words], cwd=self.home, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return started
