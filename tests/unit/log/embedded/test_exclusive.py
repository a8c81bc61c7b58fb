"""The lock of a partition: among threads, among processes, and after an interruption."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import Closed, Timeout, Unavailable
from headwater.core.files import FileLock, Files
from headwater.log.embedded.exclusive import Exclusive, wait_for_holder
from headwater.testing.clock import ManualClock


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[FileLock]:
    made = FileLock(Files(), tmp_path / "lock")
    yield made
    made.close()


def free(path: Path) -> bool:
    """Whether another process could have it now."""
    other = FileLock(Files(), path)
    try:
        return other.try_exclusive()
    finally:
        other.close()


def test_held_it_keeps_other_processes_and_threads_out(lock: FileLock, tmp_path: Path) -> None:
    exclusive, entered = Exclusive(lock, "t 0"), threading.Event()

    def enter() -> None:
        with exclusive:
            entered.set()

    with exclusive:
        assert not free(tmp_path / "lock")
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.05)
    thread.join()
    assert entered.is_set()
    assert free(tmp_path / "lock")


def test_the_thread_that_holds_it_is_told_and_does_not_wait_for_itself(lock: FileLock) -> None:
    exclusive = Exclusive(lock, "t 0")
    with exclusive, pytest.raises(Unavailable, match="by this very thread"):
        with exclusive:
            pass


def test_what_an_interruption_has_left_can_be_let_go_of(lock: FileLock, tmp_path: Path) -> None:
    exclusive = Exclusive(lock, "t 0")
    exclusive.mutex.acquire()
    exclusive.acquire()  # and here Ctrl-C comes
    exclusive.abandon()
    assert free(tmp_path / "lock")
    with exclusive:
        assert not free(tmp_path / "lock")


def test_closed_it_says_so(lock: FileLock) -> None:
    exclusive = Exclusive(lock, "t 0")
    lock.close()
    with pytest.raises(Closed, match="t 0 has been closed"), exclusive:
        pass
    with pytest.raises(Closed), exclusive:  # and keeps nothing of the first try
        pass


def test_waiting_for_a_holder_that_stands_still_has_an_end(lock: FileLock, tmp_path: Path) -> None:
    clock, caught = ManualClock(), list[Timeout]()

    def ask() -> None:
        try:
            wait_for_holder(tmp_path, files=Files(), clock=clock)
        except Timeout as error:
            caught.append(error)

    lock.exclusive()
    thread = threading.Thread(target=ask)
    thread.start()
    while thread.is_alive():
        clock.advance(1)
    assert str(tmp_path / "lock") in caught[0].message
    lock.release()
    wait_for_holder(tmp_path, files=Files(), clock=clock)
    assert free(tmp_path / "lock")


def test_nobody_holds_the_lock_of_a_partition_without_files(tmp_path: Path) -> None:
    wait_for_holder(tmp_path / "none", files=Files(), clock=ManualClock())
    assert not (tmp_path / "none").exists()
