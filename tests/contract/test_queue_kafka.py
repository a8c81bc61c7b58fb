"""The contract of queues, with a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from headwater.cluster import Ownership
from headwater.cluster.kafka import KafkaOwnership
from headwater.log import Log
from headwater.log.kafka.log import KafkaLog
from headwater.testing.log_ground import fresh
from headwater.testing.queue_contract import QueueContract

pytestmark = pytest.mark.service("kafka")


class TestKafkaQueue(QueueContract):
    @pytest.fixture
    def log(self, kafka: str) -> Iterator[Log]:
        with KafkaLog(kafka) as log:
            yield log

    @pytest.fixture
    def join(self, log: Log) -> Callable[[], Ownership]:
        group = fresh("owners")
        return lambda: KafkaOwnership(log, group=group, session=6.0)
