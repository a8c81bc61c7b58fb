"""File to a log on Kafka: Spark's tasks read and append, beside a run that reads by itself, and beside the embedded log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench.case import Case, Sample, Side, Skipped
from bench.kafka import NoBroker, broker
from bench.machine import processor_time
from bench.pipelines import documents
from bench.pipelines.moving import NAME, timed
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.core.ids import random_id
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file
from headwater.pipeline.offsets.control import log_topic, offsets_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.running.run import Run


def kafka_copy(folder: Path, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Only reading is timed: the sink takes nothing. One slice is what the run reads by itself. Processor time is that of all processes
    below this one, Spark's Java and Python workers included."""
    source = documents.lines(folder / "in.jsonl", sizes.documents)
    try:
        with broker() as servers:
            from headwater.log.kafka.log import KafkaLog

            with KafkaLog(servers) as log:
                alone = Side("the run reads", lambda: _read(log, folder, source, sizes.documents, slices=1))
                tasks = Side("tasks read", lambda: _read(log, folder, source, sizes.documents, slices=0))
                embedded = Side("tasks read, embedded", lambda: _embedded(folder, source, sizes.documents))
                yield Case("file → Kafka log", "document", tasks, alone, rounds=sizes.rare)
                yield Case("file → Kafka log beside embedded", "document", tasks, embedded, rounds=sizes.rare)
    except NoBroker as none:
        yield Skipped("file → Kafka log", str(none))
    finally:
        source.unlink()


def _pipeline(folder: Path, source: Path, name: str, slices: int) -> Pipeline:
    made = Pipeline(name, slices=slices)
    made.source("in", file(str(source))).save("none", file(f"{folder}/none-{name}/"), namespace="^$")
    return made


def _read(log: Log, folder: Path, source: Path, expected: int, *, slices: int) -> Sample:
    name = f"{NAME}-{random_id()}"
    run = Run(_pipeline(folder, source, name, slices), log, Settings(data=folder / "kafka"))
    begun, used = time.perf_counter(), processor_time()
    try:
        result = run.go()
        seconds, used = time.perf_counter() - begun, processor_time() - used
        if (result.state, result.read) != ("done", expected):
            raise Differs(f"The run ended {result.state} with {result.read} documents.", hint="See the offset log.")
        return Sample(expected, seconds, used)
    finally:
        for topic in (log_topic(name), offsets_topic(name)):
            log.delete_topic(topic, part=PART)


def _embedded(folder: Path, source: Path, expected: int) -> Sample:
    name = f"{NAME}-{random_id()}"
    return timed(_pipeline(folder, source, name, 0), folder / f"data-{name}", expected)
