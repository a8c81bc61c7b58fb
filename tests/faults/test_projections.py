"""Projections whose processes are killed, and stopped: the read model is the fold of the topic, and nothing is there twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import projection_worker
import pytest
from tests.stopping import stop
from tests.unit.journal.ground import TOPIC, Ground, appended, eventually, ground_at
from tests.unit.journal.projection_ground import fold

from headwater.core.clock import SystemClock
from headwater.journal.projection_status import show_projection

KILLS = int(os.environ.get("SOAK_PROJECTION_KILLS", "6"))


class Crew:
    """Processes that run one projection, and the read model that they make."""

    def __init__(self, folder: Path, ground: Ground) -> None:
        self.ground, self.model = ground, folder / "model.db"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._numbers: Counter[str] = Counter()
        with sqlite3.connect(self.model) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE seen (id TEXT, number INTEGER, record INTEGER)")
        connection.close()

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, projection_worker.__file__, str(self.ground.data), str(self.model), *more]
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def append(self, random: Random, count: int) -> None:
        for _ in range(count):
            partition = random.randrange(2)
            id = f"{'abc'[random.randrange(3)]}{partition}"
            self._numbers[id] += 1
            self.ground.append(appended(id, self._numbers[id]), partition=partition)

    def rows(self) -> list[tuple[str, int, int]]:
        connection = sqlite3.connect(self.model, timeout=30)
        try:
            return list(connection.execute("SELECT id, number, record FROM seen ORDER BY rowid"))
        finally:
            connection.close()

    def stop_outside_of_a_transaction(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process. Inside of a transaction it would hold SQLite's only lock for writing, and everybody would wait for it."""
        with closing(sqlite3.connect(self.model, timeout=60, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            stop(process.pid)
            connection.execute("ROLLBACK")

    def caught_up(self) -> bool:
        return len(self.rows()) >= sum(self._numbers.values())

    def check(self) -> None:
        rows = self.rows()
        assert Counter(rows) == fold(self.ground.log)
        last: Counter[str] = Counter()
        for id, number, _ in rows:
            assert number == last[id] + 1
            last[id] = number


@contextmanager
def crew_at(folder: Path) -> Iterator[Crew]:
    with ground_at(folder / "data", SystemClock()) as ground:
        ground.topic()
        crew = Crew(folder, ground)
        try:
            yield crew
        finally:
            crew.end()


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    with crew_at(tmp_path) as made:
        yield made


def test_killed_under_load(crew: Crew) -> None:
    random = Random(KILLS)
    for _ in range(KILLS):
        while sum(process.poll() is None for process in crew.processes) < 2:
            crew.start()
        before = len(crew.rows())
        crew.append(random, random.randrange(20, 200))
        eventually(lambda before=before: len(crew.rows()) > before)  # type: ignore[misc]
        crew.append(random, random.randrange(1, 50))
        living = [process for process in crew.processes if process.poll() is None]
        for victim in random.sample(living, random.choice([1, 2])):
            victim.kill()
            victim.wait()
    crew.start()
    eventually(crew.caught_up)
    crew.check()


def test_a_stopped_process_loses_its_partitions_and_writes_nothing_later(crew: Crew) -> None:
    random = Random(3)
    stopped = crew.start()
    crew.append(random, 50)
    eventually(crew.caught_up)
    crew.append(random, 30)
    crew.stop_outside_of_a_transaction(stopped)
    other = crew.start()
    crew.append(random, 200)
    eventually(crew.caught_up)  # the other one has taken over
    crew.check()
    os.kill(stopped.pid, signal.SIGCONT)
    crew.append(random, 200)
    eventually(crew.caught_up)
    crew.check()
    crew.append(random, 50)
    other.kill()
    eventually(crew.caught_up)
    crew.check()
    assert stopped.poll() is None


def test_partitions_are_shared(crew: Crew) -> None:
    one, two = crew.start(), crew.start()
    crew.append(Random(1), 10)
    folder = crew.ground.data / "projections" / TOPIC / "seen"

    def shared() -> bool:
        notes = [path.read_text(errors="replace") for path in folder.glob("*.member")] if folder.is_dir() else []
        return sorted(holds for note in notes for holds in ("[0]", "[1]") if f'"holds":{holds}' in note) == ["[0]", "[1]"]

    eventually(shared)
    eventually(crew.caught_up)
    crew.check()
    assert one.poll() is None
    assert two.poll() is None
    described = crew.ground.topic()
    eventually(lambda: show_projection(crew.ground.log, described, "seen").lag == 0)
