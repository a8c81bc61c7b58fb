from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended, purged

from headwater.core.errors import BadBounds, NotOwner, UnreadableRecord
from headwater.journal.discovery import JournalTopic
from headwater.journal.expiry import expire_journals
from headwater.log.embedded.log import EmbeddedLog

DAY = 86_400_000


def today(ground: Ground, days: int = 0) -> date:
    return datetime.fromtimestamp(ground.clock.now_ms() / 1000, UTC).date() + timedelta(days=days)


def ids(ground: Ground, topic: JournalTopic) -> list[str]:
    ground.loop().catch_up()
    copy = ground.store.partition(TOPIC, 0, topic.generation)
    assert copy is not None
    with copy.view() as view:
        return view.ids()


def filled(ground: Ground) -> JournalTopic:
    topic = ground.topic(partitions=1)
    ground.append(appended("never", 1), appended("soon", 1, expire_after=DAY), appended("late", 1, expire_after=9 * DAY))
    ground.loop().catch_up()
    return topic


def test_the_day_of_expiry_is_counted_in_utc() -> None:
    from headwater.journal.head import Expiry

    moment = int(datetime(2019, 12, 11, 10, 10, 10, tzinfo=UTC).timestamp() * 1000)
    assert Expiry(DAY, moment).on == date(2019, 12, 12)
    assert Expiry(60_000, moment).on == date(2019, 12, 11)


def test_journals_go_on_their_day_and_not_before(ground: Ground) -> None:
    topic = filled(ground)
    assert expire_journals(ground.log, ground.store, topic, today=today(ground)) == []
    [one] = expire_journals(ground.log, ground.store, topic, today=today(ground, 1))
    assert (one.id, one.purged, one.seq_nr, one.expire_on) == ("soon", True, 1, today(ground, 1))
    assert ids(ground, topic) == ["late", "never"]


def test_a_missed_day_is_made_up_for_and_nothing_is_purged_twice(ground: Ground) -> None:
    topic = filled(ground)
    end = ground.log.bounds(TOPIC, 0).end
    found = expire_journals(ground.log, ground.store, topic, today=today(ground, 30))
    assert [one.id for one in found] == ["late", "soon"]
    again = expire_journals(ground.log, ground.store, topic, today=today(ground, 30))  # not copied yet: the tail tells
    assert again == []
    assert ground.log.bounds(TOPIC, 0).end == end + 2


def test_a_dry_run_changes_nothing(ground: Ground) -> None:
    topic = filled(ground)
    end = ground.log.bounds(TOPIC, 0).end
    [one] = expire_journals(ground.log, ground.store, topic, today=today(ground, 1), dry_run=True)
    assert (one.id, one.purged) == ("soon", False)
    assert ground.log.bounds(TOPIC, 0).end == end


@pytest.mark.parametrize("record", [appended("soon", 2, expire_after=5 * DAY), appended("soon", 2)])
def test_events_that_the_store_lacks_count(ground: Ground, record: object) -> None:
    topic = filled(ground)
    ground.append(record)  # type: ignore[arg-type]
    assert expire_journals(ground.log, ground.store, topic, today=today(ground, 1)) == []


def test_a_journal_that_is_purged_already_is_left(ground: Ground) -> None:
    topic = filled(ground)
    ground.append(purged("soon"))
    assert expire_journals(ground.log, ground.store, topic, today=today(ground, 1)) == []


def test_a_journal_that_gets_a_record_in_the_last_moment_is_not_purged(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = filled(ground)
    append = EmbeddedLog.append

    def raced(self: EmbeddedLog, *given: object, **named: object) -> Sequence[int]:
        if named.get("guard"):
            monkeypatch.undo()
            ground.append(appended("soon", 2))
        return append(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(EmbeddedLog, "append", raced)
    found = expire_journals(ground.log, ground.store, topic, today=today(ground, 30))
    assert [(one.id, one.purged) for one in found] == [("late", True), ("soon", False)]
    assert ids(ground, topic) == ["never", "soon"]


def test_a_partition_that_grows_quickly_is_looked_at_again(ground: Ground) -> None:
    topic = filled(ground)
    tries: list[int] = []

    def purge(partition: int, since: int, ids: Sequence[str]) -> Sequence[str]:
        tries.append(since)
        ground.append(appended("other", len(tries)))
        if len(tries) < 3:
            raise BadBounds("Too far.")
        return ids

    [one] = expire_journals(ground.log, ground.store, topic, today=today(ground, 1), purge=purge)
    assert one.purged
    assert tries == [3, 4, 5]


def test_partitions_of_other_owners_are_left_for_another_time(ground: Ground) -> None:
    topic = ground.topic(partitions=2)
    for partition, id in enumerate(("a", "b")):
        ground.append(appended(id, 1, expire_after=DAY), partition=partition)
    ground.loop().catch_up()
    asked, done = list[int](), set[int]()

    def purge(partition: int, since: int, ids: Sequence[str]) -> Sequence[str]:
        asked.append(partition)
        if asked == [0]:
            raise NotOwner("Another server's.")
        return ids

    with pytest.raises(NotOwner):
        expire_journals(ground.log, ground.store, topic, today=today(ground, 1), purge=purge, done=done)
    assert (asked, done) == ([0, 1], {1})
    assert [one.id for one in expire_journals(ground.log, ground.store, topic, today=today(ground, 1), purge=purge, done=done)] == ["a"]
    assert (asked, done) == ([0, 1, 0], {0, 1})


def test_a_tail_that_cannot_be_read_purges_nothing(ground: Ground) -> None:
    topic = filled(ground)
    ground.append(POISON)
    with pytest.raises(UnreadableRecord):
        expire_journals(ground.log, ground.store, topic, today=today(ground, 1))
    assert ground.log.bounds(TOPIC, 0).end == 4
