"""Actions are values: equal by what they say, and frozen."""

from __future__ import annotations

import pytest

from headwater.journal.action import ActionRecord, Append, Delete, Events, Mark, PayloadMetadata, Purge
from headwater.journal.event import NumberedEvent


def test_actions_are_equal_by_what_they_say() -> None:
    assert Append(1, 2) == Append(1, 2, "json", None, None, None)
    assert Append(1, 2) != Append(1, 2, "binary")
    assert Delete(3) != Delete(4)
    assert Purge() == Purge()
    assert Mark("a") != Mark("b")
    assert Events((NumberedEvent(1),)) == Events((NumberedEvent(1, None, ()),), PayloadMetadata(None, None))


def test_actions_do_not_change() -> None:
    with pytest.raises(AttributeError):
        ActionRecord("alice", Purge(), 0, 0).offset = 1  # type: ignore[misc]
