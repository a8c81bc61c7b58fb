"""The replicator copies snapshots as it copies journals, and those who care for copies know them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, eventually, purged

from headwater.core.errors import LogGap
from headwater.journal.chores import Chores
from headwater.journal.copies import open_copy
from headwater.journal.dead import dead_records, quarantine, retry
from headwater.journal.discovery import Discovery, JournalTopic, snapshots_of
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.expiry import expire_journals
from headwater.journal.head import record_id
from headwater.journal.keep import delete_copied
from headwater.journal.lag import topic_lag
from headwater.journal.loop import LOOK, ReplicatorLoop
from headwater.journal.rebuild import check_rebuild, rebuild_progress, request_rebuild
from headwater.journal.snapshot_wire import HEADER, JournalLife, save_record
from headwater.journal.verify import verify_topic
from headwater.log.record import Record
from headwater.testing.clock import ManualClock

NAME = f"snapshot-{TOPIC}"
POISON = Record(b"a", b"x", ((HEADER, b"{no json"),))


class Journals:
    """A topic of journals with one journal, `a`, whose snapshots a test saves."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.topic = ground, ground.topic(partitions=1)
        ground.append(appended("a", 1, 3))
        ground.log.create_topic(NAME, partitions=1, part="journal")
        self.loop: ReplicatorLoop = ground.loop()

    @property
    def snapshots(self) -> JournalTopic:
        found = snapshots_of(self.ground.log, self.topic)
        assert found is not None
        return found

    def save(self, seq_nr: int, *, born: int = 0, at: int | None = None) -> int:
        end = self.ground.log.bounds(TOPIC, 0).end if at is None else at
        life = JournalLife(self.topic.generation, record_id(self.topic.generation, 0, born), end)
        return self.ground.append(save_record("a", seq_nr, Payload(PayloadKind.JSON, b"{}"), life), topic=NAME)[0]

    def held(self) -> dict[int, int]:
        copy = self.ground.store.snapshots(NAME, 0, self.snapshots.generation)
        assert copy is not None
        with copy.view() as view:
            return {slot: one.seq_nr for slot, one in view.ring("a").slots.items()}

    def pointer(self) -> int:
        copy = open_copy(self.ground.store, self.snapshots, 0, create=False)
        return -1 if copy is None else copy.pointer().offset


@pytest.fixture
def journals(ground: Ground) -> Iterator[Journals]:
    made = Journals(ground)
    yield made
    made.loop.close()


def test_snapshots_are_copied_in_rounds_of_their_own(ground: Ground, journals: Journals) -> None:
    journals.save(1)
    journals.save(3)
    assert journals.loop.catch_up()
    assert journals.held() == {0: 1, 1: 3}
    assert [{one.topic for one in outcome.partitions} for outcome in ground.outcomes] == [{TOPIC}, {NAME}]
    assert journals.loop.status().topics == (TOPIC,)
    ground.append(appended("a", 4))
    journals.save(4)
    assert journals.loop.catch_up()
    assert journals.held() == {0: 1, 1: 3, 2: 4}


def test_a_topic_of_snapshots_is_found_when_it_is_made(ground: Ground) -> None:
    assert isinstance(ground.clock, ManualClock)
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1))
    loop = ground.loop()
    assert loop.catch_up()
    ground.log.create_topic(NAME, partitions=1, part="journal")
    payload, life = Payload(PayloadKind.TEXT, b"x"), JournalLife(topic.generation, record_id(topic.generation, 0, 0), 1)
    ground.append(save_record("a", 1, payload, life), topic=NAME)
    ground.clock.advance(LOOK + 1)
    eventually(lambda: loop.step() or ground.store.snapshots(NAME, 0, snapshots_of(ground.log, topic).generation).pointer().offset == 0)  # type: ignore[union-attr]
    loop.close()


def test_poison_among_snapshots_stops_them_alone_until_it_is_left_out(ground: Ground, journals: Journals) -> None:
    journals.save(1)
    [offset] = ground.append(POISON, topic=NAME)
    journals.save(2)
    assert not journals.loop.catch_up()
    [stopped] = journals.loop.status().partitions
    assert stopped.problem is not None
    assert (stopped.topic, stopped.problem.offset) == (NAME, offset)
    assert journals.held() == {0: 1}
    ground.append(appended("a", 4))
    journals.loop.catch_up()
    assert ground.pointer() == 1
    [dead] = dead_records(ground.log, ground.store, journals.snapshots)
    assert dead.commands[1] == f"headwater journal dead {TOPIC} quarantine 0 {offset} --snapshots --why TEXT"
    assert dead_records(ground.log, ground.store, journals.topic) == []
    quarantine(ground.log, journals.snapshots, 0, offset, why="test")
    assert journals.loop.catch_up()
    assert journals.held() == {0: 1, 1: 2}
    assert verify_topic(ground.log, ground.store, journals.topic, address=ground.address).equal
    with pytest.raises(Exception, match="cannot be"):
        retry(ground.log, journals.snapshots, 0, offset)


def test_a_rebuild_makes_rings_anew(ground: Ground, journals: Journals) -> None:
    journals.save(1)
    ground.append(purged("a"), appended("a", 1))
    journals.save(1, born=2)
    journals.loop.catch_up()
    before = journals.held()
    assert check_rebuild(ground.log, journals.topic) == [(journals.topic, {0: 3}), (journals.snapshots, {0: 2})]
    request = request_rebuild(ground.log, journals.topic, why="test")
    assert request.records == 5
    assert not rebuild_progress(ground.store, request).finished
    assert journals.loop.catch_up()
    assert rebuild_progress(ground.store, request).finished
    assert journals.held() == before == {0: 1}
    assert verify_topic(ground.log, ground.store, journals.topic, address=ground.address).equal


def test_a_rebuild_is_refused_where_the_log_of_snapshots_was_deleted(ground: Ground, journals: Journals) -> None:
    journals.save(1)
    journals.save(2)
    journals.loop.catch_up()
    ground.log.delete_before(NAME, 0, 1, part="journal")
    with pytest.raises(LogGap, match=f"rebuild {TOPIC}"):
        request_rebuild(ground.log, journals.topic)


def test_copied_snapshots_are_deleted_from_the_log_and_stay_in_the_store(ground: Ground, journals: Journals) -> None:
    assert isinstance(ground.clock, ManualClock)
    journals.save(1)
    journals.loop.catch_up()
    ground.clock.advance(100)
    journals.save(2)
    [kept] = delete_copied(ground.log, ground.store, journals.snapshots, keep=1000, now=ground.clock.now_ms())
    assert (kept.durable, kept.start) == (0, 1)
    chores = Chores(ground.log, ground.store, Discovery(ground.log, ("journal",)), keep=1, clock=ground.clock)  # type: ignore[arg-type]
    chores.turn()
    assert ground.log.bounds(NAME, 0).start == 1
    journals.loop.catch_up()
    assert journals.held() == {0: 1, 1: 2}


def test_a_journal_that_expires_takes_its_snapshots(ground: Ground, journals: Journals) -> None:
    from datetime import date

    ground.append(appended("a", 4, expire_after=1000))
    journals.save(4)
    journals.loop.catch_up()
    assert journals.held() == {0: 4}
    [expired] = expire_journals(ground.log, ground.store, journals.topic, today=date.max)
    assert expired.purged
    journals.loop.catch_up()
    assert journals.held() == {}


def test_journals_that_are_created_again_begin_without_snapshots(ground: Ground, journals: Journals) -> None:
    journals.save(1)
    journals.save(2)
    journals.loop.catch_up()
    ground.log.delete_before(NAME, 0, 1, part="journal")
    ground.log.delete_topic(TOPIC, part="journal")
    journals.topic = ground.topic(partitions=1)
    ground.append(appended("a", 1))
    assert journals.loop.catch_up()
    assert journals.held() == {}
    journals.save(1)
    assert journals.loop.catch_up()
    assert journals.held() == {0: 1}


def test_a_store_that_lost_its_snapshots_is_a_gap(ground: Ground, journals: Journals) -> None:
    journals.save(1)
    journals.save(2)
    journals.loop.catch_up()
    ground.log.delete_before(NAME, 0, 1, part="journal")
    copy = open_copy(ground.store, journals.snapshots, 0)
    assert copy is not None
    copy.clear()
    again = ground.loop()
    assert not again.catch_up()
    [stopped] = again.status().partitions
    assert stopped.problem is not None
    assert (stopped.topic, stopped.problem.code) == (NAME, "log-gap")
    again.close()


def test_the_lag_of_snapshots_is_known(ground: Ground, journals: Journals) -> None:
    journals.save(1)
    [lag] = topic_lag(ground.log, ground.store, journals.snapshots, now=ground.clock.now_ms())
    assert (lag.pointer, lag.records) == (-1, 1)
    journals.loop.catch_up()
    [lag] = topic_lag(ground.log, ground.store, journals.snapshots, now=ground.clock.now_ms())
    assert (lag.pointer, lag.records) == (0, 0)
