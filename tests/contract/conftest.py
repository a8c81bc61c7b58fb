from __future__ import annotations

import os

import pytest
from tools.services import up


@pytest.fixture(scope="session")
def kafka() -> str:
    """The address of a real broker: the one that the environment names, or one that is started now."""
    return os.environ.get("HEADWATER_KAFKA__BOOTSTRAP") or up("kafka", kept=False).kafka
