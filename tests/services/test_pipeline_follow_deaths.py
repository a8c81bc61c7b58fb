"""Runs that follow PostgreSQL and MongoDB, killed in the middle of what they read: the next run reads the rest, and nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mongodb_ground import a_database
from postgres_ground import a_postgres_ground
from sql_ground import eventually

from headwater.core.errors import HeadwaterError
from headwater.log.embedded.log import EmbeddedLog

HEAD = """
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, mongodb, postgres

p = Pipeline("deaths", flush="100ms")
"""
# A large transaction comes in many pieces, so that a run dies inside of one.
POSTGRES = """
import headwater.adaptors.postgres.tail as tail
tail.PIECE_MESSAGES = 50
rows = p.source("shop", postgres("{uri}", tail=True, slot="{name}", publication="{name}"), namespace=r"^{name}\\.t$")
rows.save("folder", file("out/", envelope=True))
"""
MONGODB = """
rows = p.source("shop", mongodb("{uri}/{name}", tail=True, batch=10), namespace="^orders$")
rows.save("folder", file("out/", envelope=True))
"""


class FollowingRuns:
    """A pipeline in a folder of its own, as its users run it."""

    def __init__(self, folder: Path, text: str) -> None:
        self._folder, self._environ = folder, os.environ | {"HEADWATER_SPARK__START": "never"}
        (folder / "p.py").write_text(HEAD + text)

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "headwater.cli", "pipeline", "run", "p.py", *options]
        with (self._folder / "said").open("ab") as said:
            return subprocess.Popen(words, cwd=self._folder, env=self._environ, stdout=said, stderr=said, start_new_session=True)

    def kill_at(self, run: subprocess.Popen[bytes], messages: int) -> None:
        """Kill the run once its log has so many messages."""

        def far() -> bool:
            assert run.poll() is None, (self._folder / "said").read_text()
            return self.end() >= messages

        try:
            eventually(far)
        finally:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()

    def finish(self) -> None:
        run = self.start()
        assert run.wait(120) == 0, (self._folder / "said").read_text()

    def end(self) -> int:
        try:
            with EmbeddedLog(self._folder / "data", read_only=True) as log:
                return log.bounds("pipeline-deaths", 0).end
        except HeadwaterError:
            return 0

    def lines(self) -> list[dict[str, Any]]:
        parts = sorted((self._folder / "out").glob("part-*"))
        return [json.loads(line) for part in parts for line in part.read_text().splitlines()]

    def state(self, field: str) -> dict[Any, Any]:
        """The documents by id, as the messages have left them."""
        found: dict[Any, Any] = {}
        for line in self.lines():
            if line["op"] == "delete":
                found.pop(line["data"][field], None)
            else:
                found[line["data"][field]] = line["data"]
        return found


@pytest.mark.service("postgres")
def test_a_run_that_follows_postgres_is_killed_inside_of_a_transaction(postgres: str, tmp_path: Path) -> None:
    with a_postgres_ground(postgres) as ground:
        ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT i, 0 FROM generate_series(1, 500) i")
        runs = FollowingRuns(tmp_path, POSTGRES.format(uri=postgres, name=ground.name))
        run = runs.start("--follow")
        try:
            eventually(lambda: runs.end() > 500 or run.poll() is not None)
            ground.run(
                "BEGIN; INSERT INTO t SELECT i, 1 FROM generate_series(501, 2500) i; UPDATE t SET v = v + 2;"
                "DELETE FROM t WHERE id % 7 = 0; COMMIT"
            )
        finally:
            runs.kill_at(run, 2000)
        at_death = runs.end()
        ground.run("UPDATE t SET v = v + 10 WHERE id % 3 = 0")
        runs.finish()
        assert {number: (one["id"], one["v"]) for number, one in runs.state("id").items()} == {
            number: (number, v) for number, v in ground.all("SELECT id, v FROM t")
        }
        counted = Counter(line["op"] for line in runs.lines() if line["data"].get("id") is not None)
        [(thirds,)] = ground.all("SELECT count(*) FROM t WHERE id % 3 = 0")
        assert counted == {"insert": 2500, "update": 2500 + thirds, "delete": 2500 // 7}
        assert at_death < 500 + 2000 + 2500 + 2500 // 7  # it was killed inside of the transaction


@pytest.mark.service("mongodb")
def test_a_run_that_follows_mongodb_is_killed_in_the_middle(mongodb: str, tmp_path: Path) -> None:
    with a_database(mongodb) as database:
        database.orders.insert_many([{"_id": n, "n": 0} for n in range(200)])
        runs = FollowingRuns(tmp_path, MONGODB.format(uri=mongodb, name=database.name))
        run = runs.start("--follow")
        try:
            eventually(lambda: runs.end() > 200 or run.poll() is not None)
            for n in range(200):
                database.orders.update_one({"_id": n}, {"$inc": {"n": 1}})
                database.orders.insert_one({"_id": 1000 + n, "n": n})
        finally:
            runs.kill_at(run, 300)
        database.orders.delete_many({"_id": {"$mod": [7, 0]}})
        runs.finish()
        assert {number: one["n"] for number, one in runs.state("_id").items()} == {one["_id"]: one["n"] for one in database.orders.find()}
        inserted = Counter(line["data"]["_id"] for line in runs.lines() if line["op"] == "insert" and "_id" in line["data"])
        assert set(inserted.values()) == {1}
