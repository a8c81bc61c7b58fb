"""A little space for the moment when the disk is full."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

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


def test_two_that_free_space_share_it_and_the_last_one_makes_it_again(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path, files=Files())
    reserve.fill()
    first, second = Full(), Full()
    with ThreadPoolExecutor() as threads:
        done = [threads.submit(reserve.spend, call) for call in (first, second)]
        for call in (first, second):
            assert call.inside.wait(60)
        first.go.set()
        assert done[0].result(60) == "done"
        assert not (tmp_path / NAME).exists()
        second.go.set()
        assert done[1].result(60) == "done"
    assert (tmp_path / NAME).stat().st_size == SIZE


def test_a_write_waits_for_those_that_free_space(tmp_path: Path) -> None:
    reserve, call = Reserve(tmp_path, files=Files()), Full()
    reserve.fill()
    there: list[bool] = []

    def write() -> None:
        reserve.admit()
        there.append((tmp_path / NAME).exists())

    with ThreadPoolExecutor() as threads:
        assert not reserve.scarce
        freeing = threads.submit(reserve.spend, call)
        assert call.inside.wait(60)
        assert reserve.scarce
        writing = threads.submit(write)
        call.go.set()
        writing.result(60)
        freeing.result(60)
    assert there == [True]


def test_it_gets_its_length_back_from_what_was_freed(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path, files=Files())
    (tmp_path / NAME).write_bytes(bytes(SIZE // 2))
    reserve.spend(lambda: None)
    assert (tmp_path / NAME).stat().st_size == SIZE // 2
    reserve.free(lambda: None)
    assert (tmp_path / NAME).stat().st_size == SIZE


def test_until_it_is_whole_again_only_calls_that_free_space_write(tmp_path: Path) -> None:
    files = FailingFiles(number=errno.ENOSPC, only=("pwritev",))
    reserve = Reserve(tmp_path, files=files)
    reserve.fill()
    calls: list[int] = []

    def mark() -> None:
        reserve.admit()
        calls.append(1)
        if len(calls) == 1:
            files.calls, files.fail_at, files.forever = 0, 1, True
            raise DiskFull("full")

    reserve.spend(mark)
    with pytest.raises(DiskFull, match="kept for calls that free space"):
        reserve.admit()
    reserve.spend(mark)
    assert len(calls) == 3
    files.fail_at = 0
    reserve.admit()
    assert not reserve.scarce


class Full:
    """A call that finds the disk full, and is then under way until it may go on."""

    def __init__(self) -> None:
        self.inside, self.go, self._tried = Event(), Event(), False

    def __call__(self) -> str:
        if not self._tried:
            self._tried = True
            raise DiskFull("full")
        self.inside.set()
        assert self.go.wait(60)
        return "done"
