"""Lists of rows: by id, by state, by the beginning of keys; dead rows; what a log says of a key."""

from __future__ import annotations

import pytest
from tests.unit.queue.played import Played

from headwater.core.errors import NotFound
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.listing import KeyHistory, dead_ids, dead_row, rows_of, slot_of_id, state_of
from headwater.queue.records import Malformed
from headwater.queue.values import State


def put(played: Played, key: bytes, **given: object) -> None:
    played.step("put", [{"key": key, "data": b"1", **given}])


@pytest.fixture
def played() -> Played:
    """A row of each state."""
    played = Played(EffectiveSettings(max_attempts=1))
    put(played, b"a:dead")
    played.step("claim", 1, 50, "g")
    played.step("failed", 0, None)
    put(played, b"a:busy")
    played.step("claim", 1, 50, "g")
    put(played, b"a:busy")
    put(played, b"b:future", delay=40)
    put(played, b"b:due")
    return played


def keys(played: Played, state: State | None = None, prefix: bytes = b"", after: int = 0, limit: int = 100) -> list[bytes]:
    return [row.key for row in rows_of(played.fold, state, prefix, after, limit, now=played.now)]


def test_rows_come_by_id_and_dead_ones_do_not(played: Played) -> None:
    assert keys(played) == [b"a:busy", b"a:busy", b"b:future", b"b:due"]
    assert keys(played, prefix=b"b:") == [b"b:future", b"b:due"]
    assert keys(played, limit=1) == [b"a:busy"]
    ids = [row.id for row in rows_of(played.fold, None, b"", 0, 100, now=played.now)]
    assert ids == sorted(ids)
    assert keys(played, after=ids[1]) == [b"b:future", b"b:due"]
    assert keys(played, after=ids[-1]) == keys(played, after=2**63 - 1) == []


def test_a_page_goes_on_behind_any_number(played: Played) -> None:
    assert keys(played, after=2**70) == []


def test_rows_of_a_state(played: Played) -> None:
    states: list[State] = ["due", "future", "held", "processing"]
    assert [keys(played, state) for state in states] == [[b"b:due"], [b"b:future"], [b"a:busy"], [b"a:busy"]]
    slot = played.fold.by_key[b"b:future"]
    assert (state_of(played.fold, slot, played.now + 39), state_of(played.fold, slot, played.now + 40)) == ("future", "due")
    assert rows_of(QueueFold(), None, b"", 0, 10, now=0) == []


def test_a_row_is_found_by_its_id(played: Played) -> None:
    fold = played.fold
    for slot in (*fold.by_key.values(), *fold.follow_ups.values()):
        assert slot_of_id(fold, fold.columns.ids[slot]) == slot
    [dead] = fold.deaths
    gone = fold.columns.ids[fold.by_key[b"b:due"]]
    played.step("cancel", b"b:due")
    assert [slot_of_id(fold, id) for id in (dead, gone, 0, -1, 5, 2**70)] == [-1] * 6


def test_dead_rows(played: Played) -> None:
    [id] = played.fold.deaths
    found = dead_row(played.fold, id)
    assert (found.row.key, found.reason, found.date, found.error, found.worker) == (b"a:dead", "attempts", played.now, "why", "w")
    filters = [(b"", ""), (b"a:", "attempts"), (b"b", ""), (b"", "timeouts")]
    assert [list(dead_ids(played.fold, prefix, reason)) for prefix, reason in filters] == [[id], [id], [], []]
    with pytest.raises(NotFound, match="id 5"):
        dead_row(played.fold, 5)


def test_a_row_that_died_of_lost_leases_tells_its_last_failure() -> None:
    played = Played(EffectiveSettings(max_timeouts=0))
    put(played, b"k")
    played.step("claim", 1, 50, "g")
    played.step("failed", 0, None)
    played.step("claim", 1, 50, "g")
    played.now += 51
    played.step("pause")
    [id] = played.fold.deaths
    assert (dead_row(played.fold, id).reason, dead_row(played.fold, id).error) == ("timeouts", "why")


def test_the_history_of_a_key_is_what_the_log_says_of_its_rows(played: Played) -> None:
    played.step("done", 0, None)
    history = KeyHistory(b"a:busy")
    for sequence, payload in enumerate(played.records, 1):
        history.read(sequence, payload)
    assert [entry.change for entry in history.entries] == ["insert", "claim", "insert", "done"]
    first, second = history.entries[0].id, history.entries[2].id
    assert [entry.id for entry in history.entries] == [first, first, second, first]
    assert (history.entries[0].detail, history.entries[0].date) == ("priority 100, 1 bytes", played.now)
    with pytest.raises(Malformed):
        history.read(99, b"\x01")


def test_the_history_of_a_key_leaves_out_later_rows_of_its_slot() -> None:
    played = Played(EffectiveSettings())
    put(played, b"a")
    played.step("cancel", b"a")
    put(played, b"b")
    put(played, b"b")
    played.step("cancel", b"b")
    history = KeyHistory(b"a")
    for sequence, payload in enumerate(played.records, 1):
        history.read(sequence, payload)
    assert [entry.change for entry in history.entries] == ["insert", "cancel"]
