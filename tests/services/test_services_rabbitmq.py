"""A real RabbitMQ."""

from __future__ import annotations

import uuid

import pika
from tools.services import up
from tools.services.private import PrivateServers


def test_what_was_published_is_got(rabbitmq: str) -> None:
    name = f"t-{uuid.uuid4().hex}"
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq))
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"text")
    assert channel.basic_get(name, auto_ack=True)[2] == b"text"
    connection.close()


def test_a_second_up_finds_it(rabbitmq: str) -> None:
    running = up("rabbitmq", kept=False)
    assert running.found == {"rabbitmq"}
    assert running.rabbitmq == rabbitmq


def test_two_run_side_by_side_and_leave_no_name_service_behind(rabbitmq: str, private_servers: PrivateServers) -> None:
    running = private_servers.up("rabbitmq")
    assert running.rabbitmq != rabbitmq
    names = running.pid("epmd-1")
    assert names is not None
    pika.BlockingConnection(pika.URLParameters(running.rabbitmq)).close()
    private_servers.close()
    assert running.pid("epmd-1") is None
    assert running.pid("rabbitmq-1") is None
