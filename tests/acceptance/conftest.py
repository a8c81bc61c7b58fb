"""What the acceptance tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from forked_program import ForkedProgram


@pytest.fixture(scope="session")
def forked_program() -> Iterator[ForkedProgram]:
    """Runs commands without starting Python for each."""
    program = ForkedProgram()
    yield program
    program.close()
