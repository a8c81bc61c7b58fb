"""One at a time, over threads and processes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from headwater.core.clock import SystemClock
from headwater.core.errors import ReadOnly, Timeout, Unavailable
from headwater.core.files import Files
from headwater.core.mutex import ProcessMutex


def mutex(path: Path, timeout: float = 60) -> ProcessMutex:
    return ProcessMutex(path, files=Files(), clock=SystemClock(), timeout=timeout)


def test_threads_and_other_holders_take_turns(tmp_path: Path) -> None:
    shared, count, most = mutex(tmp_path / "m"), 0, 0

    def work(one: ProcessMutex) -> None:
        nonlocal count, most
        for _ in range(50):
            with one.held():
                count += 1
                most = max(most, count)
                count -= 1

    threads = [threading.Thread(target=work, args=(one,)) for one in (shared, shared, mutex(tmp_path / "m"), mutex(tmp_path / "m"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (count, most) == (0, 1)


@pytest.mark.parametrize("same", [True, False], ids=["a thread", "another process"])
def test_waiting_has_an_end_and_the_next_try_succeeds(tmp_path: Path, same: bool) -> None:
    one = mutex(tmp_path / "m", 0.02)
    two = one if same else mutex(tmp_path / "m", 0.02)
    caught = []

    def late() -> None:
        try:
            with two.held():
                pass
        except Timeout as error:
            caught.append(error.message)

    with one.held():
        thread = threading.Thread(target=late)
        thread.start()
        thread.join(60)
    assert [str(tmp_path / "m") in message for message in caught] == [True]
    patient = mutex(tmp_path / "m")
    with patient.held():
        pass


def test_an_error_inside_lets_go(tmp_path: Path) -> None:
    one = mutex(tmp_path / "m", 0.02)
    with pytest.raises(ZeroDivisionError), one.held():
        raise ZeroDivisionError
    with one.held():
        pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises((Unavailable, ReadOnly)), mutex(tmp_path / "no" / "m").held():
        pass


def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        held = mutex(tmp_path / "m").held()
        held.__enter__()
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    with mutex(tmp_path / "m", 5).held():
        pass
