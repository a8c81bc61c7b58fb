"""Integers that MongoDB gets back as longs."""

from __future__ import annotations

import pytest

from headwater.pipeline.long_integer import Long, long, plain


@pytest.mark.parametrize(("number", "kind"), [(7, Long), (-(1 << 31), Long), ((1 << 31) - 1, Long), (1 << 31, int), (-(1 << 62), int)])
def test_only_an_integer_of_32_bits_has_to_be_marked(number: int, kind: type) -> None:
    assert long(number) == number
    assert type(long(number)) is kind


def test_it_is_an_integer_to_everybody_else() -> None:
    assert isinstance(Long(7), int)
    assert Long(7) * 2 == 14
    assert type(Long(7) * 2) is int
    assert repr(Long(7)) == "7"
    assert f"{Long(7):>2}" == " 7"
    assert plain(Long(7)) == 7
    assert type(plain(Long(7))) is int


def test_an_encoder_still_refuses_what_it_does_not_know() -> None:
    with pytest.raises(TypeError, match="set"):
        plain({1})
