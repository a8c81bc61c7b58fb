"""A row as users see it, and as a record holds it whole: in every state."""

from __future__ import annotations

from tests.unit.queue.played import Played

from headwater.queue.columns import DEAD, HELD, PROCESSING, RUN, Tries
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.row import Row
from headwater.queue.row_view import claimed_rows, row_at, whole_row

NOW = 1_000_000


def put(played: Played, key: bytes, data: bytes = b"1", **given: object) -> int:
    """The slot of the row."""
    played.step("put", [{"key": key, "data": data, **given}])
    fold = played.fold
    return fold.follow_ups.get(key, fold.by_key[key])


def test_a_waiting_row() -> None:
    played = Played(EffectiveSettings())
    slot = put(played, b"k", b"{}", priority=7, delay=40, insertion_date=-20, expiration_date=60, lane=b"l")
    id = played.fold.columns.ids[slot]
    assert row_at(played.fold, slot) == Row(id, b"k", b"{}", 0, 7, NOW - 20, NOW + 40, NOW + 60, "W", update_date=NOW - 20, lane=b"l")
    whole = whole_row(played.fold, slot)
    assert (whole.slot, whole.id, whole.update, whole.state, whole.tries, whole.extras) == (
        slot,
        id,
        NOW - 20,
        RUN,
        Tries(),
        {"lane": b"l"},
    )
    assert whole.body == played.fold.columns.bodies[slot]


def test_a_merged_row_has_its_first_insertion_and_its_last_update() -> None:
    played = Played(EffectiveSettings())
    put(played, b"k", insertion_date=-20)
    row = row_at(played.fold, put(played, b"k", b"2", insertion_date=-5))
    assert (row.insertion_date, row.update_date, row.data) == (NOW - 20, NOW - 5, b"2")
    assert whole_row(played.fold, played.fold.by_key[b"k"]).update == NOW - 5


def test_a_processed_row_and_the_one_that_follows_it() -> None:
    played = Played(EffectiveSettings())
    slot = put(played, b"k", priority=7)
    played.now += 5
    played.step("claim", 1, 50, "g")
    row = row_at(played.fold, slot)
    assert (row.status, row.start_processing_date, row.lease_until, row.worker, row.group) == ("P", NOW + 5, NOW + 55, "w", "g")
    assert (row.attempts, row.follow_up) == (1, False)
    assert claimed_rows(played.fold, [slot], [row.id], NOW + 55, "g", "w") == [row]
    whole = whole_row(played.fold, slot)
    assert (whole.state, whole.extras) == (PROCESSING, {"claim": [2, NOW + 5, NOW + 55, "g", "w"]})
    held = put(played, b"k", b"2")
    assert (row_at(played.fold, held).status, row_at(played.fold, held).follow_up) == ("W", True)
    assert whole_row(played.fold, held).state == HELD


def test_a_row_that_has_failed_and_a_dead_one() -> None:
    played = Played(EffectiveSettings(max_attempts=2))
    slot = put(played, b"k")
    for failures in (1, 2):
        played.step("claim", 1, 50, "g")
        played.step("failed", 0, None)
        row = row_at(played.fold, slot)
        assert (row.status, row.attempts, row.failures, row.error, row.worker) == ("W", failures, failures, "why", "")
    whole = whole_row(played.fold, slot)
    assert (whole.state, whole.tries) == (DEAD, Tries(2, 0, 2))
    assert whole.extras == {"error": "why", "death": [1, NOW, "why", "w", False]}


def test_a_whole_row_that_is_written_is_the_same_row() -> None:
    played = Played(EffectiveSettings(max_attempts=1))
    put(played, b"dead", lane=b"l")
    played.step("claim", 1, 50, "g")
    played.step("failed", 0, None)
    put(played, b"busy")
    played.step("claim", 1, 50, "g")
    put(played, b"busy", b"2", expiration_date=70)
    put(played, b"later", delay=40)
    slots = [slot for slot, state in enumerate(played.fold.columns.states) if state]
    before = [(row_at(played.fold, slot), whole_row(played.fold, slot)[2:]) for slot in slots]
    played.step("carry")
    assert [(row_at(played.fold, slot), whole_row(played.fold, slot)[2:]) for slot in slots] == before
