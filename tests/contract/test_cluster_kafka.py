"""The consumer group keeps the contract of ownership, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.cluster.kafka import KafkaOwnership
from headwater.log.kafka.log import KafkaLog
from headwater.testing import OwnershipContract
from headwater.testing.cluster_contract import Join
from headwater.testing.log_ground import fresh

pytestmark = pytest.mark.service("kafka")


class TestKafkaOwnership(OwnershipContract):
    @pytest.fixture
    def log(self, kafka: str) -> Iterator[KafkaLog]:
        with KafkaLog(kafka) as log:
            yield log

    @pytest.fixture
    def join(self, log: KafkaLog) -> Join:
        group = fresh("owners")
        return lambda address: KafkaOwnership(log, group=group, address=address, session=6.0)
