"""Segments of the tables `journal` and `metajournal`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.journal.store import head_segment, segment_of


@pytest.mark.parametrize(
    ("id", "count", "segment"),
    [("id", 100, 55), ("ID", 100, 55), ("id", 10_000, 3355), ("ID", 10_000, 3355), ("journal ID", 10_000, 5668), ("", 100, 0)],
)
def test_heads_lie_in_the_segments_of_kafka_journal(id: str, count: int, segment: int) -> None:
    assert head_segment(id, count) == segment


def java_hash(text: str) -> int:
    """Java's hash of a text, by its definition: the sum of s[i] · 31^(n-1-i) in 32 bits with a sign."""
    encoded = text.encode("utf-16-be")
    units = [int.from_bytes(encoded[at : at + 2]) for at in range(0, len(encoded), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - place) for place, unit in enumerate(units)) % (1 << 32)
    return total - (1 << 32) if total >= 1 << 31 else total


def test_the_hash_is_that_of_java() -> None:
    assert java_hash("hello") == 99162322
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert head_segment("polygenelubricants", 10_000) == 3648  # |-2147483648 rem 10000|
    assert head_segment("😀", 100) == abs(java_hash("😀")) % 100


@given(st.text(), st.sampled_from([100, 10_000]))
def test_segments_are_those_of_the_definition(id: str, count: int) -> None:
    assert head_segment(id, count) == abs(java_hash(id.lower())) % count


def test_events_lie_in_segments_by_their_numbers() -> None:
    assert [segment_of(number, 3) for number in (1, 2, 3, 4, 5, 6, 7)] == [0, 0, 0, 1, 1, 1, 2]
    assert segment_of((1 << 63) - 1, 2) == (1 << 62) - 1
