"""What the acceptance tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from forked_program import ForkedProgram

from headwater.server.spawned import SpawnedServer


@pytest.fixture(scope="session")
def forked_program() -> Iterator[ForkedProgram]:
    """Runs commands without starting Python for each."""
    program = ForkedProgram()
    yield program
    program.close()


@pytest.fixture(autouse=True, scope="session")
def _forked_servers(forked_program: ForkedProgram) -> Iterator[None]:
    """Servers are started by a fork, too."""
    usual, SpawnedServer.popen = SpawnedServer.popen, forked_program.popen
    yield
    SpawnedServer.popen = usual
