"""How much of a source is read: the arithmetic, and what people are shown of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.pipeline.source_progress import CopySize, SourceProgress


@given(total=st.integers(0, 1 << 50), read=st.integers(0, 1 << 51), copied=st.booleans())
def test_an_exact_size_is_never_passed_and_is_whole_only_when_all_is_read(total: int, read: int, copied: bool) -> None:
    found = SourceProgress.of(CopySize(total=total, unit="bytes"), read, copied=copied)
    assert found.read == (total if copied else min(read, total))
    assert found.percent is not None
    assert 0 <= found.percent <= 100
    assert (found.percent == 100) == (found.read == total)


@given(total=st.integers(1, 1 << 50), read=st.integers(0, 1 << 51))
def test_an_estimate_that_is_passed_tells_no_percent(total: int, read: int) -> None:
    found = SourceProgress.of(CopySize(total=total, unit="documents", estimate=True), read)
    assert (found.read, found.total) == (read, total)
    assert found.percent == (None if read > total else 100 * read // total)


@pytest.mark.parametrize("read", [7, 10, 12])
def test_a_complete_copy_is_complete_whatever_was_estimated(read: int) -> None:
    found = SourceProgress.of(CopySize(total=10, unit="documents", estimate=True), read, copied=True)
    assert (found.read, found.percent) == (read, 100)


@pytest.mark.parametrize(("documents", "known"), [(None, False), (0, False), (3, True)])
def test_no_estimate_is_no_size(documents: int | None, known: bool) -> None:
    assert (CopySize.about(documents) is not None) == known


@pytest.mark.parametrize(
    ("size", "read", "shown"),
    [
        (CopySize(total=28311552, unit="bytes"), 13002342, "12.4 MiB of 27.0 MiB, 45 %"),
        (CopySize(total=0, unit="bytes"), 0, "0 B of 0 B, 100 %"),
        (CopySize(total=12345, unit="offsets"), 12344, "12,344 of 12,345 offsets, 99 %"),
        (CopySize(total=1000, unit="documents"), 1000, "1,000 of 1,000 documents, 100 %"),
        (CopySize(total=1000, unit="documents", estimate=True), 300, "300 of ~1,000 documents, ~30 %"),
        (CopySize(total=1000, unit="documents", estimate=True), 1001, "1,001 of ~1,000 documents"),
        (CopySize(total=10**15, unit="documents", estimate=True), 10**14, "100,000,000,000,000 of ~1,000,000,000,000,000 documents, ~10 %"),
    ],
)
def test_what_people_see(size: CopySize, read: int, shown: str) -> None:
    assert str(SourceProgress.of(size, read)) == shown
    assert len(shown) < 80
