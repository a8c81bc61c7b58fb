"""Rows: what is left out, and the named priorities."""

from __future__ import annotations

from headwater.queue import row
from headwater.queue.row import NewRow, Row


def test_the_named_priorities() -> None:
    named = (row.NOW, row.IMPORTANT, row.NEW_PAGE, row.RESET, row.UPDATES, row.SLOW, row.REVIEW, row.TIME_ALLOWS)
    assert named == (0, 10, 20, 50, 180, 200, 230, 255)


def test_a_row_to_put_needs_a_key_alone() -> None:
    new = NewRow(key=b"k")
    assert (new.data, new.form, new.priority, new.process_date, new.delay, new.insertion_date) == (
        b"null",
        row.JSON,
        None,
        None,
        None,
        None,
    )
    assert (new.expiration_date, new.lane) == (0, b"")


def test_a_row_that_waits_is_nobodys() -> None:
    waiting = Row(1, b"k", b"1", 0, 100, 5, 6, 0, row.WAITING)
    assert (waiting.start_processing_date, waiting.lease_until, waiting.worker, waiting.group) == (0, 0, "", "")
    assert (waiting.timeout_counter, waiting.attempts, waiting.failures, waiting.follow_up) == (0, 0, 0, False)
