"""What the acceptance tests share."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import httpx2
import pytest
from forked_program import ForkedProgram
from tests.until import LONGEST_S

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


@pytest.fixture(autouse=True, scope="session")
def _patient_clients() -> None:
    """The client's own 5 s are no measure: a disk that stands still on a busy machine takes longer."""
    usual = inspect.signature(httpx2.get).parameters["timeout"].default
    for name in ("connect", "read", "write", "pool"):
        setattr(usual, name, LONGEST_S)
