"""The lock: several shared holders or one exclusive holder, and nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.log.kafka.shared_lock import SharedLock

PATIENCE = 30.0


def test_several_are_there_at_once() -> None:
    lock, met = SharedLock(), threading.Barrier(3)

    def come() -> None:
        with lock.shared():
            met.wait(PATIENCE)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(come) for _ in range(3)]:
            done.result(PATIENCE)


def test_who_is_alone_waits_for_those_before_and_is_waited_for_by_those_behind() -> None:
    lock, order = SharedLock(), list[str]()
    inside, go = threading.Event(), threading.Event()

    def first() -> None:
        with lock.shared():
            inside.set()
            assert go.wait(PATIENCE)
            order.append("first")

    def alone() -> None:
        with lock.exclusive():
            order.append("alone")

    def later() -> None:
        with lock.shared():
            order.append("later")

    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(first)]
        assert inside.wait(PATIENCE)
        calls.append(pool.submit(alone))
        while not lock._exclusive:  # it has come, and waits
            threading.Event().wait(0.001)
        calls.append(pool.submit(later))
        go.set()
        for call in calls:
            call.result(PATIENCE)
    assert order == ["first", "alone", "later"]


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_an_error_inside_lets_the_next_one_in(kind: str) -> None:
    lock = SharedLock()
    with pytest.raises(ValueError, match="inside"), getattr(lock, kind)():
        raise ValueError("inside")
    with lock.exclusive():
        pass
