"""A little space for the moment when the disk is full."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headwater.core.errors import DiskFull
from headwater.core.files import Files
from headwater.log.embedded.reserve import NAME, SIZE, Reserve
from headwater.testing.faults import FailingFiles


def test_it_is_spent_where_the_disk_is_full_and_made_again(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path, files=Files())
    reserve.fill()
    assert (tmp_path / NAME).stat().st_size == SIZE
    there: list[bool] = []

    def delete() -> str:
        there.append((tmp_path / NAME).exists())
        if len(there) == 1:
            raise DiskFull("full")
        return "done"

    assert reserve.spend(delete) == "done"
    assert there == [True, False]
    assert (tmp_path / NAME).stat().st_size == SIZE


def test_a_call_that_fails_again_is_not_tried_a_third_time(tmp_path: Path) -> None:
    reserve, calls = Reserve(tmp_path, files=Files()), []
    reserve.fill()

    def delete() -> None:
        calls.append(1)
        raise DiskFull("full")

    with pytest.raises(DiskFull):
        reserve.spend(delete)
    assert len(calls) == 2
    (tmp_path / NAME).unlink()
    with pytest.raises(DiskFull):  # nothing to give back
        reserve.spend(delete)
    assert len(calls) == 3


def test_half_a_reserve_is_none(tmp_path: Path) -> None:
    Reserve(tmp_path, files=FailingFiles(1, only=("pwritev",), number=errno.ENOSPC)).fill()
    assert not (tmp_path / NAME).exists()


def test_one_that_was_spent_is_kept_as_long_as_it_still_fits(tmp_path: Path) -> None:
    """A mark takes a little of it for good: the next one, and the clean behind them, still find the rest."""
    files = FailingFiles(number=errno.ENOSPC, only=("pwritev",))
    reserve = Reserve(tmp_path, files=files)
    reserve.fill()
    calls: list[int] = []

    def mark() -> None:
        calls.append(1)
        if len(calls) == 1:
            files.calls, files.fail_at = 0, 1
            raise DiskFull("full")

    reserve.spend(mark)
    assert files.failed
    assert (tmp_path / NAME).stat().st_size == SIZE // 2
    reserve.fill()
    assert (tmp_path / NAME).stat().st_size == SIZE
