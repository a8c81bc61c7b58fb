"""What a sink has taken, against sets of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.adaptors.sql.ranges import TakenRange, compacted, contains, of_bucket, whole

END = 24


@st.composite
def rows(draw: st.DrawFn) -> list[TakenRange]:
    out = []
    for _ in range(draw(st.integers(0, 12))):
        start = draw(st.integers(0, END - 1))
        buckets = draw(st.integers(1, 3))
        out.append(TakenRange(start, draw(st.integers(start, END)), draw(st.integers(0, buckets - 1)), buckets))
    return out


def model_whole(taken: list[TakenRange]) -> set[int]:
    """An offset is taken when, of some split, every bucket has it."""
    return {
        offset
        for offset in range(END)
        for buckets in (1, 2, 3)
        if all(any(t.start <= offset < t.end and (t.bucket, t.buckets) == (b, buckets) for t in taken) for b in range(buckets))
    }


@given(rows())
def test_whole_is_what_every_bucket_of_a_split_has(taken: list[TakenRange]) -> None:
    spans = whole(taken)
    assert {offset for start, end in spans for offset in range(start, end)} == model_whole(taken)
    assert spans == sorted(spans)


@given(rows(), st.integers(1, 3), st.integers(0, 2))
def test_a_bucket_has_its_own_and_what_is_whole(taken: list[TakenRange], buckets: int, bucket: int) -> None:
    own = {o for t in taken if (t.bucket, t.buckets) == (bucket, buckets) for o in range(t.start, t.end)}
    spans = of_bucket(taken, bucket, buckets)
    assert {offset for offset in range(END) if contains(spans, offset)} == own | model_whole(taken)


@given(rows())
def test_compacting_changes_nothing_and_is_done_once(taken: list[TakenRange]) -> None:
    fewer = compacted(taken)
    assert model_whole(fewer) == model_whole(taken)
    for buckets in (1, 2, 3):
        for bucket in range(buckets):
            assert of_bucket(fewer, bucket, buckets) == of_bucket(taken, bucket, buckets)
    assert compacted(fewer) == fewer


def test_batches_that_follow_one_another_become_one_row() -> None:
    assert compacted(TakenRange(n, n + 1) for n in range(1000)) == [TakenRange(0, 1000)]
    assert whole([TakenRange(0, 4, 0, 2), TakenRange(2, 6, 1, 2)]) == [(2, 4)]
