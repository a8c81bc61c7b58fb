"""Corrected documents: the types of their numbers, and how deep they may be."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.pipeline.operating.correction import LEVELS, corrected


def test_a_number_in_place_of_a_float_is_one() -> None:
    before = {"f": 1.5, "d": Decimal("1.5"), "i": 1, "deep": [{"f": 0.5}]}
    after = {"f": Decimal("2.5"), "d": Decimal("2.5"), "i": 2, "deep": [{"f": 2}, 3], "new": Decimal("1.0")}
    assert repr(corrected(before, after)) == ("{'f': 2.5, 'd': Decimal('2.5'), 'i': 2, 'deep': [{'f': 2.0}, 3], 'new': Decimal('1.0')}")
    assert corrected({"f": 1.5}, {"f": True}) == {"f": True}
    assert corrected({"f": 1.5}, {"f": 10**400}) == {"f": 10**400}


def test_a_document_that_is_too_deep_for_every_reader_of_the_offset_log_is_refused() -> None:
    deep: Any = 1
    for level in range(LEVELS):
        deep = [deep] if level % 2 else {"a": deep}
    assert corrected({}, {"deep": deep}) == {"deep": deep}
    for deeper in ([deep], {"a": deep}):
        with pytest.raises(BadInput, match="more than 100 deep"):
            corrected({}, {"deep": deeper})
