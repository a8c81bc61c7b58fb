"""What a fold has while a log is replayed: no keys, and claims without tokens; at the end both are there."""

from __future__ import annotations

import msgspec

from headwater.queue.body import make_body
from headwater.queue.columns import DEAD, HELD, PROCESSING, RUN, RowColumns
from headwater.queue.date_heap import NEVER
from headwater.queue.key_index import key_hash
from headwater.queue.records import INSERT
from headwater.queue.replayed import NoKeys, ReplayedClaims, keys_of


def filled(*states: int, priority: int = 10) -> RowColumns:
    columns = RowColumns()
    columns.grow(len(states) + 1)
    for slot, state in enumerate(states):
        columns.states[slot] = state
        columns.bodies[slot] = make_body(INSERT, slot, 0, priority, 0, 5, 5, 0, b"key %d" % slot, b"data")
    return columns


def test_keys_are_taken_and_not_kept() -> None:
    keys = NoKeys([])
    keys.add(b"k", 1)
    keys.leave(b"never")
    assert not keys


def test_rows_that_wait_or_are_processed_have_their_keys_at_the_end() -> None:
    assert keys_of(filled(RUN, HELD, PROCESSING, DEAD), key_hash) == {b"key 0": 0, b"key 2": 2}


def test_claims_that_are_left_have_their_tokens_and_leases() -> None:
    replayed, columns = ReplayedClaims(7), filled(*[PROCESSING] * 4)
    replayed.add_all([0, 1, 2], 5, 10, 20, "group", "worker")
    replayed.add(3, 6, 11, 21, "group", "other", True)
    assert replayed.remove(1).worker == "worker"
    replayed.extend(0, 12, 30)
    assert (len(replayed), replayed.by_token, replayed.earliest) == (3, {}, NEVER)
    claims = replayed.counted(columns)
    assert claims.by_token == {"0-5-7": 0, "2-5-7": 2, "3-6-7": 3}
    assert {slot: msgspec.structs.astuple(claim)[:6] for slot, claim in claims.by_slot.items()} == {
        0: (5, 12, 30, "group", "worker", True),
        2: (5, 10, 20, "group", "worker", True),
        3: (6, 11, 21, "group", "other", True),
    }
    assert (claims.next_end(), claims.only_slow("group")) == (20, False)


def test_a_claim_of_the_slow_band_is_one_at_the_end() -> None:
    replayed = ReplayedClaims()
    replayed.add_all([0], 5, 10, 20, "group", "")
    assert replayed.counted(filled(PROCESSING, priority=200)).only_slow("group")
