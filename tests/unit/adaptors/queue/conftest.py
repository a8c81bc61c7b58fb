from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.adaptors.queue.connection import DOORS
from headwater.queue.settings import QueueSettings


@pytest.fixture
def data(tmp_path: Path) -> Iterator[str]:
    """A data directory with the queue `pages`. Doors of the adaptor are closed at the end."""
    with headwater.open_blocking(tmp_path / "data", create=True) as hw:
        hw.queue("pages", create=QueueSettings()).open()
    yield str(tmp_path / "data")
    DOORS.close_unused()


@pytest.fixture
def pages(data: str) -> Iterator[Any]:
    """The queue, through the door that the adaptor uses, too: one process owns it."""
    from headwater.pipeline.adaptors import queue

    door = DOORS.take(queue("pages", address=data))
    yield door.door.queue("pages")
    DOORS.give_back(door)
