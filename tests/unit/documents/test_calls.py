from __future__ import annotations

import pytest

from headwater.core.document_errors import UnknownIndex
from headwater.core.errors import AlreadyExists
from headwater.documents.calls import deleted_index, index_state, new_index, unknown_index
from headwater.documents.change import IndexDefinition

ONE = IndexDefinition(id="one", number=1)
GONE = IndexDefinition(id="gone", number=2, state="deleting")


def test_an_index_is_made_once() -> None:
    call = new_index("c~", IndexDefinition(id="new", number=0))
    assert call.decide([ONE], 9) == IndexDefinition(id="new", number=9)
    with pytest.raises(AlreadyExists) as refused:
        new_index("c~", ONE).decide([ONE], 9)
    assert refused.value.code == "already-exists"
    assert new_index("c~", GONE).decide([GONE], 9).number == 9  # type: ignore[union-attr]


def test_an_index_that_is_deleted_stays_so() -> None:
    assert index_state("c~", 1, "ready").decide([ONE], 9) == IndexDefinition(id="one", number=1, state="ready")
    assert index_state("c~", 1, "failed", "why").decide([ONE], 9) == IndexDefinition(id="one", number=1, state="failed", error="why")
    assert index_state("c~", 2, "ready").decide([ONE, GONE], 9) is None
    assert index_state("c~", 3, "ready").decide([ONE, GONE], 9) is None
    assert deleted_index("c~", "one").decide([ONE], 9) == IndexDefinition(id="one", number=1, state="deleting")
    for there in ([], [GONE]):
        with pytest.raises(UnknownIndex):
            deleted_index("c~", "gone").decide(there, 9)


def test_an_unknown_index_is_told_with_the_nearest_one() -> None:
    there = [IndexDefinition(id="by-price", number=1), IndexDefinition(id="by-name", number=2, state="deleting")]
    with pytest.raises(UnknownIndex, match=r"Did you mean by-price\? List them"):
        deleted_index("c~", "by-prize").decide(there, 9)
    assert "by-name" not in str(unknown_index("c~", "by-nam", there))
