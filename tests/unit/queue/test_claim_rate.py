from __future__ import annotations

from headwater.queue.claim_rate import ClaimRate
from headwater.queue.date_heap import NEVER


def rate(most: int, period: int = 1000) -> ClaimRate:
    made = ClaimRate()
    made.use(most, period)
    return made


def test_so_many_rows_are_allowed_within_a_period() -> None:
    claims = rate(3)
    assert (claims.allowed(5000), claims.next_allowed(), claims.first, claims.ends) == (3, NEVER, NEVER, NEVER)
    claims.note(5000, 7, 2)
    claims.note(5400, 8, 1)
    assert (claims.allowed(5999), claims.next_allowed(), claims.first, claims.ends) == (0, 6000, 7, 6000)
    assert (claims.allowed(6000), claims.next_allowed(), claims.first) == (2, NEVER, 8)
    claims.forget(6400)
    assert (claims.allowed(6400), claims.first) == (3, NEVER)


def test_a_lower_rate_counts_what_was_claimed_before() -> None:
    claims = rate(5)
    for second in range(5):
        claims.note(5000 + second, second, 1)
    claims.use(2, 1000)
    assert (claims.allowed(5500), claims.next_allowed()) == (0, 6003)
    assert (claims.allowed(6003), claims.next_allowed()) == (1, NEVER)
    claims.use(0, 1000)
    claims.note(6003, 9, 5)
    assert (claims.first, claims.next_allowed()) == (NEVER, NEVER)


def test_a_clock_that_is_set_back_lets_nobody_wait_longer_than_a_period() -> None:
    claims = rate(1)
    claims.note(100_000, 1, 1)
    assert (claims.allowed(5000), claims.next_allowed()) == (0, 6000)
    assert claims.allowed(6000) == 1


def test_it_keeps_no_more_than_the_rate() -> None:
    claims = rate(10)
    for number in range(1000):
        claims.note(5000, number, 1)
    assert (claims.first, claims.allowed(5000)) == (990, 0)
