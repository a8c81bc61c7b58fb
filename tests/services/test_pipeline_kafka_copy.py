"""Tasks that read a source into a log on Kafka: whatever becomes of an attempt, no document is lost or there twice."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.core.errors import Unreachable
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.log.kafka.log import KafkaLog
from headwater.pipeline.adaptors import file, headwater
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import log_topic
from headwater.pipeline.running import reader
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.pieces import Copied, CopyWork, copy_slices
from headwater.pipeline.running.run import Run
from headwater.spark.small import Place
from headwater.testing.log_ground import fresh

pytestmark = pytest.mark.service("kafka")

FIRST_ATTEMPT = """
import os, pickle, signal, sys
import msgspec
from headwater.log.opening import open_log
from headwater.pipeline.running.pieces import copy_slices

address, work, task, numbers = pickle.load(open(sys.argv[1], "rb"))

class Stops:
    began = 0
    def read(self, part, position):
        self.began += 1
        if self.began == 2:
            os.kill(os.getpid(), signal.SIGSTOP)  # the first slice is in the log
        yield from work.adaptor.read(part, position)

with open_log(address) as log:
    copy_slices(log, msgspec.structs.replace(work, adaptor=Stops()), task, numbers)
"""


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as log:
        yield log


class Ground:
    """A pipeline of four small files into a folder; its tasks run here, as a test says."""

    def __init__(self, log: Log, folder: Path) -> None:
        self.log, self.folder, self.name = log, folder, fresh("p")
        (folder / "in").mkdir()
        for part in range(4):
            (folder / "in" / f"{part}.jsonl").write_text("".join(f'{{"_id":{100 * part + n}}}\n' for n in range(50)))

    def run(self) -> Run:
        pipeline = Pipeline(self.name, slices=2)
        pipeline.source("in", file(f"{self.folder}/in/")).save("out", file(f"{self.folder}/out/"))
        return Run(pipeline, self.log, Settings(data=self.folder / "data", spark=SparkSettings(start="never")))

    def delivered(self, out: str = "out") -> list[str]:
        return sorted(line for part in (self.folder / out).glob("part-*") for line in part.read_text().splitlines())

    def wanted(self) -> list[str]:
        return sorted(line for part in (self.folder / "in").glob("*") for line in part.read_text().splitlines())

    def records(self) -> int:
        """All records in the log, whether they count or not."""
        return sum(len(chunk) for chunk in self.log.scan(log_topic(self.name), 0, 0))


Copy = Callable[[Engine, CopyWork, dict[int, list[int]]], list[Copied]]


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Copy], None]:
    def replace(copy: Copy) -> None:
        monkeypatch.setattr(reader, "place", lambda *args, **more: Place.SPARK)
        monkeypatch.setattr(Engine, "copy", copy)

    return replace


@pytest.mark.parametrize("wakes", ["while the second reads", "after the run"])
def test_a_stopped_first_attempt_that_wakes_doubles_and_loses_nothing(
    log: Log, kafka: str, tmp_path: Path, tasks: Callable[[Copy], None], wakes: str
) -> None:
    ground = Ground(log, tmp_path)
    first: list[subprocess.Popen[bytes]] = []

    def copy(self: Engine, work: CopyWork, tasks: dict[int, list[int]]) -> list[Copied]:
        assert tasks == {0: [0, 1, 2, 3]} or set(map(len, tasks.values())) == {2}
        task = min(tasks)
        given = tmp_path / "work.pickle"
        given.write_bytes(pickle.dumps((log.address, work, task, tasks[task])))
        first.append(subprocess.Popen([sys.executable, "-c", FIRST_ATTEMPT, str(given)]))
        _, status = os.waitpid(first[0].pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        if wakes == "while the second reads":
            first[0].send_signal(signal.SIGCONT)
        done = [one for number in tasks for one in copy_slices(log, work, number, tasks[number])]
        if wakes == "while the second reads":
            assert first[0].wait(240) == 0
        return done

    tasks(copy)
    assert ground.run().go().state == "done"
    assert ground.delivered() == ground.wanted()
    if wakes == "after the run":
        first[0].send_signal(signal.SIGCONT)
        assert first[0].wait(240) == 0
    assert ground.records() >= 300  # the records of the first attempt are there
    again = ground.run().go()
    assert (again.read, again.state) == (0, "done")
    assert ground.delivered() == ground.wanted()
    chained = Pipeline(fresh("p"))
    rows = chained.source("log", headwater(f"kafka://{kafka}", topic=log_topic(ground.name), format="message"))
    rows.save("out", file(f"{tmp_path}/chained/"))
    assert Run(chained, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))).go().state == "done"
    assert ground.delivered("chained") == ground.wanted()


def test_a_round_that_fails_counts_for_nothing_and_is_read_again(log: Log, tmp_path: Path, tasks: Callable[[Copy], None]) -> None:
    ground, rounds = Ground(log, tmp_path), []

    def copy(self: Engine, work: CopyWork, tasks: dict[int, list[int]]) -> list[Copied]:
        rounds.append(work)
        done = [one for number in tasks for one in copy_slices(log, work, number, tasks[number])]
        if len(rounds) == 1:
            raise Unreachable("The executors are gone.", hint="")
        return done

    tasks(copy)
    assert ground.run().go().state == "done"
    assert len(rounds) == 2
    assert ground.records() >= 400
    assert ground.delivered() == ground.wanted()


def test_what_was_read_before_a_source_failed_counts(log: Log, tmp_path: Path, tasks: Callable[[Copy], None]) -> None:
    """One task fails at its second slice: the first slice, and the other task's, are not read again."""
    import msgspec

    ground, broken = Ground(log, tmp_path), [True]

    class Fails:
        def __init__(self, adaptor: object) -> None:
            self._adaptor = adaptor

        def read(self, part: object, position: object) -> Iterator[object]:
            if broken and "2.jsonl" in str(part):
                broken.clear()
                raise Unreachable("The disk does not answer.", hint="")
            yield from self._adaptor.read(part, position)  # type: ignore[attr-defined]

    def copy(self: Engine, work: CopyWork, tasks: dict[int, list[int]]) -> list[Copied]:
        failing = msgspec.structs.replace(work, adaptor=Fails(work.adaptor))  # type: ignore[arg-type]
        return [one for number in tasks for one in copy_slices(log, failing, number, tasks[number])]

    tasks(copy)
    assert ground.run().go().state == "done"
    assert ground.delivered() == ground.wanted()
    documents = 200
    assert documents <= ground.records() < documents + 50  # no slice is there twice
