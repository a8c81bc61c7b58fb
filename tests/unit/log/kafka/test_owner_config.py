from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import Unsupported
from headwater.log.kafka.owner_config import decode_owner, encode_owner
from headwater.parts import PARTS

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-_", min_size=1, max_size=11)


@given(NAMES)
def test_a_name_comes_back_from_its_number(name: str) -> None:
    assert decode_owner(encode_owner(name)) == name
    assert 0 < encode_owner(name) < 1 << 63


@given(NAMES, NAMES)
def test_two_names_have_two_numbers(one: str, other: str) -> None:
    assert (encode_owner(one) == encode_owner(other)) is (one == other)


@given(st.integers(0, (1 << 63) - 1))
def test_any_number_stands_for_one_name_or_for_none(number: int) -> None:
    name = decode_owner(number)
    assert not name or encode_owner(name) == number


@given(st.integers(0, 1 << 60))
def test_a_lag_that_people_choose_is_no_owner(milliseconds: int) -> None:
    assert decode_owner(milliseconds) == decode_owner((1 << 63) - 1) == ""


def test_every_part_can_own_topics() -> None:
    assert encode_owner("") == 0
    for name in (*(part.name for part in PARTS), "journal", "queue", "wal", "documents"):
        assert decode_owner(encode_owner(name)) == name


@pytest.mark.parametrize("name", ["twelve-lettr", "Upper", "a b", "part2", "größe"])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(Unsupported, match="owner"):
        encode_owner(name)
