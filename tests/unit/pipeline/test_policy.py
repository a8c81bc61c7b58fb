"""What a sink does with a message that it refuses."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from headwater.core.errors import BadConfig
from headwater.core.units import Duration
from headwater.pipeline.policy import DeadLetter, Retry, Stop, retry


def test_waiting_is_written_as_text_or_given_as_a_duration() -> None:
    assert retry(5, "250ms", DeadLetter()) == Retry(5, Duration(250), DeadLetter()) == Retry(5, "250ms", DeadLetter())
    assert Retry().backoff == Duration(1000)
    assert retry() == Retry(3, Duration(1000), Stop())


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Retry(0), "Retry.times"),
        (lambda: Retry(True), "Retry.times"),
        (lambda: Retry("3"), "Retry.times"),  # type: ignore[arg-type]
        (lambda: Retry(3, 1.5), "Retry.backoff"),  # type: ignore[arg-type]
        (lambda: Retry(3, "soon"), "'soon'"),
        (lambda: Retry(3, 5), "Retry.backoff cannot be 5"),  # type: ignore[arg-type]
        (lambda: Retry(3, "5"), "'5'"),
        (lambda: retry(3, "5"), "'5'"),
        (lambda: Retry(3, then=Retry()), "Retry.then"),  # type: ignore[arg-type]
        (lambda: Retry(3, then=DeadLetter), "Retry.then"),  # type: ignore[arg-type]
        (lambda: DeadLetter(0), "DeadLetter.most"),
    ],
)
def test_what_cannot_work_is_refused(call: Any, named: str) -> None:
    with pytest.raises(BadConfig, match=named):
        call()


def test_each_try_waits_twice_as_long() -> None:
    assert [Retry(3, "250ms").wait(tried) for tried in (1, 2, 3)] == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("policy", [Stop(), DeadLetter(5), Retry(2, Duration(5), DeadLetter(7))])
def test_policies_travel(policy: Any) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy
