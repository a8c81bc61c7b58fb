from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.queue.column_types import COLUMN_TYPES, ColumnType, fits, wanted

VALUES: list[tuple[Any, set[str]]] = [
    ("text", {"text"}),
    ("", {"text"}),
    ("12.50", {"text", "decimal"}),
    ("1e5", {"text", "decimal"}),
    ("NaN", {"text"}),
    ("1,5", {"text"}),
    ("2026-01-31T12:00:00Z", {"text", "time"}),
    ("2026-01-31T12:00:00+01:00", {"text", "time"}),
    ("2026-01-31T12:00:00", {"text"}),
    ("2026-02-31T12:00:00Z", {"text"}),
    (7, {"int", "decimal", "time"}),
    (2**63 - 1, {"int", "decimal", "time"}),
    (2**63, {"decimal"}),
    (-(2**63), {"int", "decimal", "time"}),
    (-(2**63) - 1, {"decimal"}),
    (Decimal("1.0"), {"decimal"}),
    (Decimal("1e400"), {"decimal"}),
    (True, {"bool"}),
    (False, {"bool"}),
    ({"$binary": "AAEC"}, {"bytes"}),
    ({"$binary": ""}, {"bytes"}),
    ({"$binary": "AAE"}, set()),
    ({"$binary": "@@@@"}, set()),
    ({"$binary": 5}, set()),
    ({"$binary": "AAEC", "more": 1}, set()),
    ({}, set()),
    ([], set()),
]


@pytest.mark.parametrize(("value", "kinds"), VALUES)
def test_a_value_fits_its_types_and_no_others(value: Any, kinds: set[str]) -> None:
    assert {kind for kind in COLUMN_TYPES if fits(kind, value)} == kinds | {"json"}


@pytest.mark.parametrize("kind", COLUMN_TYPES)
def test_every_type_says_what_it_takes(kind: ColumnType) -> None:
    assert wanted(kind)
