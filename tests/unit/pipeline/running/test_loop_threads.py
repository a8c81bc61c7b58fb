"""The threads of a run's loops."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from headwater.pipeline.running.loop_threads import LoopThreads
from headwater.testing.clock import ManualClock


def _wait(gate: threading.Event) -> None:
    gate.wait(60)


def test_a_wait_ends_with_the_last_loop_although_no_time_passes() -> None:
    gates = {"one": threading.Event(), "two": threading.Event()}
    threads = LoopThreads(threading.Event(), ManualClock())
    for name, gate in gates.items():
        threads.add(name, partial(_wait, gate))
    threads.start()
    assert threads.running()
    gates["one"].set()
    threads.wait(3600)  # the clock stands still: a wait for time would never end
    assert threads.running()
    gates["two"].set()
    while threads.running():
        threads.wait(3600)
    threads.join(60)


def test_somebody_else_ends_a_wait() -> None:
    attention, gate = threading.Event(), threading.Event()
    threads = LoopThreads(attention, ManualClock())
    threads.add("one", partial(_wait, gate))
    threads.start()
    attention.set()
    threads.wait(3600)
    assert threads.running()
    gate.set()
    threads.join(60)
    assert not threads.running()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_that_dies_has_ended() -> None:
    def dies() -> None:
        raise SystemExit(3)

    threads = LoopThreads(threading.Event(), ManualClock())
    threads.add("one", dies)
    threads.start()
    while threads.running():
        threads.wait(3600)
    threads.join(60)
