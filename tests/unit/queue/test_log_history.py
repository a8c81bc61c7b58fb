"""The changes that a log still holds, with the keys of their rows."""

from __future__ import annotations

from tests.unit.queue.played import Played

from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.log_history import LogHistory
from headwater.wal.entries import LogEntry


def test_a_change_of_a_row_whose_record_is_gone_has_no_key_and_a_slot_that_is_used_again_has_the_new_one() -> None:
    played = Played(EffectiveSettings())
    for key in (b"a", b"b"):
        played.step("put", [{"key": key, "data": b"1"}])
        played.step("claim", 1, 50, "g")
        played.step("done", 0, None)

    def changes(first: int) -> list[tuple[str, bytes | None]]:
        history = LogHistory()
        entries = [LogEntry(1, sequence, sequence, payload) for sequence, payload in enumerate(played.records, 1)]
        return [(change.change, change.key) for entry in entries[first:] for change in history.read(entry)]

    both = [("insert", b"a"), ("claim", b"a"), ("done", b"a"), ("insert", b"b"), ("claim", b"b"), ("done", b"b")]
    assert changes(0) == both
    assert changes(1) == [("claim", None), ("done", None), *both[3:]]
