from __future__ import annotations

import asyncio
from collections import deque

import pytest
from msgspec.structs import replace
from tests.unit.queue.played import Played

from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.events import QueueEvents, deaths_behind
from headwater.queue.values import FailedClaim, QueueEvent

pytestmark = pytest.mark.anyio


RESET = QueueEvent("reset", 7, position=9)


def reset() -> QueueEvent:
    return RESET


async def test_listeners_hear_what_comes_after_their_call_although_they_read_later() -> None:
    events = QueueEvents(reset)
    listening = aiter(events.listen(due=2))
    events.due(1000, 2, 1)  # nothing more than before
    events.due(1001, 5, 2)
    events.due(1002, 1, 3)
    events.due(1003, 2, 4)
    due = [QueueEvent("due", 1001, count=3, position=2), QueueEvent("due", 1003, count=1, position=4)]
    assert [await anext(listening), await anext(listening)] == due
    events.close()
    with pytest.raises(StopAsyncIteration):
        await anext(listening)
    assert len(events) == 0


async def test_a_listener_that_does_not_keep_up_is_told_so_and_goes_on() -> None:
    events = QueueEvents(reset)
    listening = events.listen(due=0)
    for number in range(1, 1004):
        events.due(number, number, number)
    events.close()
    async with asyncio.timeout(30):
        found = [event async for event in listening]
    assert found == [RESET, *(QueueEvent("due", number, position=number) for number in (1002, 1003))]


async def test_what_was_missed_comes_before_what_happens() -> None:
    events, dead = QueueEvents(reset), QueueEvent("dead", 1, 5, b"k", "attempts", position=3)
    late, later = events.listen(0, [dead]), events.listen(0, None)
    events.due(1, 1, 4)
    events.close()
    due = QueueEvent("due", 1, position=4)
    assert ([event async for event in late], [event async for event in later]) == ([dead, due], [RESET, due])


def test_deaths_behind_a_position_are_those_of_rows_that_are_dead_still() -> None:
    played = Played(EffectiveSettings(max_attempts=1))
    for key in (b"a", b"b", b"c"):
        played.step("put", [{"key": key, "data": b"1"}])
        played.step("claim", 1, 50, "g")
        played.step("failed", 0, None)  # the third record of each
    played.step("drop", 1)
    played.step("carry")
    fold = played.fold
    found = deaths_behind(fold, 2, fold.sequence)
    assert found is not None
    assert [(event.kind, event.key, event.reason, event.position) for event in found] == [
        ("dead", b"a", "attempts", 3),
        ("dead", b"c", "attempts", 9),
    ]
    assert [event.position for event in deaths_behind(fold, 3, fold.sequence) or ()] == [9]
    assert deaths_behind(fold, fold.sequence, fold.sequence) == []
    assert deaths_behind(fold, 0, 8) == found[:1], "the third death is not durable"
    assert deaths_behind(fold, fold.sequence + 1, fold.sequence) is None


async def test_a_listener_that_is_cut_off_between_deaths_of_one_record_hears_the_others() -> None:
    played = Played(EffectiveSettings(max_attempts=1))
    played.step("put", [{"key": key, "data": b"1"} for key in (b"a", b"b", b"c")])
    played.step("claim", 3, 50, "g")
    failures = [FailedClaim(token, "no") for token in played.fold.claims.by_token]
    played.record(lambda decisions: decisions.fail(failures))
    fold = played.fold
    behind = deaths_behind(fold, 1, fold.sequence)
    assert behind is not None
    assert [(event.key, event.position) for event in behind] == [(b"a", 2), (b"b", 2), (b"c", 3)]
    assert deaths_behind(fold, behind[0].position, fold.sequence) == behind
    assert deaths_behind(fold, behind[-1].position, fold.sequence) == []
    events = QueueEvents(reset)
    listening = events.listen(due=0)
    events.died(deque((3, replace(event, position=3)) for event in behind), durable=3)
    events.close()
    assert [event async for event in listening] == behind
