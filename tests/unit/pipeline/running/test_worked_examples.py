"""The worked examples of the design that pipelines follow, with their exact numbers: resuming, a failed batch, skipping, compaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from headwater.adaptors.sqlite.sink import SqliteWriter
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record, TopicSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, ReaderState, SinkState, Unheld
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.running.run import Result, Run
from headwater.pipeline.sink_adaptor import Batch

KEYS = "AABBAABBCACBAACB"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


def prepared(log: Log, keys: str, sinks: dict[str, int], *, segment: int = 256 << 20) -> Control:
    """A log whose message N is {"_id": N} under the Nth key, read to its end; and sinks at their positions."""
    log.create_topic(log_topic("p"), settings=TopicSettings(segment=segment), part=PART)
    writer = log.claim(log_topic("p"), 0, part=PART)
    for number, key in enumerate(keys):
        writer.append([Record(key.encode(), b'{"_id":%d}' % number)])
    control = Control.create(log, "p", SystemClock())
    changes: list[Change] = [("reader", ReaderState(run="r", plan={"identity": {}, "slices": []}, begun=0, upto=len(keys), copied=True))]
    changes += [(f"sink/{name}", SinkState(position=position)) for name, position in sinks.items()]
    changes += [(f"unheld/{name}", Unheld(((0, position + 1),))) for name, position in sinks.items()]  # it is not in their targets
    control.change(lambda state: changes)
    return control


def run(log: Log, folder: Path, sinks: Sequence[str], **options: str) -> Result:
    (folder / "empty.jsonl").touch()
    pipeline = Pipeline("p", **options)  # type: ignore[arg-type]
    rows = pipeline.source("s", file(str(folder / "empty.jsonl")))
    for name in sinks:
        rows.save(name, sqlite(str(folder / f"{name}.db"), table="t"))
    return Run(pipeline, log, Settings(data=folder / "data", spark=SparkSettings(start="never"))).go()


def taken(folder: Path, sink: str) -> list[int]:
    with closing(sqlite3.connect(folder / f"{sink}.db")) as db, db:
        return [row[0] for row in db.execute("select _id from t order by 1")]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The batches that were written without an error, in their order."""
    batches: list[tuple[int, int]] = []
    write = SqliteWriter.write

    def noting(writer: SqliteWriter, batch: Batch) -> None:
        write(writer, batch)
        batches.append((batch.start, batch.end))

    monkeypatch.setattr(SqliteWriter, "write", noting)
    return batches


def refuse(folder: Path, sink: str, number: int) -> None:
    with closing(sqlite3.connect(folder / f"{sink}.db")) as db, db:
        db.execute(f"create table t (_id integer primary key check (_id <> {number}))")


def test_each_sink_gets_exactly_what_lies_behind_its_position(log: Log, tmp_path: Path) -> None:
    control = prepared(log, KEYS, {"c0": 12, "c1": 13})
    result = run(log, tmp_path, ["c0", "c1"])
    assert taken(tmp_path, "c0") == [13, 14, 15]
    assert taken(tmp_path, "c1") == [14, 15]
    assert [one.position for one in result.sinks] == [15, 15]
    assert log.bounds(log_topic("p"), 0).end == 16
    assert control.refresh().taken["c0"] == {"A": 13, "B": 15, "C": 14}


def test_a_failed_batch_goes_one_at_a_time_and_stops_before_the_message_that_is_refused(
    log: Log, tmp_path: Path, written: list[tuple[int, int]]
) -> None:
    control = prepared(log, "A" * 16, {"c0": 8})
    refuse(tmp_path, "c0", 14)
    result = run(log, tmp_path, ["c0"])
    assert result.state == "stopped"
    assert result.sinks[0].position == 13
    assert written == [(n, n + 1) for n in range(9, 14)]
    failure = control.refresh().sink("c0").failure
    assert failure is not None
    assert (failure.offset, failure.start) == (14, -1)
    assert "CHECK constraint failed" in failure.message


def test_with_stop_all_the_run_stops_at_the_message_and_not_at_its_batch(log: Log, tmp_path: Path, written: list[tuple[int, int]]) -> None:
    control = prepared(log, "A" * 16, {"c0": 8})
    refuse(tmp_path, "c0", 14)
    assert run(log, tmp_path, ["c0"], on_error="stop_all").state == "stopped"
    state = control.refresh().sink("c0")
    assert state.failure is not None
    assert (state.position, state.failure.offset, state.failure.start) == (13, 14, -1)
    assert written == [(n, n + 1) for n in range(9, 14)]


def test_an_operator_counts_the_message_as_taken_and_the_run_goes_on(log: Log, tmp_path: Path) -> None:
    prepared(log, "A" * 16, {"c0": 8})
    refuse(tmp_path, "c0", 14)
    run(log, tmp_path, ["c0"])
    operator = PipelineOperations(log, "p", who="ann")
    assert [one.data for one in operator.show(14, 15)] == [{"_id": 14}, {"_id": 15}]
    assert operator.ack("c0", 14, why="it never existed").position == 14
    result = run(log, tmp_path, ["c0"])
    assert result.state == "done"
    assert result.sinks[0].position == 15
    assert taken(tmp_path, "c0") == [9, 10, 11, 12, 13, 15]
    assert [(one.who, one.what, one.why) for one in operator.audit()] == [("ann", "ack", "it never existed")]


def test_compaction_keeps_the_last_message_of_each_namespace_below_the_least_position(log: Log, tmp_path: Path) -> None:
    keys = "AABBAABBCACBAACBA"
    first = sum(len(b'{"_id":%d}' % number) + 1 + 29 + 16 for number in range(len(keys)))  # the size of seventeen batches of one
    prepared(log, keys + "AABBAABBCAC", {"c0": 27}, segment=first)
    assert PipelineOperations(log, "p").compact().before == 28
    left = [(one.offset, one.key) for one in log.read(log_topic("p"), 0, 0)]
    assert left[:3] == [(14, b"C"), (15, b"B"), (16, b"A")]
    assert [offset for offset, _ in left[3:]] == list(range(17, 28))


def test_a_sink_that_never_took_anything_keeps_everything(log: Log, tmp_path: Path) -> None:
    prepared(log, KEYS, {"c0": 15, "c1": -1}, segment=1)
    assert PipelineOperations(log, "p").compact().before == 0
    assert len(log.read(log_topic("p"), 0, 0)) == 16


def test_the_offset_log_is_compacted_to_the_last_of_each_key(log: Log, tmp_path: Path) -> None:
    log.create_topic("pipeline-o-offsets", settings=TopicSettings(segment=1), part=PART)
    control = Control(log, "o", SystemClock())
    ten = [("A", 1), ("A", 8), ("B", 1), ("C", 3), ("A", 13), ("B", 12), ("C", 9), ("A", 26), ("B", 23), ("C", 27)]
    for name, offset in ten:
        control.change(lambda state, name=name, offset=offset: [(f"taken/c0/{name}", offset)])
    control.change(lambda state: [("sink/other", SinkState())])  # the newest record lies in the active segment, which is left alone
    control.compact()
    kept = [(one.key, one.value) for one in log.read("pipeline-o-offsets", 0, 0)]
    assert kept[:3] == [(b"taken/c0/A", b"26"), (b"taken/c0/B", b"23"), (b"taken/c0/C", b"27")]
    assert len(kept) == 4
    assert Control(log, "o", SystemClock()).state.taken == {"c0": {"A": 26, "B": 23, "C": 27}}
