"""Places of data: bytes that stand for them, and that tell whether they are the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.queue.data_place import PLACE_SIZE, DataPlace, length_of, place_of, same_data


@given(st.binary(max_size=50), st.binary(max_size=9), st.binary(max_size=9), st.integers(1, 2**63))
def test_data_are_cut_from_the_record_that_holds_them(data: bytes, before: bytes, after: bytes, sequence: int) -> None:
    place = place_of(data, sequence, len(before))
    assert (place.sequence, place.begin, place.length, len(place)) == (sequence, len(before), len(data), PLACE_SIZE)
    assert place.cut(before + data + after) == data
    assert DataPlace(bytes(place)) == place


def test_what_is_not_the_data_is_not_cut() -> None:
    place = place_of(b"data", 7, 2)
    assert place.cut(b"..data") == b"data"
    for payload in (b"", b"..dat", b"data", b"..dbta"):
        assert place.cut(payload) is None


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_the_same_data_are_the_same_wherever_they_lie(one: bytes, other: bytes) -> None:
    for first in (one, place_of(one, 1, 9)):
        for second in (other, place_of(other, 5, 3)):
            assert same_data(first, second) == (one == other)
            assert same_data(first, place_of(one, 2, 2))
        assert length_of(first) == len(one)
