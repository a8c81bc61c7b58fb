"""What a projection is made of."""

from __future__ import annotations

from typing import Any

import pytest

import headwater
from headwater.core.errors import BadInput
from headwater.journal.projection import Projection, check_projection_name


def test_a_projection() -> None:
    made = headwater.Projection("bank", "balances", print, tags=["a"], on_error="park")
    assert (made.topic, made.name, made.tags, made.attempts, made.batch) == ("bank", "balances", {"a"}, 3, 100)
    assert repr(made) == "Projection('bank', 'balances')"


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": "a/b"}, {"name": ""}, {"name": "a" * 101}, {"name": "a/b"}, {"name": 7}, {"handler": None}, {"handler": "x"},
        {"connect": 7}, {"reset": 7}, {"on_error": "ignore"}, {"attempts": 0}, {"attempts": True}, {"batch": 10_001}, {"batch": 1.5},
        {"tags": "a"}, {"tags": [1]},
    ],
)  # fmt: skip
def test_what_is_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Projection(**{"topic": "bank", "name": "x", "handler": print, **wrong})


def test_names() -> None:
    assert check_projection_name("a.b-c_D9") == "a.b-c_D9"
