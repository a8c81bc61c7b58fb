from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from headwater.core.errors import BadInput
from headwater.queue.notes import NOTES

DECLARED = '<table name="d" model="queue"><column name="n" type="int"/></table>'


def test_a_note_needs_not_be_as_the_queue_declares(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path / "data", create=True) as hw:
        queue = hw.queue("d", create=True, declaration=DECLARED).open()
        assert queue.put(NOTES + b"mine", {"text": "x"}).outcome == "inserted"
        with pytest.raises(BadInput, match="no column"):
            queue.put("headwater", {"text": "x"})
