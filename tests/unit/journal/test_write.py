"""The error for a wrong expectation."""

from __future__ import annotations

from headwater.journal.write import wrong_expected


def test_it_names_the_last_number_and_the_next_step() -> None:
    behind, ahead, none = wrong_expected("a", 1, 3), wrong_expected("a", 5, 3), wrong_expected("a", 5, 0)
    assert (behind.status, behind.exit_code, behind.code) == (412, 4, "wrong-expected")
    assert str(behind) == "Journal 'a' ends with event 3, not with 1. Read it from 2 on, decide again, and append with expected=3."
    assert "expected=3" in ahead.hint
    assert "There is no journal 'a'" in none.message
    assert "expected=0" in none.hint
