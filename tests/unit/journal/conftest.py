from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.journal.ground import Ground, ground_at


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """A log and a store with a clock that stands still."""
    with ground_at(tmp_path) as made:
        yield made
