"""The most memory that a run takes, all of its processes together, for so many documents and for four times as many."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import mark
from bench.case import Case, Peak, Side, Skipped
from bench.machine import family
from bench.pipelines import documents, outcome
from bench.sizes import Sizes
from headwater.core.errors import Differs

TIMES = 4
_PROGRAM = 'from headwater.pipeline import Pipeline\nfrom headwater.pipeline.adaptors import file\np = Pipeline("memory")\n'
_PROGRAM += 'p.source("in", file("in.jsonl")).save("out", file("out/"))\n'
_EVERY = 0.05


def memory(folder: Path, sizes: Sizes) -> Iterator[Case | Skipped]:
    if not Path("/proc/self/status").exists():
        yield Skipped("memory", "the processes' memory is told by Linux only")
        return
    notes: dict[str, object] = {}
    more, less = sizes.memory * TIMES, sizes.memory
    yield Case(
        f"memory of file → file, {TIMES} × the documents",
        "run",
        Side(f"{more} documents", lambda: _run(folder, more, notes)),
        Side(f"{less} documents", lambda: _run(folder, less, notes)),
        mark.memory(1.25),
        shown="memory",
        rounds=1,
        warm=False,
        notes=notes,
    )


def _run(folder: Path, count: int, notes: dict[str, object]) -> Peak:
    """A run of its own, in a process of its own, watched from here."""
    work = folder / "memory"
    work.mkdir()
    documents.lines(work / "in.jsonl", count)
    (work / "program.py").write_text(_PROGRAM)
    command = [sys.executable, "-m", "headwater.cli", "pipeline", "run", "program.py"]
    try:
        with (work / "said").open("w") as output:
            env = os.environ | {"HEADWATER_SPARK__START": "eager"}  # both with Spark: the smaller run would end before it is there
            process = subprocess.Popen(command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        peaks = watched(process)
        if process.returncode:
            raise Differs(f"The run ended with {process.returncode}: {(work / 'said').read_text()[-500:]}", hint="Run it by hand.")
        outcome.of_lines((work / "out").glob("part-*"), documents.table(count))
        notes[f"MiB for {count} documents"] = {name: size >> 20 for name, size in peaks.items()}
        return Peak(1, peaks["all"])
    finally:
        shutil.rmtree(work)


def watched(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The peaks of the process and all that it has started, looked at until it ends.

    `all` is what lies in memory, without the pages of mapped files: those of the log's segments are the system's cache, which it takes
    back when it likes. With them it is `with mapped files`.
    """
    peaks = {"all": 0, "with mapped files": 0, "Java": 0, "Python": 0}
    while process.poll() is None:
        now = dict.fromkeys(peaks, 0)
        for pid in family(process.pid):
            name, own, mapped = _resident(pid)
            now["all"] += own
            now["with mapped files"] += own + mapped
            now["Java" if name.startswith("java") else "Python"] += own
        peaks = {name: max(peak, now[name]) for name, peak in peaks.items()}
        time.sleep(_EVERY)
    return peaks


def _resident(pid: int) -> tuple[str, int, int]:
    """A process's name, its bytes in memory that are its own, and those that are a file's; nothing where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return "", 0, 0
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    sizes = {name: int(fields[name][0]) << 10 for name in ("RssAnon", "RssFile", "RssShmem") if name in fields}
    return fields["Name"][0], sizes.get("RssAnon", 0) + sizes.get("RssShmem", 0), sizes.get("RssFile", 0)
