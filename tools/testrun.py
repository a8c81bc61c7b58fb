"""Runs the suites one after the other, the quick ones first, and says at the end what ran.

python -m tools.testrun           every suite with short counts
python -m tools.testrun --soak    the long counts: kill rounds, power cuts, model seeds
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

PASSED = "passed"
ROOT = Path(__file__).resolve().parent.parent
MEMORY = Path("/dev/shm")
ROOM = 4 << 30  # bytes that must be free there: a run of the unit tests writes one GiB


class Suite(msgspec.Struct, frozen=True):
    """A call of pytest. `workers`: how many processes; in suites that start Spark or servers each keeps to whole files, which share them.
    Where tests often wait for other processes there are more workers than cores.

    `again`: what fails is run a second time, and said to have been: real servers are slow at times through no fault of anybody here. The
    soak runs the same suites without it: there a test that needs a second try is a failure.

    `memory`: its files are in memory where there is room, and gone at the end. Thousands of small tests would wait for the disk in most of
    their time; contracts, faults and acceptance write to it.
    """

    name: str
    arguments: list[str]
    workers: int = 0
    files: bool = False
    again: bool = False
    memory: bool = False


def spark_files() -> list[str]:
    """The files that speak of the mark: collecting all the others to leave them out takes three processes ten seconds each."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py") if "mark.spark" in path.read_text())


SUITES = [
    Suite("unit", ["tests/unit", "-m", "not soak and not spark"], 3, memory=True),
    Suite("contract", ["tests/contract", "-m", "not soak and not service"], 2),
    Suite("faults", ["tests/faults"], 2),
    Suite("acceptance", ["tests/acceptance", "-m", "not soak and not spark and not service"], 3),
    Suite("spark", [*spark_files(), "-m", "spark and not service and not soak"], 2, files=True, again=True),
    Suite("services", ["tests/contract", "tests/acceptance", "tests/services", "-m", "service and not soak"], 3, files=True, again=True),
]

SOAK = [
    Suite("soak", ["tests", "-m", "soak"], 2, files=True),
    Suite("unit", ["tests/unit", "-m", "not soak and not spark"], 2, memory=True),
    Suite("faults", ["tests/faults"], 2),
    *(msgspec.structs.replace(suite, again=False) for suite in SUITES if suite.again),
]
LONG = {  # not HEADWATER_…: headwater refuses settings that it does not know
    "SOAK_EXAMPLES": "1000",  # of every property test
    "SOAK_KILL_ROUNDS": "500",  # on disk and in memory: 1 000 in all
    "SOAK_REPLICATOR_KILLS": "100",  # under load
    "SOAK_PROJECTION_KILLS": "100",
    "SOAK_POWER_ROUNDS": "3000",
    "SOAK_REPLAYS": "40",  # recorded lives, each cut at many moments
    "SOAK_INJECTIONS": "all",
    "SOAK_ROT_ROUNDS": "5000",
    "SOAK_READER_APPENDS": "20000",
    "SOAK_QUEUE_ROWS": "20000",  # of 64 KiB each
}


@contextmanager
def placed(suite: Suite, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment with the place for the suite's temporary files. In memory programs must run as well: tests write some."""
    if (
        not suite.memory
        or not os.access(MEMORY, os.W_OK)
        or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
        or shutil.disk_usage(MEMORY).free < ROOM
    ):
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="headwater-", dir=MEMORY) as path:
        yield {**environment, "TMPDIR": path}


class Outcome(NamedTuple):
    """How a suite ended. `again`: the tests that passed at the second try only."""

    word: str
    seconds: float
    again: tuple[str, ...] = ()


def run(suite: Suite, environment: dict[str, str]) -> Outcome:
    # A cache of its own, emptied first: the second try is to run what failed just now, and nothing that failed in another suite or run.
    plain = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir=.pytest_cache/{suite.name}", *suite.arguments]
    shared = ["-n", str(suite.workers), "--dist", "loadfile" if suite.files else "load"] if suite.workers else []
    command = [*plain, "--cache-clear", *shared]
    print(f"\n== {suite.name}: {' '.join(word for word in suite.arguments if not word.endswith('.py'))}", flush=True)
    started = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    outcome, again = PASSED if code == 0 else f"FAILED ({code})", tuple[str, ...]()
    if code == 1 and suite.again:
        failed = failed_last(suite)
        print(f"\n== {suite.name}: what failed, once more", flush=True)
        if subprocess.run([*plain, "--last-failed"], cwd=ROOT, env=environment).returncode == 0:
            outcome, again = f"{PASSED} at the second try", failed
    return Outcome(outcome, time.monotonic() - started, again)


def failed_last(suite: Suite) -> tuple[str, ...]:
    """The tests that failed in the suite's last run."""
    noted = ROOT / ".pytest_cache" / suite.name / "v" / "cache" / "lastfailed"
    return tuple(sorted(json.loads(noted.read_text()))) if noted.exists() else ()


def summary(done: Mapping[str, Outcome]) -> list[str]:
    """A line for each suite, and below them the tests that needed a second try."""
    lines = [f"{name:12} {outcome.word:26} {outcome.seconds:6.0f} s" for name, outcome in done.items()]
    return lines + [f"{name:12} second try: {test}" for name, outcome in done.items() for test in outcome.again]


def main(arguments: list[str]) -> int:
    reader = argparse.ArgumentParser(prog="python -m tools.testrun", description="Run suites of tests, all of them unless some are named.")
    reader.add_argument("names", nargs="*", metavar="SUITE", help=f"one of {', '.join(suite.name for suite in SUITES)}")
    reader.add_argument("--soak", action="store_true", help="the long counts instead")
    options = reader.parse_args(arguments)
    soak, names = options.soak, options.names
    known = SOAK if soak else SUITES
    if unknown := [name for name in names if name not in {suite.name for suite in known}]:
        print(f"there is no suite {unknown[0]!r}; there are {', '.join(suite.name for suite in known)}", file=sys.stderr)
        return 2
    suites = [suite for suite in known if not names or suite.name in names]
    environment = {**os.environ, **(LONG if soak else {})}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would compile every module anew
    if any(suite.name == "services" for suite in suites):  # fetched while the quick suites run; where that fails, the tests tell why
        subprocess.Popen([sys.executable, "-m", "tools.services", "fetch"], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    done = {}
    for suite in suites:
        with placed(suite, environment) as placed_environment:
            done[suite.name] = run(suite, placed_environment)
    print()
    for line in summary(done):
        print(line)
    bad = [name for name, outcome in done.items() if not outcome.word.startswith(PASSED)]
    print(f"{len(done) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
