"""Many rows claimed and done at once: as one by one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.queue.played import Played, state

from headwater.queue.bulk import done_many
from headwater.queue.effective_settings import EffectiveSettings


def put(*keys: bytes, **more: Any) -> tuple[str, list[dict[str, Any]]]:
    return "put", [{"key": key, "data": b"1", **more} for key in keys]


def played(*steps: tuple[Any, ...]) -> Played:
    found = Played(EffectiveSettings())
    for step in steps:
        found.step(*step)
    return found


MANY = put(b"a", b"b", b"c", b"d")


@pytest.mark.parametrize(
    "steps",
    [
        [MANY, ("claim", 3, 50, "g"), ("claim", 9, 60, "g")],
        [MANY, put(b"first", priority=1), put(b"slow", priority=230), ("claim", 9, 50, "g"), ("claim", 9, 50, "other")],
        [put(b"slow", b"later", priority=230), ("claim", 9, 50, "g")],
        [MANY, put(b"a", b"c"), ("claim", 9, 50, "g")],  # merged: they stand behind the others
        [MANY, ("cancel", b"b"), ("claim", 9, 50, "g")],
        [MANY, ("claim", 2, 50, "g"), ("failed", 0, None), put(b"e"), ("claim", 9, 50, "g")],
        [MANY, put(b"in", b"lane", lane=b"l"), ("claim", 9, 50, "g")],
    ],
)
def test_many_rows_are_claimed_as_one_by_one(steps: list[tuple[Any, ...]]) -> None:
    found = played(*steps)
    found.check_cuts()


def finish(found: Played, tokens: list[str]) -> list[str]:
    stale: list[str] = found.record(lambda decisions: decisions.done(tokens))
    return stale


def tokens_of(found: Played) -> list[str]:
    return [token for token, _ in found.claims]


def test_many_rows_are_done_as_one_by_one() -> None:
    ways = []
    for at_once in (4, 1):
        found = played(MANY, ("claim", 9, 50, "g"), put(b"e"))
        tokens = tokens_of(found)
        for at in range(0, 4, at_once):
            assert finish(found, tokens[at : at + at_once]) == []
        found.check_cuts()
        ways.append({name: value for name, value in state(found.fold).items() if name not in ("sequence", "first")})
        assert (found.fold.claims.only_slow("g"), found.decisions.totals.done) == (True, 4)
        assert sorted(found.fold.columns.free)[:4] == [0, 1, 2, 3]
    assert ways[0] == ways[1]


@pytest.mark.parametrize("lost", ["twice", "unknown"])
def test_a_token_that_does_not_count_is_stale_and_the_others_are_done(lost: str) -> None:
    found = played(MANY, ("claim", 9, 50, "g"))
    tokens = tokens_of(found)
    odd = tokens[0] if lost == "twice" else "9-9"
    assert finish(found, [*tokens, odd]) == [odd]
    assert len(found.fold) == 0


def test_rows_for_which_something_waits_are_left_to_the_general_way() -> None:
    found = played(MANY, ("claim", 9, 50, "g"), put(b"a"))
    tokens, before = tokens_of(found), state(found.fold)
    assert done_many(found.fold, tokens) == []
    assert state(found.fold) == before
    assert finish(found, tokens) == []
    assert list(found.fold.by_key) == [b"a"]


def test_rows_for_which_others_wait_are_done_together_and_let_them_go() -> None:
    found = played(MANY, put(b"last", after=(0, 1)), ("claim", 9, 50, "g"))
    ids = dict(found.fold.columns.by_id or {})
    assert done_many(found.fold, tokens_of(found)) == []
    assert finish(found, tokens_of(found)) == []
    assert (found.fold.order.blocked, found.fold.order.due) == (0, 1)
    assert found.fold.columns.by_id == {id: slot for id, slot in ids.items() if slot == found.fold.by_key[b"last"]}
    found.check_cuts()


def test_rows_that_are_done_together_are_no_longer_found_by_their_ids() -> None:
    found = played(MANY, put(b"last", after=(0,)), ("cancel", b"last"), ("claim", 9, 50, "g"))
    assert finish(found, tokens_of(found)) == []
    assert found.fold.columns.by_id == {}
