"""Idempotency keys are found in the log, for a day."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadInput, KeyReused
from headwater.journal.append_draft import header_ending, plain_draft
from headwater.journal.idempotency import KEPT, FirstAnswer, KeyIndex, check_key, key_headers
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.epochs import CLAIM, EPOCH, epoch_at, mark
from headwater.log.record import Record
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


def claim(epoch: int) -> Record:
    return Record(None, None, ((CLAIM, mark(epoch)),))


def under(epoch: int, number: int, key: str = "k") -> Record:
    """An Append with a key, by the owner with this epoch."""
    own = ((EPOCH, mark(epoch)), *key_headers(key, "d"))
    return plain_draft("a", 1).record(number, header_ending(None, None), own)


def test_a_record_behind_a_newer_claim_answers_nothing(tmp_path: Path) -> None:
    clock = ManualClock(START, wakes=False)
    with EmbeddedLog(tmp_path, clock=clock) as log:
        log.create_topic("t")
        old, new = epoch_at(0, "g"), epoch_at(2, "g")
        log.append("t", 0, [claim(old), under(old, 1, "first"), claim(new), under(old, 2)])
        keys = KeyIndex(log, "t", 0, now=clock.now_ms, claimed=True)
        assert keys.answer("a", "first", "d", 4) == FirstAnswer("d", 1, 1, 1, START * 1000, old)
        assert keys.answer("a", "k", "d", 4) is None  # its events are nowhere: whoever tries again must append them
        assert keys.answer("a", "k", "other", 4) is None
        log.append("t", 0, [under(new, 2)])
        for index in (keys, KeyIndex(log, "t", 0, now=clock.now_ms, claimed=True)):
            assert index.answer("a", "k", "d", 5) == FirstAnswer("d", 2, 2, 4, START * 1000, new)
        shared = KeyIndex(log, "t", 0, now=clock.now_ms)
        assert shared.answer("a", "k", "d", 5) == FirstAnswer("d", 2, 2, 3, START * 1000)


@pytest.mark.parametrize("others", [0, 3000])
def test_a_claim_that_is_older_than_the_keys_counts(tmp_path: Path, others: int) -> None:
    clock = ManualClock(START, wakes=False)
    with EmbeddedLog(tmp_path, clock=clock) as log:
        log.create_topic("t")
        old, new = epoch_at(0, "g"), epoch_at(1, "g")
        plain = plain_draft("b", 1).record(1, header_ending(None, None), ((EPOCH, mark(new)),))
        log.append("t", 0, [claim(old), claim(new), *[plain] * others])
        clock.advance(KEPT / 1000 + 1)
        end = log.append("t", 0, [under(old, 1), under(old, 2, "x"), claim(epoch_at(others + 4, "g"))])[-1] + 1
        keys = KeyIndex(log, "t", 0, now=clock.now_ms, claimed=True)
        assert keys.answer("a", "k", "d", end) is None
        assert keys.answer("a", "x", "other", end) is None
        log.append("t", 0, [under(epoch_at(others + 4, "g"), 1)])
        keys.forget()
        found = keys.answer("a", "k", "d", end + 1)
        assert found is not None
        assert found.offset == end


def test_records_of_the_owner_who_asks_need_no_look_at_older_ones(tmp_path: Path) -> None:
    clock = ManualClock(START, wakes=False)
    with EmbeddedLog(tmp_path, clock=clock) as log:
        log.create_topic("t")
        epoch = epoch_at(0, "g")
        log.append("t", 0, [claim(epoch)])
        clock.advance(KEPT / 1000 + 1)
        log.append("t", 0, [under(epoch, 1)])
        scanned: list[int] = []
        scan = log.scan
        log.scan = lambda topic, partition, start, end=None, **given: scanned.append(start) or scan(topic, partition, start, end, **given)  # type: ignore[method-assign, assignment, func-returns-value]
        keys = KeyIndex(log, "t", 0, now=clock.now_ms, claimed=True)
        assert keys.answer("a", "k", "d", 2, owner=epoch) is not None
        assert scanned == [1]
        assert keys.answer("a", "k", "d", 2) is not None
        assert scanned == [1, 0, 1]


def test_a_record_that_reads_show_needs_no_look_at_older_ones(tmp_path: Path) -> None:
    clock = ManualClock(START, wakes=False)
    with EmbeddedLog(tmp_path, clock=clock) as log:
        log.create_topic("t")
        epoch = epoch_at(0, "g")
        log.append("t", 0, [claim(epoch)])
        clock.advance(KEPT / 1000 + 1)
        log.append("t", 0, [under(epoch, 1), under(epoch, 2, "gone"), claim(epoch_at(3, "g"))])
        scanned: list[int] = []
        scan = log.scan
        log.scan = lambda topic, partition, start, end=None, **given: scanned.append(start) or scan(topic, partition, start, end, **given)  # type: ignore[method-assign, assignment, func-returns-value]
        asked: list[tuple[str, int, int]] = []

        def shown(id: str, seq_nr: int, offset: int) -> bool:
            asked.append((id, seq_nr, offset))
            return seq_nr == 1

        keys = KeyIndex(log, "t", 0, now=clock.now_ms, claimed=True, shown=shown)
        assert keys.answer("a", "k", "d", 4) is not None
        assert (scanned, asked) == ([1], [("a", 1, 1)])
        assert keys.answer("a", "gone", "d", 4) is not None  # deleted since: its claim tells
        assert (scanned, asked) == ([1, 0, 1], [("a", 1, 1), ("a", 2, 2)])


def test_keys_that_are_none() -> None:
    assert check_key("a b") == "a b"
    for key in ("", "a\n", "x" * 1025, 7, None):
        with pytest.raises(BadInput):
            check_key(key)
