"""The two ways of the `sql` transform: in Spark's tasks and in the driver. Processor time of the run, its Java and its workers."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from bench.case import Case, Sample, Side, Skipped
from bench.machine import processor_time
from bench.pipelines import documents
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.errors import Differs, HeadwaterError
from headwater.core.settings import SparkSettings
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline, sql
from headwater.pipeline.adaptors import file
from headwater.pipeline.offsets.ownership import PART, PREFIX
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.part_delivery import deliver_part
from headwater.pipeline.running.sql_delivery import SqlDelivery
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.sink_adaptor import Part
from headwater.pipeline.transform import Transform

NAME = "bench"
SMALL = 100  # messages of a small round
_TABLE = 100_000  # messages that the driver takes at once, as a run gives them to it
_FILLING = 10_000
Deliver = Callable[[SinkWork, Sequence[Part]], "list[Outcome] | None"]


def sql_ways(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """A filled log into files: many documents at once, and a hundred."""
    from pyspark.sql import SparkSession

    from headwater.spark import session

    if not Path("/proc/self/stat").exists():
        yield Skipped("sql", "the processor time of other processes is told by Linux only")
        return
    was_running = SparkSession.getActiveSession() is not None
    try:
        started = session(archive="use")
    except HeadwaterError as problem:
        yield Skipped("sql", str(problem))
        return
    try:
        with place.sub("sql") as folder, EmbeddedLog(folder / "data") as log:
            filled(log, sizes.documents)
            cores = started.sparkContext.defaultParallelism
            engine = Engine(log, SparkSettings(start="eager"), stopping=threading.Event())
            ways = {"tasks": by_tasks(log, engine), "driver": by_driver(log)}
            computed, left_out = sql("*, price * qty AS total"), sql("* EXCEPT (card)")
            for label, transform in (("with one more", computed), ("without a field", left_out)):
                many = Delivered(folder, transform, sizes.documents, cores=cores)
                tasks, driver = (Side(way, partial(many.round, way, ways[way])) for way in ("tasks", "driver"))
                yield Case(
                    f"sql {label}, {sizes.documents:,} documents",
                    "document",
                    tasks,
                    driver,
                    rounds=sizes.few,
                    notes={"elapsed": many.elapsed},
                )
            few = Delivered(folder, computed, SMALL, cores=cores)
            driver, tasks = (Side(way, partial(few.round, way, ways[way])) for way in ("driver", "tasks"))
            yield Case(f"sql with one more, {SMALL} documents", "document", driver, tasks, rounds=sizes.few, notes={"elapsed": few.elapsed})
    finally:
        if not was_running:
            started.stop()


def filled(log: Log, count: int) -> None:
    """The topic of a pipeline's messages with so many documents in it."""
    log.create_topic(f"{PREFIX}{NAME}", part=PART)
    writer = log.claim(f"{PREFIX}{NAME}", 0, part=PART)
    lines = documents.texts(count)
    for first in range(0, count, _FILLING):
        writer.append([Record(b"in", line) for line in lines[first : first + _FILLING]])


class Delivered:
    """Rounds of one sink: the first `count` documents of the log, in a part for each core, into a fresh folder of files."""

    def __init__(self, folder: Path, transform: Transform, count: int, *, cores: int) -> None:
        self._out, self.count = folder / "out", count
        self.elapsed: dict[str, list[float]] = {}  # by way, the seconds of every round: how much the ways do side by side
        pipeline = Pipeline(NAME)
        pipeline.source("in", file(str(folder))).transform(transform).save("out", file(f"{self._out}/"))
        self._work = SinkWork(pipeline=NAME, topic=f"{PREFIX}{NAME}", sink=pipeline.sinks["out"], epoch=1)
        cuts = [count * i // cores for i in range(cores + 1)]
        self._parts = [self._work.part(NAME, start, end) for start, end in pairwise(cuts)]

    def round(self, way: str, deliver: Deliver) -> Sample:
        self._work.sink.adaptor.begin(NAME, "out", 1)
        begun, began = processor_time(), time.perf_counter()
        outcomes = deliver(self._work, self._parts)
        seconds, elapsed = processor_time() - begun, time.perf_counter() - began
        self.elapsed.setdefault(way, []).append(round(elapsed, 3))
        shutil.rmtree(self._out, ignore_errors=True)
        written = sum(outcome.written for outcome in outcomes or ())
        if written != self.count:
            raise Differs(f"{written} documents were written, not {self.count}.", hint="See why a part has ended early.")
        return Sample(self.count, seconds)


def by_tasks(log: Log, engine: Engine) -> Deliver:
    """What is planned is planned in every round, as for a run of its own."""

    def tasks(work: SinkWork, parts: Sequence[Part]) -> list[Outcome] | None:
        return SqlDelivery(work.sink, log, engine, least=1).deliver_in_tasks(work, parts, batch=1000)

    return tasks


def by_driver(log: Log) -> Deliver:
    def driver(work: SinkWork, parts: Sequence[Part]) -> list[Outcome]:
        return [deliver_part(log, work, part, batch=_TABLE) for part in parts]

    return driver
