"""The error for records that cannot be decoded."""

from __future__ import annotations

import pickle

from headwater.journal.unreadable import at_offset, unreadable


def test_the_error_names_the_offset_and_the_next_command() -> None:
    error = at_offset(unreadable("Its key is no UTF-8."), 17)
    assert error.offset == 17
    assert str(error).startswith("The record at offset 17 cannot be read: Its key is no UTF-8.")
    assert "headwater journal dead TOPIC list" in error.hint


def test_the_error_travels_between_processes() -> None:
    back = pickle.loads(pickle.dumps(unreadable("x", offset=3)))
    assert (back.offset, back.message, back.hint) == (3, "x", unreadable("x").hint)
