from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, eventually

from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings
from headwater.journal.leader import LocalReplicatorLock
from headwater.journal.replicator import lock_path, replicator, status_file


def test_it_is_put_together_from_the_settings_and_says_what_it_does(tmp_path: Path) -> None:
    ground = Ground(tmp_path, SystemClock())
    ground.topic()
    ground.append(appended("a", 1))
    stopping = threading.Event()
    settings = Settings(data=tmp_path, spark=SparkSettings(start="never"))
    with replicator(settings, clock=SystemClock(), random=Random(1), stopping=stopping, copied=ground.outcomes.append) as loop:
        thread = threading.Thread(target=loop.run)
        thread.start()
        eventually(lambda: ground.pointer() == 0)
        assert LocalReplicatorLock(lock_path(tmp_path)).holder() is not None
        eventually(lambda: (said := status_file(tmp_path).read()) is not None and said.copied == 1)
        loop.stop()
        thread.join()
    said = status_file(tmp_path).read()
    assert said is not None
    assert (said.engine, said.topics, said.spark) == ("here", (TOPIC,), False)
    assert ground.outcomes[0].records == 1
    assert LocalReplicatorLock(lock_path(tmp_path)).holder() is None
    ground.close()


def test_a_status_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(tmp_path, SystemClock())
    ground.topic()
    ground.append(appended("a", 1))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headwater.journal.status.replace", full)
    stopping = threading.Event()
    settings = Settings(data=tmp_path, spark=SparkSettings(start="never"))
    with replicator(settings, clock=SystemClock(), random=Random(1), stopping=stopping) as loop:
        assert loop.lock is not None
        assert loop.lock.take()
        assert loop.catch_up()
        loop.step()
    assert ground.pointer() == 0
    ground.close()
