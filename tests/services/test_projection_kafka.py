"""Projections and followers over a real Kafka: members of a group share the partitions, and take over from each other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.journal.ground import appended, eventually
from tests.unit.journal.projection_ground import ReadModel

from headwater.client.projection_runner import opened_run
from headwater.core.settings import KafkaSettings, LogSettings, Settings
from headwater.journal.projection import Projection
from headwater.log.kafka.log import KafkaLog
from headwater.testing.log_ground import fresh

pytestmark = pytest.mark.service("kafka")


@contextmanager
def running(projection: Projection, settings: Settings) -> Iterator[Any]:
    """A run in a thread of its own, as a process has it."""
    with opened_run(projection, settings) as run:
        failed: list[BaseException] = []

        def work() -> None:
            try:
                run.run()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield run
        finally:
            run.stop()
            thread.join()
        assert not failed


def test_members_of_a_group_share_the_partitions(kafka: str, tmp_path: Path) -> None:
    name = fresh("journal-bank")
    settings = Settings(data=tmp_path / "data", log=LogSettings(engine="kafka"), kafka=KafkaSettings(bootstrap=(kafka,)))
    model = ReadModel(tmp_path / "model.db")
    projection = Projection(name, "seen", model.handle, connect=model.connect)
    numbers: Counter[tuple[int, str]] = Counter()
    with KafkaLog(kafka) as log:
        log.create_topic(name, partitions=2)  # as others have made it: no claims

        def append(count: int) -> None:
            random = Random(count)
            for _ in range(count):
                partition = random.randrange(2)
                id = f"{'abc'[random.randrange(3)]}{partition}"
                numbers[partition, id] += 1
                log.append(name, partition, [appended(id, numbers[partition, id])])

        append(30)
        with running(projection, settings) as one:
            eventually(lambda: len(model.rows()) == 30)
            with running(projection, settings) as two:
                eventually(lambda: len(one._owned) == 1 and len(two._owned) == 1)
                append(20)
                eventually(lambda: len(model.rows()) == 50)
            append(10)
            eventually(lambda: len(model.rows()) == 60)
        rows = model.rows()
        assert len(set(rows)) == 60
        last: Counter[str] = Counter()
        for id, number, _ in rows:
            assert number == last[id] + 1
            last[id] = number
