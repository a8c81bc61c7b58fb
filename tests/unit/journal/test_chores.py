from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, eventually

from headwater.core.errors import Unavailable
from headwater.core.units import Duration
from headwater.journal.chores import EVERY, Chores, expired_setting
from headwater.journal.discovery import Discovery
from headwater.testing.clock import ManualClock

DAY = 86_400


def chores(
    ground: Ground,
    *,
    keep: str = "0ms",
    active: bool = True,
    expired: Callable[[str, int, float], None] = lambda topic, count, seconds: None,
) -> Chores:
    return Chores(
        ground.log,
        ground.store,
        Discovery(ground.log, ("journal",)),
        keep=Duration.parse(keep),
        clock=ground.clock,
        active=lambda: active,
        expired=expired,
    )


def test_it_deletes_what_is_copied_and_old(ground: Ground) -> None:
    assert isinstance(ground.clock, ManualClock)
    ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    ground.loop().catch_up()
    ground.clock.advance(DAY + 1)
    chores(ground).turn()
    assert ground.log.bounds(TOPIC, 0).start == 0
    chores(ground, keep="1h", active=False).turn()
    assert ground.log.bounds(TOPIC, 0).start == 0
    chores(ground, keep="1h").turn()
    assert ground.log.bounds(TOPIC, 0).start == 2


def test_a_day_of_journals_stays_for_their_idempotency_keys(ground: Ground) -> None:
    assert isinstance(ground.clock, ManualClock)
    ground.topic()
    ground.append(appended("a", 1))
    ground.loop().catch_up()
    ground.clock.advance(DAY - 1)
    chores(ground, keep="1h").turn()
    assert ground.log.bounds(TOPIC, 0).start == 0


def test_it_looks_for_expired_journals_once_a_day(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ground.clock, ManualClock)
    ground.topic()
    ground.append(appended("a", 1, expire_after=DAY * 1000))
    ground.loop().catch_up()
    told: list[tuple[str, int, float]] = []
    daily = chores(ground, expired=lambda *said: told.append(said))
    daily.turn()
    assert ground.log.bounds(TOPIC, 0).end == 1
    ground.clock.advance(DAY)
    daily.turn()
    assert ground.log.bounds(TOPIC, 0).end == 2
    assert told == [(TOPIC, 0, 0.0), (TOPIC, 1, 0.0)]
    monkeypatch.setattr("headwater.journal.chores.expire_journals", lambda *_, **__: pytest.fail("twice a day"))
    daily.turn()
    assert ground.store.setting(expired_setting(TOPIC))


def test_a_topic_that_fails_keeps_no_other_and_is_tried_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("journal-a", "journal-b"):
        ground.topic(name)
    tried: list[str] = []

    def fail(log: object, store: object, topic: object, **_: object) -> list[object]:
        tried.append(topic.name)  # type: ignore[attr-defined]
        if len(tried) == 1:
            raise Unavailable("Away.")
        return []

    monkeypatch.setattr("headwater.journal.chores.expire_journals", fail)
    daily = chores(ground)
    daily.turn()
    daily.turn()
    assert tried == ["journal-a", "journal-b", "journal-a"]


def test_it_takes_turns_beside_the_loop(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ground.clock, ManualClock)
    daily, turns = chores(ground), []
    monkeypatch.setattr(daily, "turn", lambda stopped: turns.append(ground.clock.monotonic()))
    stopping = threading.Event()
    with daily.running(stopping):
        eventually(lambda: turns, ground.clock)
        ground.clock.advance(EVERY)
        eventually(lambda: len(turns) > 1, ground.clock)
    assert stopping.is_set()
    assert turns[1] - turns[0] >= EVERY
