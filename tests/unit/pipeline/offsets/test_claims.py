"""The claims of runs: which are kept, and which records they shut out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.pipeline.offsets.claims import Claim, claimed, overtaken


def test_the_claims_of_all_runs_count() -> None:
    claims: tuple[Claim, ...] = ()
    for epoch in range(1, 201):
        claims = claimed(claims, (epoch, epoch * 10), start=0)
    assert len(claims) == 200
    assert overtaken(1, 20, claims)  # a run of long ago that wrote after the second had claimed
    assert not overtaken(1, 19, claims)


def test_runs_that_read_nothing_keep_one_claim() -> None:
    claims: tuple[Claim, ...] = ((1, 0), (2, 7))
    for epoch in range(3, 500):
        claims = claimed(claims, (epoch, 7), start=0)
    assert claims == ((1, 0), (499, 7))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12).map(sorted), st.integers(0, 25))
def test_what_is_left_out_changes_no_judgement(ends: list[int], start: int) -> None:
    every = [(epoch, end) for epoch, end in enumerate(ends, 1)]
    kept: tuple[Claim, ...] = ()
    for claim in every:
        kept = claimed(kept, claim, start=start)
    for epoch in range(len(every) + 2):
        for offset in range(start, 30):
            assert overtaken(epoch, offset, kept) == any(other > epoch and end <= offset for other, end in every)
