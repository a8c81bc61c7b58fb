"""Replaying records: what a log may hold, also one that begins late, and what no log holds."""

from __future__ import annotations

import pytest
from tests.unit.queue.played import Played

from headwater.queue import records
from headwater.queue.body import make_body
from headwater.queue.columns import DEAD, PROCESSING, RUN, Tries
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.records import Malformed, WholeRow
from headwater.queue.replay import replay
from headwater.queue.row_view import row_at

HEAD = b"\x01" + (7).to_bytes(8, "big")
ROW = (3, 65536)


def inserted(key: bytes = b"k", slot: int = 3, process: int = 6) -> bytes:
    return make_body(records.INSERT, slot, 0, 10, 0, 5, process, 0, key, b"data")


def folded(*payloads: bytes, first: int = 1, now: int = 100) -> QueueFold:
    fold = QueueFold(first)
    for sequence, payload in enumerate(payloads, first):
        replay(fold, sequence, HEAD + payload)
    fold.finish(now)
    return fold


def test_the_id_of_a_row_is_its_record_and_its_place() -> None:
    fold = folded(inserted(), inserted(b"a", 0) + inserted(b"b", 1))
    assert {key: fold.columns.ids[slot] for key, slot in fold.by_key.items()} == {b"k": 65536, b"a": 131072, b"b": 131073}
    assert sorted(fold.columns.free) == [slot for slot in range(len(fold.columns)) if slot not in (0, 1, 3)]
    assert (fold.order.due, fold.order.later, fold.sequence, fold.homes.first) == (3, 0, 2, 1)


def test_the_time_at_the_end_decides_what_is_due() -> None:
    assert [(fold.order.due, fold.order.later) for now in (5, 6) if (fold := folded(inserted(), now=now))] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("kind", [records.DONE, records.LOST, records.EXPIRE, records.CANCEL, records.DROP, records.ABSORB])
def test_changes_of_unknown_rows_do_nothing(kind: int) -> None:
    fold = folded(records.encode_rows(kind, [(3, 1), (9999, 2)]), inserted(), records.encode_rows(kind, [(3, 1), (9999, 2)]), first=7)
    assert (len(fold), fold.homes.first, fold.homes.next) == (1, 8, 10)


def test_other_changes_of_unknown_rows_do_nothing() -> None:
    changes = [
        records.encode_claim(99, b"g", b"w", [(9999, 1)]),
        records.encode_dated(records.EXTEND, 99, [(0, 1)]),
        records.encode_dated(records.RELEASE, 99, [(0, 1)]),
        records.encode_fail(0, 1, 99, b"no"),
        records.encode_dead(0, 1, 0, b""),
    ]
    assert len(folded(*changes)) == 0


def test_a_change_of_a_waiting_row_that_ends_a_claim_does_nothing() -> None:
    fold = folded(inserted(), records.encode_rows(records.DONE, [ROW]), records.encode_dated(records.EXTEND, 99, [ROW]))
    assert (len(fold), fold.order.due) == (1, 1)


def test_sequences_that_were_never_written_are_passed() -> None:
    fold = QueueFold()
    for sequence in (2, 5):
        replay(fold, sequence, HEAD + inserted(b"%d" % sequence, sequence))
    fold.finish(100)
    assert {key: fold.columns.ids[slot] // 65536 for key, slot in fold.by_key.items()} == {b"2": 2, b"5": 5}
    assert (fold.homes.pass_unneeded(), fold.homes.next) == (2, 6)


def test_a_row_that_was_carried_while_it_was_processed_is_processed() -> None:
    whole = WholeRow(3, inserted(), 65536, 5, PROCESSING, Tries(1, 1, 0), {"claim": [2, 10, 99, "g", "w"]})
    fold = folded(records.encode_whole(records.CARRY, whole), first=8)
    row = row_at(fold, 3)
    assert (row.status, row.start_processing_date, row.lease_until, row.worker, row.attempts) == ("P", 10, 99, "w", 2)
    assert (fold.claims.by_token, fold.home(3)) == ({"3-2": 3}, 8)


def test_a_follow_up_row_is_held_and_comes_after_the_row_of_its_key() -> None:
    played = Played(EffectiveSettings())
    for step in [("put", [{"key": b"a", "data": b"1"}]), ("claim", 1, 50, "g"), ("put", [{"key": b"a", "data": b"2", "lane": b"l"}])]:
        played.step(*step)
    fold = played.folded(1)
    assert (fold.order.due, row_at(fold, fold.follow_ups[b"a"]).follow_up) == (0, True)
    assert row_at(fold, fold.follow_ups[b"a"]).lane == b"l"


@pytest.mark.parametrize(
    "payload",
    [
        inserted() + records.encode_claim(99, b"g", b"w", [ROW]) + records.encode_dead(*ROW, 9, b""),
        records.encode_whole(records.CARRY, WholeRow(3, inserted(), 65536, 5, PROCESSING, Tries(), {})),
        records.encode_whole(records.CARRY, WholeRow(3, inserted(), 65536, 5, DEAD, Tries(), {})),
        records.encode_whole(records.CARRY, WholeRow(3, inserted(), 65536, 5, RUN, Tries(), {"colour": "red"})),
        records.encode_whole(records.CARRY, WholeRow(3, inserted(), 1 << 63, 5, RUN, Tries(), {})),
        b"\x63",
    ],
)
def test_a_record_that_no_queue_has_written_is_malformed(payload: bytes) -> None:
    with pytest.raises(Malformed):
        replay(QueueFold(), 1, HEAD + payload)
