from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.adaptors.queue.connection import DOORS


@pytest.fixture
def data(tmp_path: Path) -> Iterator[str]:
    """A data directory. Doors of the adaptor are closed at the end."""
    (tmp_path / "data").mkdir()
    yield str(tmp_path / "data")
    DOORS.close_unused()


@pytest.fixture
def shop(data: str) -> Iterator[Any]:
    """The documents of the directory, through the door that the adaptor uses, too."""
    from headwater.adaptors.documents.adaptor import DocumentsAdaptor

    door = DOORS.take(DocumentsAdaptor(path="shop/", address=data))
    yield door.door.documents
    DOORS.give_back(door)
