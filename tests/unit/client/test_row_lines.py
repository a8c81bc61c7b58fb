"""The lines of rows that a worker logs."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from headwater.client import row_lines


class Claimed:
    id, key, attempts = 7, "page:/a\x1b[31m\nb", 2


CLAIM = cast(Any, Claimed())


def test_failures_are_told_and_with_debug_every_row_with_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headwater.queue.rows"):
        row_lines.started(CLAIM)
        row_lines.done(CLAIM, 0.5)
        row_lines.failed(CLAIM, "ValueError: no\npage", 1500, ValueError("no"))
        row_lines.given_up(CLAIM, "gone")
    assert [record.getMessage() for record in caplog.records] == [
        r"Row 7 page:/a\x1b[31m\nb has failed, attempt 2, again in 1500ms: ValueError: no\npage",
        r"Row 7 page:/a\x1b[31m\nb is given up: gone",
    ]
    assert caplog.records[0].exc_info is None
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "headwater.queue.rows"):
        row_lines.started(CLAIM)
        row_lines.done(CLAIM, 0.5)
        row_lines.failed(CLAIM, "no", 0, ValueError("no"))
    assert [record.getMessage().partition("nb ")[2][:14] for record in caplog.records] == [
        "begins, attemp",
        "is done in 0.5",
        "has failed, at",
    ]
    assert caplog.records[2].exc_info
