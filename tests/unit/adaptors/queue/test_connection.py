from __future__ import annotations

from typing import Any

import pytest

import headwater
from headwater.adaptors.queue.connection import QueueConnection, SharedDoors, looked_up
from headwater.core.errors import NotFound, Unreachable
from headwater.pipeline.adaptors import queue


@pytest.fixture
def doors() -> Any:
    made = SharedDoors(linger=3600)
    yield made
    made.close_unused()


def test_connections_of_a_process_share_a_door(data: str, doors: SharedDoors) -> None:
    adaptor = queue("pages", address=data)
    with QueueConnection(adaptor, doors=doors) as one, QueueConnection(adaptor, doors=doors) as other:
        assert one.exists()  # each of two doors would own the queue
        assert other.exists()
        doors.close_unused()
        assert one.exists()


def test_a_door_that_nobody_uses_lets_others_own_the_queue(data: str, doors: SharedDoors) -> None:
    with QueueConnection(queue("pages", address=data), doors=doors) as connection:
        connection.described()
    doors.close_unused()
    with headwater.open_blocking(data) as hw:
        assert hw.queue("pages").count().due == 0


def test_a_queue_that_another_process_owns_is_waited_for(data: str, doors: SharedDoors) -> None:
    with headwater.open_blocking(data) as hw:
        hw.queue("pages").put("a", 1)
        with (
            pytest.raises(Unreachable, match="Another process owns the queue"),
            QueueConnection(queue("pages", address=data), doors=doors) as connection,
        ):
            connection.described()
    with QueueConnection(queue("pages", address=data), doors=doors) as connection:  # a new door: the failed one is gone
        assert "1 due" in connection.described()


def test_a_directory_that_is_not_there_is_not_made(data: str) -> None:
    assert looked_up(queue("pages", address=f"{data}/none")) is None
    with pytest.raises(NotFound), QueueConnection(queue("pages", address=f"{data}/none")):
        pass
