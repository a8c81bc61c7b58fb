"""The quick way of replaying: it ends where the general way ends, and leaves to it what it does not know."""

from __future__ import annotations

import pytest
from tests.unit.queue.played import state

from headwater.queue import quick_replay, records
from headwater.queue.body import FOLLOW_UP, make_body
from headwater.queue.columns import NO_TRIES, PROCESSING, RUN, Tries
from headwater.queue.fold import QueueFold
from headwater.queue.quick_replay import done_ids
from headwater.queue.records import WholeRow
from headwater.queue.replay import replay

HEAD = b"\x01" + (7).to_bytes(8, "big")


def inserted(key: bytes, slot: int, *, flags: int = 0, expiration: int = 0) -> bytes:
    return make_body(records.INSERT, slot, flags, 10, 0, 5, 6, expiration, key, b"data")


def carried(key: bytes, slot: int, id: int, *, update: int = 5, state: int = RUN, tries: Tries = NO_TRIES) -> bytes:
    body = make_body(records.CARRY, slot, 0, 10, 0, 5, 6, 0, key, b"data")
    extras = {"claim": [1, 2, 3, "", ""]} if state == PROCESSING else {}
    return records.encode_whole(records.CARRY, WholeRow(slot, body, id, update, state, tries, extras))


def folded(payloads: list[bytes], first: int = 5, *, ahead: bool = False) -> dict[str, object]:
    """`ahead`: with a look at which rows are done."""
    fold, done = QueueFold(first), done_ids(HEAD + payload for payload in payloads) if ahead else frozenset[int]()
    for sequence, payload in enumerate(payloads, first):
        replay(fold, sequence, HEAD + payload, done)
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
    assert (ended["rows"], ended["keys"], ended["tokens"], ended["bytes"], ended["first"]) == ({}, {}, {}, (0, 0, 0, 0, 0), 8)


ROWS = [(slot, (5 << 16) + slot) for slot in range(3)]
SOON_DONE = [
    inserted(b"a", 0) + inserted(b"b", 1) + inserted(b"c", 2),
    records.encode_claim(99, b"g", b"w", ROWS),
    inserted(b"b", 3, flags=FOLLOW_UP) + inserted(b"d", 4),
    records.encode_rows(records.DONE, ROWS) + inserted(b"e", 0),
    records.encode_claim(99, b"g", b"w", [(3, 7 << 16)]),
    inserted(b"f", 1),
    records.encode_claim(99, b"g", b"w", [(0, 8 << 16), (1, 10 << 16)]),
    records.encode_rows(records.FAIL + 1, [(0, 8 << 16)]),
    records.encode_rows(records.DONE, [(1, 10 << 16), (3, 7 << 16)]),
]


@pytest.mark.parametrize("cut", range(len(SOON_DONE) + 1))
def test_rows_that_are_soon_done_are_passed_over_and_leave_the_same(cut: int) -> None:
    assert folded(SOON_DONE[:cut], ahead=True) == folded(SOON_DONE[:cut])
    assert folded(SOON_DONE[cut:], 5 + cut, ahead=True) == folded(SOON_DONE[cut:], 5 + cut)


def test_a_record_is_passed_over_where_all_of_its_rows_are_soon_done(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[int]()
    monkeypatch.setattr(quick_replay, "_begin", lambda fold, payload, slots: made.append(fold.sequence + 1))
    fold = QueueFold(5)
    done = done_ids([HEAD + SOON_DONE[3]])
    assert done == {id for _, id in ROWS}
    assert quick_replay.replay_rows(fold, 5, HEAD + SOON_DONE[0], done)
    assert (fold.sequence, fold.homes.records, len(fold.columns), made) == (5, 1, 0, [])
    assert not quick_replay.replay_rows(fold, 6, HEAD + SOON_DONE[0] + SOON_DONE[1], frozenset({6 << 16}))


@pytest.mark.parametrize("payload", [b"", b"\x05", b"\x05\x00", b"\x05\x00\x02" + bytes(12), b"\x05\x00\x00"])
def test_rows_of_a_record_that_ends_too_early_are_not_known_to_be_done(payload: bytes) -> None:
    assert done_ids([HEAD + payload]) == frozenset()
