"""Claims: tokens, ends of leases, and the fast rows of consumer groups, against a dict of them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.queue import claims
from headwater.queue.claims import Claims
from headwater.queue.date_heap import NEVER

STEPS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 6), st.sampled_from([1, 5, 5, 5, 20])),
            st.tuples(st.just("extend"), st.integers(0, 6), st.sampled_from([1, 5, 20])),
            st.tuples(st.just("remove"), st.integers(0, 6), st.just(0)),
            st.tuples(st.just("end"), st.just(0), st.just(0)),
        ),
    ),
    max_size=60,
)


class Held(NamedTuple):
    token: str
    until: int
    group: str
    fast: bool


@given(STEPS)
def test_claims_are_what_was_added_and_not_removed(steps: list[tuple[int, tuple[str, int, int]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims, "_FEW", 3)  # that ends of leases that no longer hold are cut, too
        known, model, now, given_out = Claims(7), dict[int, Held](), 1000, set[str]()
        for sequence, (wait, (name, slot, lease)) in enumerate(steps, 1):
            now += wait
            if name == "add" and slot not in model:
                group, fast = f"g{slot % 2}", slot % 3 > 0
                token = known.add(slot, sequence, now, now + lease, group, "w", fast)
                assert token not in given_out
                given_out.add(token)
                model[slot] = Held(token, now + lease, group, fast)
            elif name == "extend" and slot in model:
                known.extend(slot, now, now + lease)
                model[slot] = model[slot]._replace(until=now + lease)
            elif name == "remove" and slot in model:
                gone, held = known.remove(slot), model.pop(slot)
                assert (gone.until, gone.group, gone.worker, gone.fast) == (held.until, held.group, "w", held.fast)
            elif name == "end":
                ended = []
                while (over := known.pop_ended(now)) >= 0:
                    ended.append(over)
                    known.remove(over)
                late = {one: held for one, held in model.items() if held.until < now}
                assert sorted(ended) == sorted(late)
                assert [late[one].until for one in ended] == sorted(held.until for held in late.values())
                model = {one: held for one, held in model.items() if one not in late}
            compare(known, model)


def compare(known: Claims, model: dict[int, Held]) -> None:
    assert known.by_token == {held.token: slot for slot, held in model.items()}
    assert len(known) == len(model)
    first = min((held.until for held in model.values()), default=NEVER)
    assert known.earliest <= first
    assert known.next_end() == known.earliest == first
    for group in ("g0", "g1"):
        assert known.only_slow(group) == (not any(held.fast and held.group == group for held in model.values()))


def test_at_its_very_end_a_lease_still_holds() -> None:
    known = Claims()
    known.add(1, 5, 100, 200, "g", "w", True)
    assert (known.pop_ended(199), known.pop_ended(200), known.pop_ended(201), known.pop_ended(201)) == (-1, -1, 1, -1)


def test_a_token_names_the_slot_the_record_and_the_table() -> None:
    assert Claims().add(1, 5, 0, 9, "g", "w", True) == "1-5"
    assert Claims(3).add(1, 5, 0, 9, "g", "w", True) == "1-5-3"


def test_a_row_that_is_claimed_again_has_another_token() -> None:
    known = Claims()
    first = known.add(1, 5, 0, 9, "g", "w", True)
    known.remove(1)
    assert known.add(1, 6, 0, 9, "g", "w", True) != first
    assert first not in known.by_token


def test_ends_of_leases_do_not_pile_up() -> None:
    known = Claims()
    known.add(0, 1, 0, 1 << 40, "g", "w", True)
    for number in range(10_000):
        known.add(1, number + 2, number, number + 3_600_000, "g", "w", True)
        if number % 2:
            known.extend(1, number, number + 7_200_000)
        known.remove(1)
    assert known.next_end() == 1 << 40
    known.remove(0)
    assert (known.next_end(), len(known), known.only_slow("g")) == (NEVER, 0, True)
