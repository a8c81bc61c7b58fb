"""Running a pipeline in this process, timed. Its log is always on and synced: there is no way to run without one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.case import Sample
from bench.machine import processor_time
from bench.pipelines import documents
from headwater.core.errors import Differs
from headwater.core.settings import Settings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file
from headwater.pipeline.running.run import Run

NAME = "bench"


def timed(pipeline: Pipeline, data: Path, expected: int) -> Sample:
    """From the run's begin to its end, when the sink has all and its position is on the log. Spark runs already."""
    with EmbeddedLog(data) as log:
        made = Run(pipeline, log, Settings(data=data))
        begun, used = time.perf_counter(), processor_time()
        result = made.go()
        seconds, used = time.perf_counter() - begun, processor_time() - used
    if result.state != "done":
        raise Differs(f"The run ended {result.state}.", hint="See the offset log.")
    return Sample(expected, seconds, used)


def moved(
    folder: Path, expected: int, built: Callable[[Pipeline, Path], object], check: Callable[[Iterator[Path]], None]
) -> Callable[[], Sample]:
    """A round: a pipeline into a fresh folder through a fresh log, its outcome looked at, and all of it removed."""

    def once() -> Sample:
        out, data = folder / "out", folder / "data"
        pipeline = Pipeline(NAME)
        built(pipeline, out)
        try:
            sample = timed(pipeline, data, expected)
            check(out.glob("part-*"))
            return sample
        finally:
            shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(data, ignore_errors=True)

    return once


@dataclass(frozen=True, slots=True)
class Filled:
    """A data directory whose log holds everything that the source has. A new sink finds all of it waiting."""

    folder: Path
    source: Path
    count: int

    @property
    def data(self) -> Path:
        return self.folder / "data"


@contextmanager
def filled(folder: Path, count: int) -> Iterator[Filled]:
    """The log is filled once, by a run whose only sink takes nothing of it."""
    made = Filled(folder / "filled", folder / "filled" / "in.jsonl", count)
    made.folder.mkdir()
    documents.lines(made.source, count)
    filling = Pipeline(NAME)
    filling.source("in", file(str(made.source))).save("none", file(f"{made.folder}/none/"), namespace="^$")
    timed(filling, made.data, count)
    try:
        yield made
    finally:
        shutil.rmtree(made.folder, ignore_errors=True)
