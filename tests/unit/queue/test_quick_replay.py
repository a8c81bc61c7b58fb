"""The quick way of replaying: it ends where the general way ends, and leaves to it what it does not know."""

from __future__ import annotations

import pytest
from tests.unit.queue.played import state

from headwater.queue import quick_replay, records
from headwater.queue.body import FOLLOW_UP, make_body
from headwater.queue.columns import NO_TRIES, PROCESSING, RUN, Tries
from headwater.queue.fold import QueueFold
from headwater.queue.records import WholeRow
from headwater.queue.replay import replay

HEAD = b"\x01" + (7).to_bytes(8, "big")


def inserted(key: bytes, slot: int, *, flags: int = 0, expiration: int = 0) -> bytes:
    return make_body(records.INSERT, slot, flags, 10, 0, 5, 6, expiration, key, b"data")


def carried(key: bytes, slot: int, id: int, *, update: int = 5, state: int = RUN, tries: Tries = NO_TRIES) -> bytes:
    body = make_body(records.CARRY, slot, 0, 10, 0, 5, 6, 0, key, b"data")
    extras = {"claim": [1, 2, 3, "", ""]} if state == PROCESSING else {}
    return records.encode_whole(records.CARRY, WholeRow(slot, body, id, update, state, tries, extras))


def folded(payloads: list[bytes]) -> dict[str, object]:
    fold = QueueFold(5)
    for sequence, payload in enumerate(payloads, 5):
        replay(fold, sequence, HEAD + payload)
    fold.finish(100)
    return state(fold) | {"records": (fold.homes.records, fold.homes.bytes > 0), "order": fold.order.pop(slow=True)}


PLAIN = [
    inserted(b"a", 0) + inserted(b"b", 1) + inserted(b"c", 4000),
    carried(b"d", 2, 65536, update=9) + carried(b"e", 3, 65537),
    records.encode_claim(99, b"g", b"w", [(0, 5 << 16), (1, (5 << 16) + 1), (2, 65536), (3, 1), (9999, 7)]),
    records.encode_rows(records.DONE, [(0, 5 << 16), (2, 65536), (3, 65537), (9999, 7)]),
    inserted(b"a", 0),
    carried(b"e", 3, 65537) + carried(b"c", 4000, (5 << 16) + 2),
]


def test_the_quick_way_ends_where_the_general_way_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = folded(PLAIN)
    monkeypatch.setattr("headwater.queue.replay.replay_rows", lambda *_: False)
    assert quick == folded(PLAIN)
    assert quick["keys"] == {b"a": 0, b"b": 1, b"e": 3, b"c": 4000}
    assert list(quick["tokens"]) == ["1-7"]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "payload",
    [
        inserted(b"a", 0) + inserted(b"b", 1, flags=FOLLOW_UP),
        inserted(b"a", 0) + inserted(b"b", 1, expiration=50),
        inserted(b"a", 0)[:-1],
        inserted(b"a", 0) + inserted(b"b", 1)[:20],
        inserted(b"a", 0) + carried(b"b", 1, 65536),
        carried(b"a", 0, 65536) + inserted(b"b", 1),
        carried(b"a", 0, 65536, state=PROCESSING),
        carried(b"a", 0, 65536, tries=Tries(1, 0, 1)),
        carried(b"a", 0, 65536)[:-1],
        carried(b"a", 7, 65536),
        records.encode_rows(records.DONE, [(0, 1)] * 4),
        b"",
    ],
)
def test_it_leaves_what_it_does_not_know_untouched(payload: bytes) -> None:
    fold = QueueFold(5)
    replay(fold, 5, HEAD + inserted(b"known", 7))
    assert not quick_replay.replay_rows(fold, 6, HEAD + payload)
    assert (fold.sequence, fold.homes.records, [slot for slot, state in enumerate(fold.columns.states) if state]) == (5, 1, [7])


def test_a_record_of_another_format_or_behind_a_gap_is_left_to_the_general_way() -> None:
    fold = QueueFold(5)
    assert not quick_replay.replay_rows(fold, 6, HEAD + inserted(b"a", 0))
    assert not quick_replay.replay_rows(fold, 5, b"\x02" + HEAD[1:] + inserted(b"a", 0))


def test_rows_with_extras_are_done_by_the_general_way() -> None:
    body = make_body(records.INSERT, 3, 4, 10, 0, 5, 6, 0, b"k", b"data")
    payloads = [
        body + records.encode_extras({"lane": b"l"}) + inserted(b"a", 0),
        records.encode_claim(99, b"g", b"w", [(3, 5 << 16), (0, (5 << 16) + 1)]),
        records.encode_rows(records.DONE, [(3, 5 << 16), (0, (5 << 16) + 1)]),
    ]
    ended = folded(payloads)
    assert (ended["rows"], ended["keys"], ended["tokens"], ended["bytes"], ended["first"]) == ({}, {}, {}, (0, 0), 8)
