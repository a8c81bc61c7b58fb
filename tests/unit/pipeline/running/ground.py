"""What tests of runs share. No Spark is started."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record, TopicSettings
from headwater.log.record import Mode
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.adaptors import file
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, ReaderState, SinkState, Unheld
from headwater.pipeline.running.run import Result, Run
from headwater.pipeline.transform import Transform
from headwater.store.sqlite.library import connect

PLAN: dict[str, Any] = {"identity": {}, "slices": []}


def prepared(log: Log, documents: Sequence[bytes], sinks: dict[str, SinkState], *, mode: Mode = Mode.COPY, op: int = 0) -> Control:
    """A log that holds these documents and is read to its end; and sinks as they are said to be."""
    log.create_topic(log_topic("p"), settings=TopicSettings(), part=PART)
    writer = log.claim(log_topic("p"), 0, part=PART)
    writer.append([Record(b"t", one, mode=mode, op=op) for one in documents])
    control = Control.create(log, "p", SystemClock())
    changes: list[Change] = [("reader", ReaderState(run="r", plan=PLAN, begun=0, upto=len(documents), copied=True))]
    changes += [(f"sink/{name}", state) for name, state in sinks.items()]
    # What the sinks are said to have taken is not in their targets.
    changes += [(f"unheld/{name}", Unheld(((0, state.position + 1),))) for name, state in sinks.items() if state.position >= 0]
    control.change(lambda state: changes)
    return control


def piped(
    folder: Path, sinks: dict[str, Adaptor], *, source: Adaptor | None = None, transforms: Sequence[Transform] = (), **options: Any
) -> Pipeline:
    """The pipeline `p` from a source, or from an empty file, to these sinks."""
    if not (folder / "empty.jsonl").exists():  # one that is touched has changed
        (folder / "empty.jsonl").touch()
    pipeline = Pipeline("p", **options)
    rows = pipeline.source("s", source or file(str(folder / "empty.jsonl"))).transform(*transforms)
    for name, adaptor in sinks.items():
        rows.save(name, adaptor)
    return pipeline


def gone(log: Log, folder: Path, pipeline: Pipeline, **options: Any) -> Result:
    """A run to its end."""
    return Run(pipeline, log, Settings(data=folder / "data", spark=SparkSettings(start="never")), **options).go()


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Of a database that a run in this process may have open: so by the sink's library, lest its locks be dropped."""
    with closing(connect(path, timeout=30)) as db:
        return db.execute(query).fetchall()
