"""Queues as sources and sinks of pipelines, through the real program: with a server and without one, and killed in between."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from forked_program import ForkedProgram
from pipeline_home import KILLED, Home

from headwater.adaptors.queue.connection import QueueConnection, SharedDoors
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import queue
from headwater.server.spawned import SpawnedServer

MANY = 2500
LOAD = """
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, queue

p = Pipeline("load")
p.source("orders", file("orders.jsonl")).save("work", queue("orders", key="order:{id}"))
"""
STORE = """
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import queue, sqlite

p = Pipeline("store")
p.source("rows", queue("orders")).save("db", sqlite("out.db"))
"""
WORKER = """
def process(row):
    with open("done", "a") as out:
        out.write(f"{row.key}\\n")
"""

# The adaptor is the real one; only the moment of death is added. It is written down first, so that the next run lives.
DYING = """
import os
import signal
from pathlib import Path

from headwater.adaptors.queue.adaptor import QueueAdaptor
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, sqlite

WHEN = "{when}"


def die(moment):
    if moment == WHEN and not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Dying(QueueAdaptor, frozen=True, kw_only=True):
    def begin(self, pipeline, sink, epoch):
        found = super().begin(pipeline, sink, epoch)
        die("after begin")
        return found

    def writer(self, part):
        made = super().writer(part)
        write = made.write

        def written(batch):
            if batch.start >= 500:
                die("before a put")
            write(batch)
            if batch.start >= 500:
                die("after a put")

        made.write = written
        return made

    def follow(self, cursor, chosen, stopped):
        for number, piece in enumerate(super().follow(cursor, chosen, stopped)):
            if number == 1:
                die("after a claim")
            yield piece
            if number == 1:
                die("after an append")


p = Pipeline("{name}", flush="10ms")
{source}
"""
DYING_SINK = 'p.source("orders", file("orders.jsonl")).save("work", Dying(queue="orders", key="order:{id}"), batch=100)'
DYING_SOURCE = 'p.source("rows", Dying(queue="orders", lease=2000)).save("db", sqlite("out.db"))'


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Home:
    made = Home(tmp_path, forked_program)
    made.documents(MANY)
    return made


def counted(home: Home) -> dict[str, int]:
    found: dict[str, int] = home("queue", "count", "orders", "--json").json
    return found


def stored(home: Home) -> list[Any]:
    with closing(sqlite3.connect(home.home / "out.db")) as db:
        return [one for (one,) in db.execute("select _id from orders order by _id")]


def worked(home: Home) -> list[str]:
    """Let a worker process every row; return the keys that it was given."""
    home.write("shop.py", WORKER)
    ran = home("queue", "work", "orders", "shop:process", "--drain", "--concurrency", "64")
    assert ran.code == 0, ran.err
    done = home.home / "done"
    return done.read_text().split() if done.exists() else []


def run(home: Home, name: str, text: str) -> Any:
    home.write(f"{name}.py", text)
    return home.pipeline("run", f"{name}.py")


def test_a_file_becomes_work_and_rows_become_a_table(home: Home) -> None:
    home.write("load.py", LOAD)
    tested = home.pipeline("test", "load.py")
    assert "queue orders at data will be made" in tested.out
    assert run(home, "load", LOAD).code == 0
    assert counted(home) == {"due": MANY, "future": 2, "held": 0, "processing": 0, "dead": 0}
    assert run(home, "store", STORE).code == 0
    assert stored(home) == list(range(MANY))
    assert counted(home)["due"] == counted(home)["processing"] == 0
    assert run(home, "load", LOAD).code == 0  # it has taken them, and nothing comes again although the rows are done
    assert counted(home)["due"] == 0
    about = home.pipeline("about", "queue")
    assert "headwater:pipeline/NAME/SINK" in " ".join(about.out.split())


@pytest.mark.parametrize("when", ["after begin", "before a put", "after a put"])
def test_a_sink_that_is_killed_puts_nothing_twice(home: Home, when: str) -> None:
    text = DYING.replace("{when}", when).replace("{name}", "load").replace("{source}", DYING_SINK)
    assert run(home, "load", text).code == KILLED
    keys = worked(home)  # what is done before the next run must not be put by it
    assert run(home, "load", text).code == 0
    keys = worked(home) if counted(home)["due"] else keys
    assert sorted(keys) == sorted(f"order:{n}" for n in range(MANY))


@pytest.mark.parametrize("when", ["after a claim", "after an append"])
def test_a_source_that_is_killed_loses_nothing_and_reads_nothing_twice(home: Home, when: str) -> None:
    assert run(home, "load", LOAD).code == 0
    text = DYING.replace("{when}", when).replace("{name}", "store").replace("{source}", DYING_SOURCE)
    assert run(home, "store", text).code == KILLED
    while counted(home)["processing"] or counted(home)["due"]:  # a claim ends with its lease
        ran = run(home, "store", text)
        assert ran.code == 0, ran.err
    assert stored(home) == list(range(MANY))
    with EmbeddedLog(home.home / "data", read_only=True) as log:
        records = log.read("pipeline-store", 0, 0, limit=10 * MANY)
    assert sorted(json.loads(one.value)["_id"] for one in records if one.value) == list(range(MANY))


def test_a_queue_that_was_deleted_is_told(home: Home) -> None:
    assert run(home, "load", LOAD).code == 0
    assert home("queue", "delete", "orders", "--yes").code == 0
    ran = home.pipeline("run", "load.py")
    assert ran.code == 8
    assert "lacks messages that sink work has taken: 0-2500" in " ".join(ran.err.split())
    assert "headwater pipeline offset load mark work -1" in " ".join(ran.err.split())
    assert home.pipeline("offset", "load", "mark", "work", "-1", "--why", "put all again").code == 0
    assert home.pipeline("run", "load.py").code == 0
    assert counted(home)["due"] == MANY


def test_a_pipeline_that_reads_the_queue_that_it_writes_is_refused(home: Home) -> None:
    assert run(home, "load", LOAD).code == 0
    circle = 'p.source("a", queue("orders")).save("b", queue("orders", address="data/../data"))'
    ran = run(home, "circle", f"{LOAD.split('p =')[0]}p = Pipeline('circle')\n{circle}\n")
    assert ran.code != 0
    assert "which the same pipeline reads" in ran.err


def test_beside_a_server_everything_goes_through_it(home: Home) -> None:
    with SpawnedServer(home.home / "data") as server:
        assert run(home, "load", LOAD).code == 0
        assert counted(home)["due"] == MANY
        by_address = STORE.replace('queue("orders")', f'queue("orders", address="{server.url}")')
        assert run(home, "store", by_address).code == 0
    assert stored(home) == list(range(MANY))


def test_a_server_takes_the_queues_of_its_directory_over(home: Home) -> None:
    assert run(home, "load", LOAD).code == 0
    adaptor = queue("orders", address=str(home.home / "data"))
    doors = SharedDoors(linger=3600)
    first = QueueConnection(adaptor, doors=doors)
    identity = first.identity()
    assert not first.displaced
    with SpawnedServer(home.home / "data") as server:
        assert first.displaced
        first.close()
        with QueueConnection(adaptor, doors=doors) as second:
            assert f"{MANY:,} due" in second.described()
            assert not second.displaced
        with QueueConnection(queue("orders", address=server.url), doors=doors) as by_address:
            assert by_address.identity() == identity
        doors.close_unused()


def test_a_token_that_may_not_write_is_refused_before_a_run(home: Home) -> None:
    tokens = home.write("tokens", "reader reader-token-of-32-letters-at-least\noperator operator-token-of-32-letters-at-least\n")
    tokens.chmod(0o600)
    with SpawnedServer(home.home / "served", options=("--port", "0", "--token-file", str(tokens))) as server:
        home.write("load.py", LOAD.replace('queue("orders"', f'queue("orders", address="{server.url}", token="${{TOKEN}}"'))
        home.write("store.py", STORE.replace('queue("orders"', f'queue("orders", address="{server.url}", token="${{TOKEN}}"'))
        reader, operator = {"TOKEN": "reader-token-of-32-letters-at-least"}, {"TOKEN": "operator-token-of-32-letters-at-least"}
        for _ in range(2):  # the queue is missing at first
            refused = home.pipeline("test", "load.py", **reader)
            assert refused.code != 0
            assert "Give a token of the role writer" in refused.err + refused.out
            assert home.pipeline("run", "load.py", **operator).code == 0
        assert home.pipeline("test", "store.py", **reader).code != 0
        assert home.pipeline("test", "store.py", **operator).code == 0
