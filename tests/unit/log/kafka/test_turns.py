"""Turns: several at once, or one alone, and nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.log.kafka.turns import Turns

PATIENCE = 30.0


def test_several_are_there_at_once() -> None:
    turns, met = Turns(), threading.Barrier(3)

    def come() -> None:
        with turns.together():
            met.wait(PATIENCE)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(come) for _ in range(3)]:
            done.result(PATIENCE)


def test_who_is_alone_waits_for_those_before_and_is_waited_for_by_those_behind() -> None:
    turns, order = Turns(), list[str]()
    inside, go = threading.Event(), threading.Event()

    def first() -> None:
        with turns.together():
            inside.set()
            assert go.wait(PATIENCE)
            order.append("first")

    def alone() -> None:
        with turns.alone():
            order.append("alone")

    def later() -> None:
        with turns.together():
            order.append("later")

    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(first)]
        assert inside.wait(PATIENCE)
        calls.append(pool.submit(alone))
        while not turns._alone:  # it has come, and waits
            threading.Event().wait(0.001)
        calls.append(pool.submit(later))
        go.set()
        for call in calls:
            call.result(PATIENCE)
    assert order == ["first", "alone", "later"]


@pytest.mark.parametrize("kind", ["together", "alone"])
def test_an_error_inside_lets_the_next_one_in(kind: str) -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="inside"), getattr(turns, kind)():
        raise ValueError("inside")
    with turns.alone():
        pass
