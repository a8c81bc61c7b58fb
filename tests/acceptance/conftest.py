"""What the acceptance tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Commands without the start of a program for each."""
    made = Nursery()
    yield made
    made.close()
