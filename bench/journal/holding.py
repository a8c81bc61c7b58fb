"""What a replicator takes: memory, however much it finds to copy; and no Java while there is nothing to copy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import mark
from bench.case import Case, Peak, Sample, Side, Skipped
from bench.journal.filled import fill, store_file
from bench.machine import family
from bench.pipelines.memory import watched
from bench.place import Place
from bench.sizes import Sizes
from bench.waiting import nap, spent
from headwater.core.errors import Differs

_TIMES = 4
_EVENTS = 10  # of a journal
_COMMAND = [sys.executable, "-m", "headwater.cli", "journal", "replicate"]


def holding(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    if not Path("/proc/self/status").exists():
        yield Skipped("journal replicator's memory", "the processes' memory is told by Linux only")
        return
    notes: dict[str, object] = {}
    more, less = sizes.backlog, max(_EVENTS, sizes.backlog // _TIMES)
    yield Case(
        f"journal replicator's memory, {more:,} records behind",
        "run",
        Side(f"{more:,} records", partial(_copied, place, more, notes)),
        Side(f"{less:,} records", partial(_copied, place, less, notes)),
        mark.memory(1.25),
        shown="memory",
        rounds=1,
        warm=False,
        notes=notes,
    )
    yield Case(
        "journal replicator, idle",
        "second",
        Side("headwater journal replicate, without Java", lambda: _idle(place, sizes)),
        Side("a process that wakes each 100 ms", lambda: nap(place, sizes)),
        mark.time(0.010, "≤ 10 ms of a processor per second (1 %), no Java"),
        shown="time",
        rounds=sizes.rare,
        warm=False,
    )


def _copied(place: Place, records: int, notes: dict[str, object]) -> Peak:
    """A replicator that copies all of it with Spark and ends, watched from here."""
    with place.sub("backlog") as folder:
        data = folder / "data"
        fill(data, journals=max(1, records // _EVENTS), events=_EVENTS)
        with (folder / "said").open("w") as output:
            env = os.environ | {"HEADWATER_SPARK__START": "eager"}  # both with Spark: the smaller one would end before it is there
            command = [*_COMMAND, "--once", "--data", str(data)]
            process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        peaks = watched(process)
        if process.returncode:
            raise Differs(f"The replicator ended with {process.returncode}: {(folder / 'said').read_text()[-500:]}", hint="Run it by hand.")
        notes[f"MiB for {records} records"] = {name: size >> 20 for name, size in peaks.items()}
        return Peak(1, peaks["all"])


def _idle(place: Place, sizes: Sizes) -> Sample:
    """Errors: `Differs` where a Java process runs for it."""
    with place.sub("idle") as folder:
        data = folder / "data"
        fill(data, journals=_EVENTS, events=_EVENTS)
        java: list[str] = []

        def ready() -> bool:
            return store_file(data, 0).exists()

        def look(pid: int) -> None:
            java.extend(name for descendant in family(pid) if (name := _name(descendant)).startswith("java"))

        sample = spent([*_COMMAND, "--data", str(data)], folder, ready, sizes.idle, look)
        if java:
            raise Differs("A replicator with nothing to copy runs Java.", hint="See journal.small and spark.start.")
        return sample


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:  # it has ended
        return ""
