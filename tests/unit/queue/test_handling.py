from __future__ import annotations

from random import Random

import pytest

from headwater.core.errors import BadInput
from headwater.queue.handling import Backoff, Retry, duration_of


def test_waits_double_up_to_the_longest_and_are_shortened_at_random() -> None:
    backoff, random = Backoff("1s", "10s"), Random(1)
    for failures, longest in ((0, 1000), (1, 1000), (2, 2000), (4, 8000), (5, 10_000), (400, 10_000)):
        waits = [backoff.wait_ms(failures, random) for _ in range(200)]
        assert longest // 2 <= min(waits) < max(waits) <= longest
    assert len({backoff.wait_ms(3, random) for _ in range(20)}) > 10


def test_durations_have_units() -> None:
    assert duration_of("30s", "after") == 30_000
    assert Retry(after="30s").after == 30_000
    assert Retry("busy").after is None
    for wrong in ("30", 30, None, ""):
        with pytest.raises(BadInput):
            duration_of(wrong, "after")
    with pytest.raises(BadInput):
        Backoff("10s", "1s")
