"""A server looks through the journals that it owns once a day."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended
from tests.until import until

from headwater.client.journal_performer import JournalPerformer
from headwater.client.local import local_log
from headwater.core.errors import NotOwner, Unavailable
from headwater.core.settings import Settings
from headwater.journal.chores import EVERY
from headwater.server.journal_expiry import OwnerExpiry
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
DAY = 86_400


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics have claims here, as on Kafka."""
    monkeypatch.setattr("headwater.server.journal_expiry.has_claims", lambda log, topic: True)


async def test_topics_without_claims_are_the_replicator_s(tmp_path: Path) -> None:
    clock = ManualClock()
    ground = Ground(tmp_path, clock)
    ground.topic(partitions=1)
    ground.append(appended("a", 1, expire_after=1))
    ground.loop().catch_up()
    log = local_log(Settings(data=tmp_path), tmp_path, clock)
    performer = JournalPerformer(log=log, clock=clock, settings=Settings(data=tmp_path))
    await OwnerExpiry(performer).turn()
    assert ground.log.bounds(TOPIC, 0).end == 1
    await performer.aclose()
    await log.aclose()
    ground.close()


@pytest.mark.usefixtures("claims")
async def test_a_turn_purges_what_has_expired_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    ground = Ground(tmp_path, clock)
    ground.topic(partitions=1)
    ground.append(appended("a", 1, expire_after=DAY * 1000), appended("b", 1))
    ground.loop().catch_up()
    log = local_log(Settings(data=tmp_path), tmp_path, clock)
    performer = JournalPerformer(log=log, clock=clock, settings=Settings(data=tmp_path))
    expiry = OwnerExpiry(performer, clock=clock)
    await expiry.turn()
    assert ground.log.bounds(TOPIC, 0).end == 2
    clock.advance(DAY)
    await expiry.turn()
    assert ground.log.bounds(TOPIC, 0).end == 3
    await expiry.turn()  # nothing more today
    asked: list[Exception] = [Unavailable("Away."), NotOwner("Another one's.")]

    async def fails(request: object, done: set[int]) -> None:
        if asked:
            raise asked.pop(0)
        done.add(0)

    monkeypatch.setattr(performer.care, "expire", fails)
    clock.advance(DAY)
    with caplog.at_level(logging.WARNING):
        await expiry.turn()  # tried again
        await expiry.turn()  # another process owns the partition, and may let go of it
        await expiry.turn()  # done
    monkeypatch.setattr(performer.care, "expire", None)
    await expiry.turn()
    assert [record.getMessage() for record in caplog.records] == [f"{TOPIC}: Away. "]
    await performer.aclose()
    await log.aclose()
    ground.close()


async def test_turns_are_taken_every_hour_until_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    log = local_log(Settings(data=tmp_path), tmp_path, clock)
    performer = JournalPerformer(log=log, clock=clock, settings=Settings(data=tmp_path))
    expiry, turns = OwnerExpiry(performer), list[float]()
    began = clock.monotonic()

    async def turn() -> None:
        turns.append(clock.monotonic() - began)
        if len(turns) == 1:
            raise Unavailable("Away.")

    monkeypatch.setattr(expiry, "turn", turn)
    expiry.start()
    expiry.start()
    await clock.run(EVERY + 120)
    await until(lambda: len(turns) == 2)
    assert turns == [60, 60 + EVERY]
    await expiry.end()
    await expiry.end()
    await performer.aclose()
    await log.aclose()
