"""The fold and the decisions against the model, step by step; and the fold of every cut of the log against the fold that lived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.queue.played import Played, state

from headwater.core.units import Duration, Size
from headwater.queue.columns import HELD
from headwater.queue.data_place import LARGE
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.schedule import Schedule
from headwater.testing import queue_model

KEYS = [b"a", b"b", b"c" * 65, b"d" * 65]  # the long ones have the same hash
PUT = st.tuples(
    st.just("put"),
    st.lists(
        st.fixed_dictionaries(
            {"key": st.sampled_from(KEYS), "data": st.sampled_from([b"1", b"2"])},
            optional={
                "priority": st.sampled_from([0, 100, 199, 200, 230]),
                "delay": st.sampled_from([0, 5, 40]),
                "insertion_date": st.sampled_from([-20, -1, 0, 3]),
                "expiration_date": st.sampled_from([1, 10, 60]),
                "lane": st.sampled_from([b"", b"x", b"y"]),
                "unique_for": st.sampled_from([0, 3, 15, 40]),
                "schedule": st.sampled_from([Schedule(every=7), Schedule(every=7), Schedule(every=25), Schedule()]),
                "after": st.lists(st.sampled_from([-1, -2, -3, -4, 0, 1]), max_size=3),  # places among the rows that there have been
                "after_dead": st.sampled_from(["", "hold", "cancel", "cancel"]),
            },
        ),
        min_size=1,
        max_size=3,
    ),
)
CLAIM = st.tuples(st.just("claim"), st.integers(1, 3), st.sampled_from([1, 10, 50]), st.sampled_from(["g", "h"]))
END = st.tuples(st.sampled_from(["done", "released", "failed", "given-up"]), st.integers(0, 3), st.sampled_from([None, 0, 7]))
OTHER = st.sampled_from(
    [("pause",), ("resume",), ("cut",), ("carry",), ("cancel", b"a"), ("cancel", KEYS[2]), ("retry", 0), ("drop", 0), ("stale",)]
)
EXTEND = st.tuples(st.just("extend"), st.integers(0, 3), st.sampled_from([1, 30]))
STEPS = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 2, 9, 10, 11, 30]), st.one_of(PUT, PUT, CLAIM, CLAIM, END, EXTEND, OTHER)), max_size=40
)


@pytest.mark.parametrize("large", [LARGE, 0], ids=["in memory", "on the log"])
@given(
    steps=STEPS,
    delay=st.sampled_from([0, 30]),
    lanes=st.integers(1, 2),
    limit=st.sampled_from([0, 0, 2]),
    memory=st.sampled_from([0, 2]),
    kept=st.tuples(st.sampled_from([0, 12]), st.sampled_from([0, 0, 12])),
)
def test_the_queue_does_what_the_model_does(
    large: int, steps: list[tuple[int, tuple[Any, ...]]], delay: int, lanes: int, limit: int, memory: int, kept: tuple[int, int]
) -> None:
    limits: dict[str, Any] = {"results": Duration(kept[0]), "unique_for": Duration(kept[1])}
    limits |= {"max_timeouts": 1, "max_attempts": 2, "lane_concurrency": lanes, "concurrency": limit, "memory": Size(memory)}
    played = Played(EffectiveSettings(**limits, max_delay=Duration(delay), clock_ahead=Duration(5)), large=large)
    for wait, step in steps:
        played.now += wait
        played.step(*step)
    played.check_cuts()


def test_the_model_is_short_enough_to_be_read_at_once() -> None:
    assert len(Path(queue_model.__file__).read_text().splitlines()) <= 80


def test_a_follow_up_row_whose_predecessor_the_log_no_longer_tells_becomes_the_row_of_its_key() -> None:
    played = Played(EffectiveSettings())
    played.step("put", [{"key": b"a", "data": b"1"}])
    played.step("claim", 1, 50, "g")
    played.step("put", [{"key": b"a", "data": b"2"}])
    assert HELD in played.fold.columns.states
    played.step("done", 0, None)
    assert played.fold.homes.pass_unneeded() == 3  # the insert and the claim of the first row can go, and with them what held the second
    assert state(played.folded(3)) == state(played.fold)
    played.step("claim", 1, 50, "g")
    assert state(played.folded(3)) == state(played.fold)


def test_a_follow_up_row_may_come_before_the_row_that_it_follows() -> None:
    """The row that is processed was carried to the end of the log."""
    played = Played(EffectiveSettings())
    played.step("put", [{"key": b"a", "data": b"1"}])
    played.step("claim", 1, 50, "g")
    played.step("put", [{"key": b"a", "data": b"2"}])
    slot = played.fold.by_key[b"a"]
    played.record(lambda decisions: decisions.carry([slot], 1000, before=0))
    assert played.fold.homes.pass_unneeded() == 3
    assert state(played.folded(3)) == state(played.fold)
    played.step("released", 0, None)
    assert state(played.folded(3)) == state(played.fold)


def test_a_put_of_now_is_merged_into_a_follow_up_row_as_of_now_whatever_the_date_of_the_processed_row() -> None:
    played = Played(EffectiveSettings(clock_ahead=Duration(5)))
    played.step("put", [{"key": b"a", "data": b"1", "insertion_date": 3}])
    played.step("claim", 1, 50, "g")
    played.step("put", [{"key": b"a", "data": b"2"}, {"key": b"a", "data": b"3"}])
    played.check_cuts()


def test_a_fold_of_nothing_is_empty() -> None:
    fold = QueueFold(7)
    fold.finish(0)
    assert (len(fold), fold.sequence, fold.homes.first) == (0, 6, 7)
    with pytest.raises(KeyError):
        fold.by_key[b"a"]
