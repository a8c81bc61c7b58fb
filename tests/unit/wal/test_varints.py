from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wal.layout import MalformedRecord
from headwater.wal.varints import decode_column, decode_varint, encode_column, encode_varint


@pytest.mark.parametrize(("number", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (142, "8e01"), (2**64 - 1, "ff" * 9 + "01")])
def test_numbers_have_the_bytes_of_protobuf(number: int, data: str) -> None:
    assert encode_varint(number) == bytes.fromhex(data)
    assert decode_varint(b"x" + bytes.fromhex(data) + b"x", 1) == (number, 1 + len(data) // 2)


@pytest.mark.parametrize("data", ["", "80", "ff" * 9 + "02", "80" * 10 + "01"])
def test_a_number_without_an_end_is_told(data: str) -> None:
    with pytest.raises(MalformedRecord):
        decode_varint(bytes.fromhex(data), 0)


@given(st.lists(st.integers(0, 2**62), max_size=50))
def test_every_column_comes_back(numbers: list[int]) -> None:
    column = np.array(numbers, np.int64)
    assert decode_column(encode_column(column), len(numbers)).tolist() == numbers


def test_a_column_that_grows_slowly_is_short() -> None:
    column = np.arange(5, 100_000, 40, dtype=np.int64)
    assert len(encode_column(column)) == len(column)


@pytest.mark.parametrize(("data", "count"), [(b"", 1), (b"\0", 0), (b"\0\0", 1), (b"\x80", 1), (b"\0\x80", 1), (b"\x80" * 10 + b"\1", 1)])
def test_what_is_no_column_is_told(data: bytes, count: int) -> None:
    with pytest.raises(MalformedRecord):
        decode_column(data, count)
