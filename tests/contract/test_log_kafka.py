"""The Kafka engine keeps the log's contract, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings

from headwater.log.kafka.log import KafkaLog
from headwater.testing import LogContract, LogModel
from headwater.testing.log_ground import OpenLog

pytestmark = pytest.mark.service("kafka")


class TestKafkaLog(LogContract):
    compacts = False
    keeps_files = False
    guards = False

    @pytest.fixture
    def open_log(self, kafka: str) -> OpenLog:
        return lambda: KafkaLog(kafka)


class KafkaModel(LogModel):
    compacts = False
    servers: ClassVar[str]

    @contextmanager
    def storage(self) -> Iterator[OpenLog]:
        yield lambda: KafkaLog(self.servers)


@pytest.fixture(autouse=True, scope="module")
def _servers(kafka: str) -> None:
    KafkaModel.servers = kafka  # hypothesis makes the machines, and knows no fixtures


class TestKafkaModel(KafkaModel.TestCase):  # type: ignore[misc]
    # Without shrinking: each step costs milliseconds, and the steps that failed are printed anyway.
    settings = settings(
        max_examples=6,
        stateful_step_count=15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )


@pytest.mark.soak
class TestKafkaModelForLong(KafkaModel.TestCase):  # type: ignore[misc]
    settings = settings(max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
