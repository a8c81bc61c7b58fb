"""How long a program takes until it has done something: from its start to the first documents, from a restart to the first redelivery."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.pipelines import documents, outcome
from bench.pipelines.moving import NAME, Filled
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.spark.java import find_java

_FEW = 10
_PATIENCE = 120.0
_COPY = 'from headwater.pipeline import Pipeline\nfrom headwater.pipeline.adaptors import file\np = Pipeline("first")\n'
_COPY += 'p.source("in", file("in.jsonl")).save("out", file("out/"))\n'
_SPARK = "from pyspark.sql import SparkSession\ns = SparkSession.builder.config('spark.ui.enabled', False).getOrCreate()\n"
_SPARK += f's.read.schema("{documents.SCHEMA}").json("in.jsonl").write.json("out")\n'
_AGAIN = "from headwater.pipeline import Pipeline\nfrom headwater.pipeline.adaptors import file, sqlite\np = Pipeline({name!r})\n"
_AGAIN += "p.source('in', file({source!r})).save({sink!r}, sqlite('out.db', table='t'))\n"


def starts(folder: Path, sizes: Sizes, full: Filled) -> Iterator[Case | Skipped]:
    few = sizes.rare
    ours = Side("headwater pipeline run", lambda: _first(folder, _COPY, ["-m", "headwater.cli", "pipeline", "run", "program.py"]))
    bare = Side("the same with pyspark", lambda: _first(folder, _SPARK, ["program.py"]))
    yield Case("program start to ten documents written", "run", ours, bare, shown="time", rounds=few)
    again = Restarted(full)
    bare = Side("headwater --help", _nothing)
    ours = Side("headwater pipeline run", again.round)
    yield Case("restart to first redelivery", "run", ours, bare, mark.time(5.0, "< 5 s"), shown="time", rounds=few)


def _first(folder: Path, program: str, words: list[str]) -> Sample:
    """The whole program: its end is when a user has the prompt back."""
    work = folder / "first"
    work.mkdir()
    documents.lines(work / "in.jsonl", _FEW)
    (work / "program.py").write_text(program)
    # Both get the Java that we would find: where none is installed Spark alone does not start. Its own address need not be looked up.
    env = {**os.environ, "JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, *words], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        seconds = time.perf_counter() - begun
        if done.returncode:
            raise Differs(f"The program ended with {done.returncode}: {done.stderr[-500:]}", hint="Run it by hand.")
        outcome.of_lines((work / "out").glob("part-*"), documents.table(_FEW))
        return Sample(1, seconds)
    finally:
        shutil.rmtree(work)


def _nothing() -> Sample:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "headwater.cli", "--help"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return Sample(1, time.perf_counter() - begun)


class Restarted:
    """Restarts of a pipeline whose sink has everything on the log before it, so that Spark is started for it."""

    def __init__(self, full: Filled) -> None:
        self._full = full
        self._times = 0

    def round(self) -> Sample:
        """Until the first row can be seen in the sink by somebody else; then the run is stopped."""
        self._times += 1
        work = self._full.folder
        text = _AGAIN.format(name=NAME, source=str(self._full.source), sink=f"again{self._times}")
        (work / "program.py").write_text(text)
        output = work / "said"
        try:
            with output.open("w") as out:
                begun = time.perf_counter()
                process = subprocess.Popen(
                    [sys.executable, "-m", "headwater.cli", "pipeline", "run", "program.py"],
                    cwd=work,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )
            try:
                arrived = _wait(lambda: _any(work / "out.db"), lambda: process.poll() is not None)
                seconds = time.perf_counter() - begun
            finally:
                process.terminate()
                process.wait()
            if not arrived:
                raise Differs(f"Nothing was redelivered: {output.read_text()[-500:]}", hint="Run it by hand.")
            return Sample(1, seconds)
        finally:
            for path in work.glob("out.db*"):
                path.unlink()


def _wait(seen: Callable[[], bool], over: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        ended = over()  # asked first: what was written just before the end counts
        if seen():
            return True
        if ended:
            return False
        time.sleep(0.01)
    return False


def _any(base: Path) -> bool:
    if not base.exists():
        return False
    try:
        with closing(sqlite3.connect(f"file:{base}?mode=ro", uri=True)) as db:
            return db.execute("select 1 from t limit 1").fetchone() is not None
    except sqlite3.Error:  # the table is not made yet, or is just being made
        return False
