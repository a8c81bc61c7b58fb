from __future__ import annotations

import threading

import pytest

from headwater.core.errors import Unreachable
from headwater.journal import last_numbers
from headwater.journal.action import Action, ActionRecord, Append, Delete, Purge
from headwater.journal.last_numbers import LastNumbers


def record(id: str, action: Action) -> ActionRecord:
    return ActionRecord(id, action, 0, 0)


class Numbers:
    """Look-ups that a test lets go on; every journal ends with 5, and `z` cannot be looked up."""

    def __init__(self) -> None:
        self.go, self.ended = threading.Event(), threading.Semaphore(0)
        self.numbers: LastNumbers[str] = LastNumbers(self.look, arrived=self.ended.release, most=10)
        self.asked: list[tuple[str, int]] = []

    def look(self, id: str, end: int) -> int:
        self.asked.append((id, end))
        assert self.go.wait(60)
        if id == "z":
            raise Unreachable("Nobody is there.")
        return 5

    def taken(self, count: int) -> dict[str, tuple[list[str], bool]]:
        """The look-ups that have ended: their calls, and whether they failed."""
        self.go.set()
        for _ in range(count):
            assert self.ended.acquire(timeout=60)
        found = [self.numbers.take_ended() for _ in range(count)]
        return {one.id: (one.calls, one.error is not None) for one in found}


def test_what_is_appended_meanwhile_counts_in_the_answer() -> None:
    held = Numbers()
    numbers = held.numbers
    for id in "abcdefz":
        numbers.begin(id, 3, [f"call of {id}"])
    numbers.fold(record("b", Append(6, 7)))
    numbers.fold(record("c", Purge()))
    numbers.fold(record("d", Purge()))
    numbers.fold(record("d", Append(1, 2)))
    numbers.fold(record("e", Append(2, 2)))
    numbers.fold(record("e", Delete(9)))
    numbers.settle({"f": 1, "a": -4})
    found = held.taken(7)
    assert found == {id: ([f"call of {id}"], id == "z") for id in "abcdefz"}
    assert numbers.known == {"a": 5, "b": 7, "c": 0, "d": 2, "e": 5, "f": 1}
    assert (numbers.fresh, numbers.waiting) == (set("abcdef"), {})
    numbers.fold(record("b", Append(8, 8)))
    numbers.fold(record("a", Purge()))
    assert (numbers.known["b"], numbers.known["a"]) == (8, 0)


def test_an_answer_from_before_a_failure_is_none() -> None:
    held = Numbers()
    held.numbers.begin("a", 3, ["call"])
    held.numbers.known["b"] = 1
    held.numbers.clear()
    assert held.taken(1) == {"a": (["call"], False)}
    assert held.numbers.known == {}


def test_so_many_are_looked_up_at_once() -> None:
    held = Numbers()
    count = last_numbers.MOST_LOOKUPS + 5
    for number in range(count):
        held.numbers.begin(str(number), 3, [])
    assert len(held.taken(count)) == count
    assert sorted(held.numbers.known) == sorted(map(str, range(count)))


def test_a_journal_is_looked_up_at_once_where_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    held = Numbers()
    held.numbers.begin("a", 3, ["call of a"])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        held.go.set()
        for id in ("b", "z"):
            held.numbers.begin(id, 3, [f"call of {id}"])
    assert held.taken(3) == {id: ([f"call of {id}"], id == "z") for id in "abz"}
    assert (held.numbers.known, held.numbers.waiting) == ({"a": 5, "b": 5}, {})
    count = last_numbers.MOST_LOOKUPS
    for number in range(count):
        held.numbers.begin(str(number), 3, [])
    assert len(held.taken(count)) == count


def test_a_look_up_leaves_a_newer_number_alone() -> None:
    held = Numbers()
    numbers = held.numbers
    for id in "abcd":
        numbers.begin(id, 3, [])
    numbers.settle({"a": 7, "b": 7, "c": 7})
    numbers.fold(record("a", Append(8, 9)))
    numbers.fold(record("b", Append(8, 9)))
    numbers.fold(record("c", Purge()))
    del numbers.known["b"]  # as the least recently written one
    numbers.known["d"] = 12  # looked up meanwhile, as of a later end
    held.taken(4)
    assert numbers.known == {"a": 9, "b": 9, "c": 0, "d": 12}


def test_the_numbers_of_the_newest_journals_are_kept() -> None:
    held = Numbers()
    held.go.set()
    assert held.numbers.load("a", 3, -9) == 8
    assert held.numbers.known == {"a": 5}
    held.numbers.settle({str(number): number for number in range(11)})
    assert list(held.numbers.known) == [str(number) for number in range(2, 11)]
    held.numbers.fresh.add("10")
    held.numbers.keep_fresh()
    assert held.numbers.known == {"10": 10}
