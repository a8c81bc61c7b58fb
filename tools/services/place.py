"""Where servers live on this machine: downloads in the cache folder; configuration, data, logs and process ids in the run folder."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.core.errors import Unavailable
from headwater.spark.java import cache_folder

Say = Callable[[str], None]


def say_on_stderr(line: str) -> None:
    print(f"services: {line}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Place:
    """The two folders, both outside the repository, where to tell what is being done, and how to wait."""

    cache: Path
    run: Path
    say: Say = say_on_stderr
    wait: Callable[[float], None] = time.sleep  # between two attempts at a download

    @staticmethod
    def usual(run: str | Path | None = None, *, env: Mapping[str, str] | None = None, say: Say = say_on_stderr) -> Place:
        """The cache folder of the user; the run folder given, or `HEADWATER_SERVICES`, or `run` inside the cache folder."""
        env = os.environ if env is None else env
        cache = cache_folder(env)
        return Place(cache, Path(run or env.get("HEADWATER_SERVICES") or cache / "run").absolute(), say)


@contextmanager
def locked(path: Path, say: Say, waiting: str) -> Iterator[None]:
    """Hold the lock file `path`; the system lets it go when its holder dies. `waiting` is said when another process has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as problem:
        raise Unavailable(
            f"{path.parent} cannot be written: {problem.strerror}.",
            hint="Set HEADWATER_CACHE and HEADWATER_SERVICES to folders that you can write to.",
        ) from problem
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def tail(path: Path, lines: int = 30) -> str:
    """The last lines of a log, for an error message."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 64_000))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"
