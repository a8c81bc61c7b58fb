"""The contract of regions, with a real broker; and what the format promises with three of which one is dead."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from tests.conftest import OwnServers

from headwater.cluster import Ownership
from headwater.cluster.kafka import KafkaOwnership
from headwater.log import Log
from headwater.log.kafka.log import KafkaLog
from headwater.testing.log_ground import fresh
from headwater.testing.wal_contract import RegionContract
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

pytestmark = pytest.mark.service("kafka")
_REGIONS = 36  # one for each test and some more, made while all brokers live: Kafka makes no topic with three copies on two


class TestKafkaRegion(RegionContract):
    @pytest.fixture
    def log(self, kafka: str) -> Iterator[Log]:
        with KafkaLog(kafka) as log:
            yield log

    @pytest.fixture
    def join(self, log: Log) -> Callable[[], Ownership]:
        group = fresh("owners")
        return lambda: KafkaOwnership(log, group=group, session=6.0)


@pytest.fixture(scope="module")
def degraded(module_servers: OwnServers) -> Iterator[tuple[KafkaLog, list[RegionTopics]]]:
    """A log on three brokers, of which one was killed, and regions that were made before."""
    cluster = module_servers.up("kafka", brokers=3)
    with KafkaLog(cluster.kafka, timeout=30.0) as log:
        regions = [RegionTopics(fresh("wal").replace("_", "-"), random.randrange(1 << 64)) for _ in range(_REGIONS)]
        for topics in regions:
            create_region(log, topics)
        cluster.kill("broker-2")
        yield log, regions


class TestDegradedKafkaRegion(RegionContract):
    """The behaviours of a write-ahead log and its bytes. What follows from them on any broker is left out, for the time that it takes."""

    test_a_reader_that_a_clean_has_overtaken_says_so_each_time = None
    test_a_region_that_is_not_there_is_told = None
    test_bad_input_is_refused_and_takes_no_number = None
    test_spark_is_given_what_is_live_and_never_fewer_rows = None
    test_spark_is_given_every_record_with_its_kind = None
    test_regions_keep_apart = None  # it makes more of them
    test_sequences_ascend_whatever_is_moved_marked_and_cleaned_meanwhile = None
    test_snapshots_that_are_gone_are_told_and_the_loss_is_accepted_once = None
    test_a_log_that_is_older_than_its_snapshots_is_told = None

    @pytest.fixture
    def log(self, degraded: tuple[KafkaLog, list[RegionTopics]]) -> Log:
        return degraded[0]

    @pytest.fixture
    def topics(self, degraded: tuple[KafkaLog, list[RegionTopics]]) -> RegionTopics:
        return degraded[1].pop()

    @pytest.fixture
    def join(self, log: Log) -> Callable[[], Ownership]:
        group = fresh("owners")
        return lambda: KafkaOwnership(log, group=group, session=6.0)
