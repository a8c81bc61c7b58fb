"""Idempotency keys are found in the log, for a day."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadInput, KeyReused
from headwater.journal.append_draft import header_ending, plain_draft
from headwater.journal.idempotency import KEPT, FirstAnswer, KeyIndex, check_key, key_headers
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock

START = 1_800_000_000


def test_keys_of_the_last_day_are_found_in_the_log(tmp_path: Path) -> None:
    clock = ManualClock(START, wakes=False)
    with EmbeddedLog(tmp_path, clock=clock) as log:
        log.create_topic("t")
        keys = KeyIndex(log, "t", 0, now=clock.now_ms)
        assert keys.answer("a", "k", "d", 0) is None
        ending = header_ending(None, None)
        log.append("t", 0, [plain_draft("a", 1).record(1, ending), plain_draft("a", 1).record(2, ending, key_headers("k", "d"))])
        answer = FirstAnswer("d", 2, 2, 1, START * 1000)
        assert keys.answer("a", "k", "d", 2) == answer
        assert KeyIndex(log, "t", 0, now=clock.now_ms).answer("a", "k", "d", 2) == answer
        assert keys.answer("b", "k", "d", 2) is None
        with pytest.raises(KeyReused, match="'k'"):
            keys.answer("a", "k", "other", 2)
        keys.forget()
        assert keys.answer("a", "k", "d", 1) is None  # not below that offset
        assert keys.answer("a", "k", "d", 2) == answer
        clock.advance(KEPT / 1000 + 1)
        assert keys.answer("a", "k", "d", 2) is None
        assert KeyIndex(log, "t", 0, now=clock.now_ms).answer("a", "k", "d", 2) is None


def test_keys_that_are_none() -> None:
    assert check_key("a b") == "a b"
    for key in ("", "a\n", "x" * 1025, 7, None):
        with pytest.raises(BadInput):
            check_key(key)
