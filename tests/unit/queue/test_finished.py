from __future__ import annotations

import pytest

from headwater.queue import finished
from headwater.queue.date_heap import NEVER
from headwater.queue.finished import Finished


class Homes:
    """Counts what has each record as its home."""

    def __init__(self) -> None:
        self.sequence, self.counts = 1, dict[int, int]()
        self.finished = Finished(self.enter, self.leave)

    def enter(self) -> int:
        self.counts[self.sequence] = self.counts.get(self.sequence, 0) + 1
        return self.sequence

    def leave(self, home: int) -> None:
        self.counts[home] -= 1

    @property
    def used(self) -> set[int]:
        return {home for home, count in self.counts.items() if count}


def test_a_result_is_kept_until_its_date_and_then_its_home_is_free() -> None:
    homes = Homes()
    kept = homes.finished
    assert (len(kept), kept.earliest, kept.oldest_home, kept.size) == (0, NEVER, NEVER, 0)
    kept.keep(5, 100, 0, b"true")
    homes.sequence = 2
    kept.keep(6, 50, 0, b"1")
    assert (kept.earliest, kept.oldest_home, kept.result_bytes, homes.used) == (50, 1, 5, {1, 2})
    kept.forget_until(49)
    assert len(kept) == 2
    kept.forget_until(50)
    assert (list(kept.results), kept.earliest, homes.used) == ([5], 100, {1})
    kept.forget_until(100)
    assert (len(kept), kept.earliest, kept.size, homes.used) == (0, NEVER, 0, set())


def test_a_result_that_is_kept_again_has_one_home_and_one_date() -> None:
    homes = Homes()
    kept = homes.finished
    kept.keep(5, 100, 0, b"old")
    homes.sequence = 2
    kept.keep(5, 100, 0, b"carried")
    assert (homes.used, kept.result_bytes) == ({2}, 7)
    kept.keep(5, 200, 1, b"x")
    kept.forget_until(150)
    assert kept.results[5].data == b"x"
    kept.forget((5, 99))
    assert (homes.used, kept.result_bytes) == (set(), 0)
    kept.forget_until(300)


def test_of_a_key_that_is_done_again_the_longer_time_counts() -> None:
    homes = Homes()
    kept = homes.finished
    kept.remember(b"k", 1, 10, 100)
    homes.sequence = 2
    kept.remember(b"k", 2, 20, 50)
    assert (kept.keys[b"k"][:3], homes.used, kept.key_bytes) == ((2, 20, 100), {2}, 1)
    kept.forget_until(99)
    assert len(kept) == 1
    kept.forget_until(100)
    assert (len(kept), homes.used, kept.key_bytes) == (0, set(), 0)


def test_dates_that_no_longer_count_do_not_pile_up() -> None:
    kept = Homes().finished
    for date in range(10_000):
        kept.keep(5, 1_000_000 + date, 0, b"")
        kept.remember(b"k", 5, 1, 1_000_000 + date)
    assert len(kept._dates) < 2000
    assert len(kept._key_dates) < 2000
    kept.forget_until(1_009_998)
    assert len(kept) == 2


def test_the_oldest_results_are_surplus(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Homes().finished
    monkeypatch.setattr(finished, "MOST_BYTES", 3000)
    for id in range(10):
        kept.keep(id, 100, 0, bytes(100))
    assert kept.surplus() == [0, 1, 2]
    kept.forget(kept.surplus())
    assert kept.surplus() == []
    kept.keep(99, 100, 0, bytes(10_000))
    assert kept.surplus() == [3, 4, 5, 6, 7, 8, 9]  # never the newest
