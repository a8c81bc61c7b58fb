"""A real Kafka: one broker that is shared, one that is killed, and three that replicate."""

from __future__ import annotations

import socket
import uuid
from contextlib import ExitStack, suppress

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tools.services import Running, up
from tools.services.private import PrivateServers

SECONDS = 60


def new_topic(servers: str, *, copies: int = 1) -> str:
    name = f"services-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": servers})  # kept: without it the answer is cut off
    admin.create_topics([NewTopic(name, 1, copies)])[name].result(SECONDS)
    return name


def write(servers: str, topic: str, values: range) -> None:
    """Returns when all of them are acknowledged by all the copies in sync."""
    failed = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all"})
    for value in values:
        producer.produce(topic, b"%d" % value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(SECONDS) == 0
    assert failed == []


def read(servers: str, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False, "enable.partition.eof": False})
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        values = []
        while len(values) < count and (message := consumer.poll(SECONDS)) is not None:
            assert message.error() is None, message.error()
            values.append(int(message.value()))
        return values
    finally:
        consumer.close()


def test_what_was_written_is_read(kafka: str) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, range(100))
    assert read(kafka, topic, 100) == list(range(100))


def test_a_second_up_finds_it(kafka: str) -> None:
    running: Running = up("kafka", kept=False)
    assert running.found == {"kafka"}
    assert running.kafka == kafka
    assert running.pid("broker-1") == up("kafka", kept=False).pid("broker-1")


def test_a_broker_that_was_killed_comes_back_with_its_data(private_servers: PrivateServers) -> None:
    with ExitStack() as held:
        with suppress(OSError):  # taken already, which is as good
            held.enter_context(socket.create_server(("127.0.0.1", 9092)))
        running = private_servers.up("kafka")
    servers = running.kafka
    assert servers != "127.0.0.1:9092"
    topic = new_topic(servers)
    write(servers, topic, range(1000))
    before = running.pid("broker-1")
    running.kill("broker-1")
    assert running.pid("broker-1") is None
    running.restart("broker-1")
    assert running.pid("broker-1") not in (None, before)
    assert running.kafka == servers
    assert read(servers, topic, 1000) == list(range(1000))


@pytest.mark.soak  # the tests of what uses it kill one, too
def test_three_brokers_go_on_when_one_is_killed(private_servers: PrivateServers) -> None:
    running = private_servers.up("kafka", brokers=3)
    servers = running.kafka
    assert len(servers.split(",")) == 3
    topic = new_topic(servers, copies=3)
    write(servers, topic, range(100))
    running.kill("broker-2")
    write(servers, topic, range(100, 200))
    running.restart("broker-2")
    assert read(servers, topic, 200) == list(range(200))
