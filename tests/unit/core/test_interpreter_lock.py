from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from headwater.core.interpreter_lock import release_for_a_moment


@pytest.fixture
def _no_switches() -> Iterator[None]:
    """Let no thread take the lock from another one that does not release it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_no_switches")
def test_another_thread_runs_meanwhile() -> None:
    ran: list[int] = []
    thread = threading.Thread(target=lambda: ran.append(1), daemon=True)
    thread.start()
    while not ran:  # without a release the interpreter would never switch
        release_for_a_moment()
    thread.join()
