from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.core.ids import random_id
from headwater.documents.ids import next_id, successor
from headwater.documents.path import parse_path


@given(st.lists(st.integers(0, 1 << 48), min_size=2, max_size=40))
def test_ids_grow_whatever_the_clock_says(moments: list[int]) -> None:
    ids, last = list[str](), ""
    for moment in moments:
        last = next_id(last, moment, random_id)
        ids.append(last)
    assert all(one < other and one.encode() < other.encode() for one, other in pairwise(ids))
    assert all(parse_path(f"a~/{one}").item == one for one in ids)


def test_a_fresh_id_has_26_digits_and_begins_with_the_time() -> None:
    first = next_id("", 1_700_000_000_000, lambda: "0" * 32)
    assert first == "01HF7YAT0000000000000000" + "00"
    assert next_id(first, 1_700_000_000_000, lambda: "0" * 32) == first[:-1] + "1"
    assert next_id(first, 1_600_000_000_000, random_id) == first[:-1] + "1"
    assert next_id(first, 1_700_000_000_001, random_id)[:10] > first[:10]


def test_the_greatest_id_has_a_successor() -> None:
    assert successor("7" + "Z" * 25) == "7" + "Z" * 25 + "0"
    assert successor("zzz") > "zzz"
    assert successor("00000000000000000000000ZZZ") == "00000000000000000000001000"
    assert next_id("7" + "Z" * 25 + "0", 1, random_id) > "7" + "Z" * 25 + "0"
