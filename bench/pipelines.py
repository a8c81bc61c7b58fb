"""Copying documents from file to file through the log, against the same copy in raw Spark; transforms, SQLite, one at a time, starting."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import run as run_program
from typing import TYPE_CHECKING

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.errors import Differs, HeadwaterError
from headwater.core.settings import Settings, Spark
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Message, Pipeline, arrow, omit, python, sql
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.running.run import Run
from headwater.pipeline.transform import Transform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SCHEMA = "_id LONG, customer STRING, card STRING, qty LONG, price DOUBLE, note STRING"
_PYTHON, _NOTE = sys.executable, "x" * 60


def pipelines(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Documents of about 165 bytes. The log is on and synced; Spark's copy is neither."""
    from headwater.spark import session

    try:
        started = session(archive="use")
    except HeadwaterError as problem:
        yield Skipped("pipelines", str(problem))
        return
    with place.sub("pipelines") as folder:
        source = _documents(folder / "in.jsonl", sizes.documents)
        peer = Side("Spark json → json", lambda: _raw(started, folder, source, sizes.documents))
        steps: dict[str, Sequence[Transform]] = {
            "": (),
            ", omit": (omit("card"),),
            ", python": (python(_doubled, keeps_id=True),),
            ", arrow": (arrow(_without_card),),
            ", sql": (sql("* EXCEPT (card)"),),
        }
        marks = {"": mark.ratio(1.2), ", omit": mark.ratio(0.8), ", python": mark.ratio(0.8)}
        for name, transforms in steps.items():
            ours = Side("pipeline", _copied(folder, source, sizes.documents, transforms))
            yield Case(f"file → file{name}", "document", ours, peer, marks.get(name), rounds=sizes.few)
        ours = Side("pipeline", lambda: _delivered(folder, source, sizes.documents))
        yield Case(
            "log → SQLite",
            "document",
            ours,
            Side("executemany", lambda: _bare(folder, sizes.documents)),
            mark.rate(150_000, "≥ 150 k documents/s"),
            rounds=sizes.few,
        )
        ours = Side("pipeline", lambda: _stepped(folder, sizes.steps))
        yield Case(
            "one at a time → SQLite",
            "document",
            ours,
            Side("a transaction each", lambda: _each(folder, sizes.steps)),
            mark.rate(1_000, "≥ 1 k documents/s"),
            rounds=sizes.few,
        )
        ours = Side("headwater pipeline run", lambda: _first(folder))
        yield Case("program start to ten documents written", "run", ours, Side("python -c pass", _nothing), shown="time", rounds=sizes.few)


def _doubled(message: Message) -> Message:
    message.data["qty"] = message.data["qty"] * 2
    return message


def _without_card(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.drop_columns(["card"])


def _documents(path: Path, count: int) -> Path:
    with path.open("w") as out:
        for n in range(count):
            who = f'"_id":{n},"customer":"customer {n % 1000}","card":"4111 1111 1111 1111"'
            out.write(f'{{{who},"qty":{n % 7},"price":{n % 1000}.5,"note":"{_NOTE}"}}\n')
    return path


def _raw(session: SparkSession, folder: Path, source: Path, expected: int) -> Sample:
    out = folder / "raw"
    begun = time.perf_counter()
    session.read.schema(SCHEMA).json(str(source)).write.mode("overwrite").json(str(out))
    seconds = time.perf_counter() - begun
    _right(out.glob("part-*"), expected)
    return Sample(expected, seconds)


def _copied(folder: Path, source: Path, expected: int, transforms: Sequence[Transform]) -> Callable[[], Sample]:
    def once() -> Sample:
        out, data = folder / "out", folder / "data"
        pipeline = Pipeline("bench")
        pipeline.source("in", file(str(source))).transform(*transforms).save("out", file(f"{out}/"))
        try:
            sample = _timed(pipeline, data, expected)
            _right(out.glob("part-*"), expected)
            return sample
        finally:
            shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(data, ignore_errors=True)

    return once


def _timed(pipeline: Pipeline, data: Path, expected: int) -> Sample:
    with EmbeddedLog(data) as log:
        made = Run(pipeline, log, Settings(data=data))
        begun = time.perf_counter()
        result = made.go()
        seconds = time.perf_counter() - begun
    if result.state != "done":
        raise Differs(f"The run ended {result.state}.", hint="See the offset log.")
    return Sample(expected, seconds)


def _delivered(folder: Path, source: Path, expected: int) -> Sample:
    """From a log that is filled already: what a sink takes per second."""
    data, base = folder / "data", folder / "out.db"
    try:
        filling = Pipeline("bench")
        filling.source("in", file(str(source))).save("none", file(f"{folder}/none/"), namespace="^$")
        _timed(filling, data, expected)
        second = Pipeline("bench")
        second.source("in", file(str(source))).save("db", sqlite(str(base), table="t"))
        return _timed(second, data, expected)
    finally:
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(folder / "none", ignore_errors=True)
        for one in folder.glob("out.db*"):
            one.unlink()


def _bare(folder: Path, count: int) -> Sample:
    base = folder / "bare.db"
    rows = [(n, f"customer {n % 1000}", "4111 1111 1111 1111", n % 7, n % 1000 + 0.5, "x" * 60) for n in range(count)]
    db = sqlite3.connect(base, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table t (_id primary key, customer, card, qty, price, note)")
    begun = time.perf_counter()
    for at in range(0, count, 5000):
        db.execute("begin")
        db.executemany("insert into t values (?, ?, ?, ?, ?, ?) on conflict do nothing", rows[at : at + 5000])
        db.execute("commit")
    seconds = time.perf_counter() - begun
    db.close()
    for one in folder.glob("bare.db*"):
        one.unlink()
    return Sample(count, seconds)


def _stepped(folder: Path, count: int) -> Sample:
    """A batch is refused by its last document, so that all before it go one at a time."""
    data, base, source = folder / "data", folder / "out.db", _documents(folder / "steps.jsonl", count + 1)
    with sqlite3.connect(base) as db:
        db.execute(f"create table t (_id integer primary key check (_id < {count}), customer, card, qty, price, note)")
    pipeline = Pipeline("bench")
    pipeline.source("in", file(str(source))).save("db", sqlite(str(base), table="t"), batch=count + 1)
    try:
        with EmbeddedLog(data) as log:
            made = Run(pipeline, log, Settings(data=data, spark=Spark(start="never")))
            begun = time.perf_counter()
            result = made.go()
            seconds = time.perf_counter() - begun
        if result.sinks[0].position != count - 1:
            raise Differs(f"The sink stands at {result.sinks[0].position}, not at {count - 1}.", hint="See the offset log.")
        return Sample(count, seconds)
    finally:
        shutil.rmtree(data, ignore_errors=True)
        for one in folder.glob("out.db*"):
            one.unlink()


def _each(folder: Path, count: int) -> Sample:
    db = sqlite3.connect(folder / "each.db", isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table t (_id primary key, note)")
    begun = time.perf_counter()
    for n in range(count):
        db.execute("begin immediate")
        db.execute("insert into t values (?, ?)", (n, "x" * 100))
        db.execute("commit")
    seconds = time.perf_counter() - begun
    db.close()
    for one in folder.glob("each.db*"):
        one.unlink()
    return Sample(count, seconds)


def _first(folder: Path) -> Sample:
    work = folder / "first"
    work.mkdir()
    _documents(work / "in.jsonl", 10)
    (work / "p.py").write_text(
        "from headwater.pipeline import Pipeline\nfrom headwater.pipeline.adaptors import file\n"
        'p = Pipeline("first")\np.source("in", file("in.jsonl")).save("out", file("out.jsonl"))\n'
    )
    try:
        begun = time.perf_counter()
        run_program([_PYTHON, "-m", "headwater.cli", "pipeline", "run", "p.py"], cwd=work, check=True, capture_output=True)
        seconds = time.perf_counter() - begun
        _right([work / "out.jsonl"], 10)
        return Sample(1, seconds)
    finally:
        shutil.rmtree(work)


def _nothing() -> Sample:
    begun = time.perf_counter()
    run_program([_PYTHON, "-c", "pass"], check=True)
    return Sample(1, time.perf_counter() - begun)


def _right(paths: Iterator[Path] | Sequence[Path], expected: int) -> None:
    lines = sum(path.read_bytes().count(b"\n") for path in paths)
    if lines != expected:
        raise Differs(f"{lines} documents were written, not {expected}.", hint="See the sink's folder.")
