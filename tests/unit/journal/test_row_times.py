"""Rows of one number have times of their own, the same for every split, and show those of their events."""

from __future__ import annotations

from random import Random

from headwater.journal.change import EventRow
from headwater.journal.row_times import OWN_TIME, Taken, apart, own_time


def rows_of(*places: tuple[int, int]) -> list[EventRow]:
    """Rows of these numbers and times, an offset each."""
    return [EventRow(number, time, 0, offset, headers=(("h", "v"),)) for offset, (number, time) in enumerate(places)]


def test_a_later_row_takes_the_next_free_time_and_keeps_its_own_one() -> None:
    rows = list(apart(rows_of((1, 5), (1, 5), (1, 6), (2, 5), (1, 5)), Taken()))
    assert [row.timestamp for row in rows] == [5, 6, 7, 5, 8]
    assert [own_time(row.timestamp, dict(row.headers)) for row in rows] == [(time, (("h", "v"),)) for time in (5, 5, 6, 5, 5)]
    assert rows[1].headers[-1] == (OWN_TIME, "5")


def test_headers_of_ours_reach_no_user() -> None:
    assert own_time(5, {"headwater.epoch": "3", "a": "b"}) == (5, (("a", "b"),))
    assert own_time(5, {OWN_TIME: "no time"}) == (5, ())


def test_every_split_and_every_repetition_gives_the_same_times() -> None:
    random = Random(1)
    for _ in range(50):
        given = rows_of(*((random.randint(1, 2), random.randint(1, 4)) for _ in range(12)))
        whole = list(apart(given, Taken()))
        taken, split = Taken(), []
        while len(split) < len(given):
            part = given[len(split) : len(split) + random.randint(1, 4)]
            died = dict(taken)  # some of the part was written by a process that died, which is then done again
            placed = list(apart(part, dict(taken)))
            died.update({(row.seq_nr, row.timestamp): (0, row.offset) for row in placed if random.random() < 0.5})
            split += apart(part, died)
            taken = died
        assert split == whole
