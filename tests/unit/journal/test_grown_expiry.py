"""Journals of a topic that grew expire as those of one place do."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, deleted
from tests.unit.journal.test_grown import ID, NEW, OLD
from tests.unit.journal.test_grown_snapshots import GrownSnapshotsGround

from headwater.journal.discovery import JournalTopic
from headwater.journal.expiry import ExpiredJournal, expire_journals
from headwater.log.record import Record

DAY = 86_400_000


@pytest.fixture
def grown(ground: Ground) -> GrownSnapshotsGround:
    return GrownSnapshotsGround(ground)


def day(grown: GrownSnapshotsGround, days: int) -> date:
    return datetime.fromtimestamp(grown.ground.clock.now_ms() / 1000, UTC).date() + timedelta(days=days)


def expired(grown: GrownSnapshotsGround, days: int, *, dry_run: bool = False) -> list[ExpiredJournal]:
    topic = JournalTopic(TOPIC, 4, grown.grown.topic.generation)
    return expire_journals(grown.ground.log, grown.ground.store, topic, today=day(grown, days), dry_run=dry_run)


@pytest.mark.parametrize(
    ("before", "after", "days"),
    [
        (appended(ID, 1, 2, expire_after=DAY), None, 1),
        (appended(ID, 1, 2, expire_after=DAY), deleted(ID, 1), 1),
        (appended(ID, 1, 2), appended(ID, 3, expire_after=DAY), 1),
        (appended(ID, 1, 2, expire_after=DAY), appended(ID, 3, expire_after=3 * DAY), 3),
        (appended(ID, 1, 2, expire_after=DAY), appended(ID, 3), None),
    ],
)
@pytest.mark.parametrize("copied", [False, True])
def test_the_newest_append_says_when(
    grown: GrownSnapshotsGround, before: Record, after: Record | None, days: int | None, copied: bool
) -> None:
    grown.ground.append(before, partition=OLD)
    grown.grown.copy(OLD)
    if after is not None:
        grown.ground.append(after, partition=NEW)
        if copied or days == 1:
            grown.grown.copy(NEW)
    if days is None:
        assert expired(grown, 30) == []
        return
    assert expired(grown, days - 1) == []
    [told] = expired(grown, days, dry_run=True)
    assert (told.id, told.partition, told.expire_on, told.purged) == (ID, NEW, day(grown, days), False)
    assert grown.grown.head() is not None
    [done] = expired(grown, days)
    assert done.purged
    assert (grown.grown.head(), grown.grown.numbers()) == (None, [])
    assert expired(grown, days) == []


def test_the_head_of_a_journal_is_shown_with_its_expiry(grown: GrownSnapshotsGround) -> None:
    grown.ground.append(appended(ID, 1), partition=OLD)
    grown.ground.append(appended(ID, 2, expire_after=DAY), partition=NEW)
    head = grown.topic.head(ID, grown.grown.partition(NEW).end(), full=True)
    assert head is not None
    assert (head.expire_on, head.origin) == (day(grown, 1), "here")
