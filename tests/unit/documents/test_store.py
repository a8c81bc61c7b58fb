"""What stores have in common, beside the contract."""

from __future__ import annotations

import pytest

from headwater.core.errors import Conflict
from headwater.documents.store import check_since


def test_records_that_begin_behind_the_applied_offset_are_refused() -> None:
    check_since(0, 5, None)
    check_since(0, 5, 5)
    check_since(0, 5, 3)
    with pytest.raises(Conflict, match="partition 2 has applied offsets up to 5, and was given records from 6 on"):
        check_since(2, 5, 6)
