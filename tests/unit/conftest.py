"""What unit tests of several parts need."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stopped_shop import fill_stopped_shop


@pytest.fixture
def stopped_shop(tmp_path: Path) -> Path:
    """A data directory with the stopped pipeline `shop`."""
    return fill_stopped_shop(tmp_path / "data")
