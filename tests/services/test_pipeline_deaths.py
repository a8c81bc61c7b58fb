"""Runs, Spark's own process, its workers and the servers at both ends killed in the midst of it: nothing lost, nothing twice, no
position too far."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tools.services.private import PrivateServers
from tools.services.running import Running

from headwater.core.errors import HeadwaterError
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.operating.operations import PipelineOperations

pytestmark = [pytest.mark.service("postgres"), pytest.mark.spark]

DOCUMENTS = 20_000
TO_POSTGRES = """
from headwater.pipeline import Pipeline, remap
from headwater.pipeline.adaptors import file, postgres

p = Pipeline("deaths", flush="100ms")
rows = p.source("in", file("in.jsonl")).transform(remap({"in": "public.messages"}))
rows.save("table", postgres("${PG_URI}", create=True), batch=500)
"""
FROM_POSTGRES = """
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, opensearch, postgres

p = Pipeline("deaths", flush="100ms")
rows = p.source("shop", postgres("${PG_URI}", tail=True), namespace=r"^public\\.orders$")
rows.save("search", opensearch("${SEARCH_URI}", index="orders"), batch=500)
rows.save("folder", file("out/", envelope=True))
"""


Death = Callable[[subprocess.Popen[bytes]], None]


class Runs:
    """A pipeline, run as its users run it, again and again until a run ends by itself."""

    def __init__(self, folder: Path, text: str, **environ: str) -> None:
        self.folder = folder
        (folder / "p.py").write_text(text)
        # What is killed is to be tasks of Spark, too. Its Java, which is started for every run, compiles sparingly.
        self._environ = os.environ | {"HEADWATER_SPARK__START": "eager", "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"} | environ

    def start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "headwater.cli", "pipeline", "run", "p.py"]
        return subprocess.Popen(
            words, cwd=self.folder, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )

    def position(self, sink: str) -> int:
        """Where the sink is, by the offset log; -1 before there is one."""
        try:
            with EmbeddedLog(self.folder / "data", read_only=True) as log:
                return PipelineOperations(log, "deaths").sink(sink).position
        except HeadwaterError:
            return -1

    def with_deaths(self, deaths: list[Death], choice: random.Random, sink: str, messages: range) -> None:
        """Run; let each of the deaths happen once the sink has come to some message of these; run on until a run ends well."""
        left = list(deaths)
        at = sorted(choice.randrange(messages.start, messages.stop) for _ in deaths)
        while True:
            run = self.start()
            try:
                while left:
                    while self.position(sink) < at[-len(left)] and run.poll() is None:
                        _ended(run, 0.02)
                    if run.poll() is not None:
                        break
                    left.pop(0)(run)
                said, _ = run.communicate(timeout=240)
            finally:
                if run.poll() is None:
                    os.killpg(run.pid, signal.SIGKILL)
                    run.communicate()
            if run.returncode == 0 and not left:
                return
            assert run.returncode in (0, 6, -signal.SIGKILL), said.decode()
            if run.returncode == 0:
                left.clear()


def _ended(run: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_run(run: subprocess.Popen[bytes]) -> None:
    os.killpg(run.pid, signal.SIGKILL)


def _processes(run: subprocess.Popen[bytes], said: bytes) -> Iterator[int]:
    """The processes that the run has started and whose command says this."""
    for child in Path("/proc").glob("[0-9]*"):
        try:
            group = os.getpgid(int(child.name))
            words = (child / "cmdline").read_bytes()
        except OSError:
            continue
        if group == run.pid and int(child.name) != run.pid and said in words:
            yield int(child.name)


def kill_worker(run: subprocess.Popen[bytes]) -> None:
    """One of the Python processes in which Spark's tasks run."""
    for process in _processes(run, b"pyspark.daemon"):
        os.kill(process, signal.SIGKILL)
        return


def kill_driver(run: subprocess.Popen[bytes]) -> None:
    """Spark's own process, and not the run that has started it."""
    for process in _processes(run, b"org.apache.spark.deploy.SparkSubmit"):
        os.kill(process, signal.SIGKILL)


def bounce(servers: Running, node: str) -> Callable[[subprocess.Popen[bytes]], None]:
    def happen(run: subprocess.Popen[bytes]) -> None:
        servers.kill(node)
        threading.Event().wait(0.05)
        servers.restart(node)

    return happen


def _seeds() -> list[object]:
    return [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 52))]


@pytest.mark.parametrize("seed", _seeds())
def test_files_to_postgres(seed: int, private_servers: PrivateServers, tmp_path: Path) -> None:
    running, choice = private_servers.up("postgres"), random.Random(seed)
    (tmp_path / "in.jsonl").write_text("".join(f'{{"_id":{n},"text":"message {n}"}}\n' for n in range(DOCUMENTS)))
    runs = Runs(tmp_path, TO_POSTGRES, PG_URI=running.postgres)
    deaths = [kill_run, kill_worker, bounce(running, "postgres-1"), kill_driver, kill_run]
    choice.shuffle(deaths)
    runs.with_deaths(deaths, choice, "table", range(DOCUMENTS))
    with psycopg.connect(running.postgres) as link:
        count, distinct, least, most = (
            link.execute("select count(*), count(distinct _id), min(_id), max(_id) from messages").fetchone() or ()
        )
    assert (count, distinct, least, most) == (DOCUMENTS, DOCUMENTS, 0, DOCUMENTS - 1)
    assert runs.position("table") == DOCUMENTS  # the last one says that the copy is complete


@pytest.mark.parametrize("seed", _seeds())
def test_postgres_to_search_and_files(seed: int, private_servers: PrivateServers, tmp_path: Path) -> None:
    import json

    from opensearchpy import OpenSearch

    running, choice = private_servers.up("postgres", "opensearch"), random.Random(seed)

    def asked(*statements: str) -> list[tuple[int, str]]:
        with psycopg.connect(running.postgres, autocommit=True) as link:
            for statement in statements:
                link.execute(statement)
            return link.execute("select id, name from orders").fetchall()

    asked(
        "create table orders (id int primary key, name text)",
        "insert into orders select n, 'order ' || n from generate_series(1, 8000) n",
    )
    runs = Runs(tmp_path, FROM_POSTGRES, PG_URI=running.postgres, SEARCH_URI=running.opensearch)
    deaths = [kill_run, bounce(running, "search-1"), kill_worker, bounce(running, "postgres-1"), kill_driver]
    choice.shuffle(deaths)
    runs.with_deaths(deaths, choice, "search", range(8000))
    changed = asked("update orders set name = 'changed ' || id where id % 10 = 0", "delete from orders where id % 1000 = 7")
    runs.with_deaths([kill_run, bounce(running, "postgres-1")], choice, "search", range(8001, 8808))
    wanted = {str(number): name for number, name in changed}
    client = OpenSearch(running.opensearch)
    client.indices.refresh(index="orders")
    assert client.count(index="orders")["count"] == len(wanted)
    state: dict[str, str] = {}
    lines = [json.loads(line) for part in sorted((tmp_path / "out").glob("part-*")) for line in part.read_text().splitlines()]
    for line in lines:
        if line["op"] == "delete":
            state.pop(str(line["data"]["id"]), None)
        else:
            state[str(line["data"]["id"])] = line["data"]["name"]
    assert state == wanted
    assert len([line for line in lines if line["op"] == "insert"]) == 8000
