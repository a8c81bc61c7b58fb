"""What a sink takes from a log that is filled already: for the first time, again in batches, and one at a time."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.pipelines import documents
from bench.pipelines.moving import NAME, Filled, timed
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.core.settings import Settings, SparkSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.running.run import Run

_COLUMNS = "_id integer primary key, customer, card, qty, price, note"
_BATCH = 5000  # rows of a transaction, as the sink's own


def delivery(folder: Path, sizes: Sizes, full: Filled) -> Iterator[Case | Skipped]:
    into = Delivered(folder, full)
    first = Side("pipeline", lambda: into.round(again=False))
    bare = Side("executemany", lambda: _bare(folder, full.count, again=False))
    yield Case("log → SQLite", "document", first, bare, mark.rate(150_000, "≥ 150 k documents/s"), rounds=sizes.few)
    again = Side("pipeline", lambda: into.round(again=True))
    bare = Side("executemany", lambda: _bare(folder, full.count, again=True))
    yield Case("redelivery in batches → SQLite", "document", again, bare, rounds=sizes.few)
    single = Side("pipeline", lambda: _stepped(folder, sizes.steps))
    each = Side("a transaction each", lambda: _each(folder, sizes.steps))
    yield Case("one at a time → SQLite", "document", single, each, mark.rate(1_000, "≥ 1 k documents/s"), rounds=sizes.few)


class Delivered:
    """Rounds of one filled log into fresh databases, each for a sink of its own that has taken nothing so far."""

    def __init__(self, folder: Path, full: Filled) -> None:
        self._base, self._full = folder / "out.db", full
        self._sinks = 0

    def round(self, *, again: bool) -> Sample:
        """`again`: all was taken, an operator has marked the sink back to the beginning, it is restarted: every row is there already."""
        self._sinks += 1
        sink, count = f"db{self._sinks}", self._full.count
        pipeline = Pipeline(NAME)
        pipeline.source("in", file(str(self._full.source))).save(sink, sqlite(str(self._base), table="t"))
        try:
            sample = timed(pipeline, self._full.data, count)
            if again:
                with EmbeddedLog(self._full.data) as log:
                    PipelineOperations(log, NAME).mark(sink, -1, why="measuring")
                sample = timed(pipeline, self._full.data, count)
            _right(self._base, count)
            return sample
        finally:
            _remove(self._base)


def _bare(folder: Path, count: int, *, again: bool) -> Sample:
    """Ready rows in synced transactions, into an empty table or over the rows that it has."""
    base, rows = folder / "bare.db", documents.tuples(count)
    with closing(_made(base)) as db:
        for _ in range(1 + again):
            begun = time.perf_counter()
            for at in range(0, count, _BATCH):
                db.execute("begin")
                db.executemany("insert or replace into t values (?, ?, ?, ?, ?, ?)", rows[at : at + _BATCH])
                db.execute("commit")
            seconds = time.perf_counter() - begun
    _right(base, count)
    _remove(base)
    return Sample(count, seconds)


def _stepped(folder: Path, count: int) -> Sample:
    """A batch is refused by its last document, so that all before it go one at a time, each acknowledged before the next."""
    data, base, source = folder / "stepped", folder / "steps.db", documents.lines(folder / "steps.jsonl", count + 1)
    _made(base, f"check (_id < {count})").close()
    pipeline = Pipeline(NAME)
    pipeline.source("in", file(str(source))).save("db", sqlite(str(base), table="t"), batch=count + 1)
    try:
        with EmbeddedLog(data) as log:
            made = Run(pipeline, log, Settings(data=data, spark=SparkSettings(start="never")))
            begun = time.perf_counter()
            result = made.go()
            seconds = time.perf_counter() - begun
        if result.sinks[0].position != count - 1:
            raise Differs(f"The sink stands at {result.sinks[0].position}, not at {count - 1}.", hint="See the offset log.")
        _right(base, count)
        return Sample(count, seconds)
    finally:
        shutil.rmtree(data, ignore_errors=True)
        _remove(base)


def _each(folder: Path, count: int) -> Sample:
    base, rows = folder / "each.db", documents.tuples(count)
    with closing(_made(base)) as db:
        begun = time.perf_counter()
        for row in rows:
            db.execute("begin immediate")
            db.execute("insert or replace into t values (?, ?, ?, ?, ?, ?)", row)
            db.execute("commit")
        seconds = time.perf_counter() - begun
    _right(base, count)
    _remove(base)
    return Sample(count, seconds)


def _made(base: Path, also: str = "") -> sqlite3.Connection:
    db = sqlite3.connect(base, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute(f"create table t ({_COLUMNS}{', ' if also else ''}{also})")
    return db


def _right(base: Path, count: int) -> None:
    """Every row once, and the sums of what was sent."""
    with closing(sqlite3.connect(base)) as db:
        sums = db.execute("select count(*), count(distinct _id), sum(_id), sum(qty), sum(price), sum(length(note)) from t").fetchone()
    ids = range(count)
    wanted = (count, count, sum(ids), sum(n % 7 for n in ids), sum(n % 1000 for n in ids) + count / 2, len(documents.NOTE) * count)
    if sums != wanted:
        raise Differs(f"{sums} are in the table, not {wanted}.", hint="See the sink's database.")


def _remove(base: Path) -> None:
    for path in base.parent.glob(f"{base.name}*"):
        path.unlink()
