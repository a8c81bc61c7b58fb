from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wal.layout import MalformedRecord
from headwater.wal.varints import decode_column, decode_varint, decode_varints, encode_column, encode_varint, encode_varints, varint_sizes


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


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_a_column_of_numbers_has_the_bytes_of_its_numbers(numbers: list[int]) -> None:
    column = np.array(numbers, np.uint64)
    data = b"".join(map(encode_varint, numbers))
    assert encode_varints(column) == data
    assert varint_sizes(column).tolist() == [len(encode_varint(number)) for number in numbers]
    assert decode_varints(np.frombuffer(data, np.uint8)).tolist() == numbers


def test_a_number_without_a_size_is_left_out() -> None:
    assert encode_varints(np.array([1, 300, 2], np.uint64), np.array([1, 0, 1])) == b"\1\2"


@pytest.mark.parametrize("count", [65_535, 65_536, 65_537, 200_000])
def test_a_long_column_comes_back(count: int) -> None:
    """It is worked on in pieces: numbers of one, two and ten bytes lie at their borders."""
    column = np.cumsum(np.resize(np.array([1, 5000, -3, 2**55, -(2**55)]), count))
    assert np.array_equal(decode_column(encode_column(column), count), column)


def test_long_columns_pause_between_their_pieces() -> None:
    numbers, pauses = np.arange(100_000, dtype=np.int64), list[int]()
    data = encode_column(numbers, lambda: pauses.append(1))
    encoding = len(pauses)
    assert encoding > 3
    assert np.array_equal(decode_column(data, len(numbers), lambda: pauses.append(1)), numbers)
    assert len(pauses) > encoding + 3
    assert data == encode_column(numbers)
