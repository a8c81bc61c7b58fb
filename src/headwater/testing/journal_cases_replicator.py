"""Cases 42 to 45, 53, 54, 58 and 59 of journals: the replicator. Pointers take the place of commits, and one lock that of a group."""

from __future__ import annotations

import threading
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.core.errors import Unreachable, UnreadableRecord
from headwater.core.settings import SparkSettings
from headwater.journal.dead import dead_records, quarantine
from headwater.journal.discovery import Discovery, JournalTopic
from headwater.journal.head import Expiry
from headwater.journal.leader import LocalReplicatorLock
from headwater.journal.loop import ReplicatorLoop
from headwater.journal.replicate import RoundOutcome, Rounds
from headwater.journal.store_address import StoreAddress
from headwater.log.record import Record
from headwater.testing.clock import ManualClock
from headwater.testing.journal_cases_ground import CaseJournals, JournalCasesGround, MakeJournals, raw_append, raw_mark

_HERE = 1 << 40  # records below which no Spark is started
_POISON = Record(b"a", None, (("journal.action", b"{no json"),))


class Replicator:
    """A replicator of one topic, driven step by step, with a clock that stands still."""

    def __init__(self, journals: CaseJournals, *, log: Any = None) -> None:
        self.clock, self.rounds, self.stopping = ManualClock(), list[RoundOutcome](), threading.Event()
        rounds = Rounds(
            log or journals.log,
            journals.store,
            address=StoreAddress(folder=Path("nowhere")),  # of Spark's tasks; these rounds need none
            spark=SparkSettings(master="local[1]"),
            small=_HERE,
            clock=self.clock,
            stopping=self.stopping,
        )
        self.loop = ReplicatorLoop(
            log or journals.log,
            journals.store,
            rounds,
            Discovery(log or journals.log, (journals.topic.name,)),
            clock=self.clock,
            random=Random(1),
            copied=self.rounds.append,
            stopping=self.stopping,
        )

    def catch_up(self) -> bool:
        return self.loop.catch_up()

    def close(self) -> None:
        self.loop.close()


def _pointers(journals: CaseJournals) -> list[int]:
    return [journals.copy(number).pointer().offset for number in range(journals.topic.partitions)]


def _ids(journals: CaseJournals) -> tuple[str, str]:
    """An id of each of the two partitions."""
    ids: dict[int, str] = {}
    for number in range(100):
        ids.setdefault(journals.place(f"id-{number}"), f"id-{number}")
    return ids[0], ids[1]


def _topic(journals: CaseJournals) -> JournalTopic:
    return JournalTopic(journals.topic.name, journals.topic.partitions, journals.topic.generation)


class JournalReplicatorCases(JournalCasesGround):
    def test_42_two_partitions_in_one_round(self, make: MakeJournals) -> None:
        journals = make(partitions=2)
        first, second = _ids(journals)
        for number in range(1, 5):
            journals.append(first, number)
            journals.append(second, number)
        replicator = Replicator(journals)
        assert replicator.catch_up()
        replicator.close()
        assert [(copy_round.records, copy_round.engine) for copy_round in replicator.rounds] == [(8, "here")]
        assert _pointers(journals) == [3, 3]
        assert journals.state(first) == journals.state(second) == (4, None, [1, 2, 3, 4])

    def test_43_one_record_a_round_leaves_the_same(self, make: MakeJournals) -> None:
        journals, other = make(partitions=2), make(partitions=2)
        replicator = Replicator(journals)
        first, second = _ids(journals)
        for number in range(1, 5):
            for place, id in enumerate((first, second)):
                for target in (journals, other):
                    target.raw(raw_append(id, number, timestamp=number), partition=place)
                assert replicator.catch_up()
                assert _pointers(journals)[place] == number - 1
        replicator.close()
        assert [copy_round.records for copy_round in replicator.rounds] == [1] * 8
        once = Replicator(other)
        assert once.catch_up()
        once.close()
        for id in (first, second):
            assert journals.state(id) == other.state(id)

    def test_44_marks_move_the_pointer(self, journals: CaseJournals) -> None:
        journals.raw(raw_mark("a"), raw_mark("b"), raw_mark("a"))
        replicator = Replicator(journals)
        assert replicator.catch_up()
        replicator.close()
        assert [copy_round.records for copy_round in replicator.rounds] == [journals.end()]
        assert _pointers(journals) == [journals.end() - 1]
        assert journals.head("a") is None

    def test_45_what_is_copied_is_passed_over(self, single: CaseJournals) -> None:
        for number in range(1, 5):
            single.append("a", number)
        single.replicate(2)
        replicator = Replicator(single)
        assert replicator.catch_up()
        assert [copy_round.records for copy_round in replicator.rounds] == [2]
        assert replicator.catch_up()
        replicator.close()
        assert [copy_round.records for copy_round in replicator.rounds] == [2]
        assert single.state("a") == (4, None, [1, 2, 3, 4])

    def test_53_after_an_error_of_the_log_it_goes_on(self, single: CaseJournals) -> None:
        single.append("a", 1)
        failing = _FailingLog(single.log)
        replicator = Replicator(single, log=failing)
        assert replicator.catch_up()
        single.append("a", 2)
        failing.fails = True
        assert not replicator.catch_up()
        assert single.state("a") == (1, None, [1])
        status = replicator.loop.status()
        assert [partition.problem.code for partition in status.partitions if partition.problem] == ["unreachable"]
        failing.fails = False
        replicator.clock.advance(60)
        assert replicator.catch_up()
        replicator.close()
        assert single.state("a") == (2, None, [1, 2])

    def test_54_a_record_that_cannot_be_read_stops_its_partition_alone(self, make: MakeJournals) -> None:
        journals = make(partitions=2)
        first, second = _ids(journals)
        for place, id in enumerate((first, second)):
            journals.raw(raw_append(id, 1), raw_append(f"{id}x", 1), partition=place)
        journals.raw(_POISON, partition=0)
        for place, id in enumerate((first, second)):
            journals.raw(raw_append(id, 2), partition=place)
        replicator = Replicator(journals)
        assert not replicator.catch_up()
        assert _pointers(journals) == [1, 2]  # what lies before it is applied, what lies behind it waits
        assert journals.stored(first) == [1]
        assert journals.stored(second) == [1, 2]
        [dead] = dead_records(journals.log, journals.store, _topic(journals))
        assert (dead.partition, dead.offset, dead.quarantined) == (0, 2, False)
        assert [row.seq_nr for row in journals.rows(first)] == [1, 2]  # readers of other journals wait for nothing
        quarantine(journals.log, _topic(journals), 0, 2, why="a test")
        assert replicator.catch_up()
        replicator.close()
        assert _pointers(journals) == [3, 2]
        assert journals.stored(first) == [1, 2]

    def test_54_readers_of_an_unreadable_record_are_told(self, single: CaseJournals) -> None:
        single.append("a", 1)
        single.append("b", 1)
        single.raw(_POISON)
        single.replicate()
        with pytest.raises(UnreadableRecord, match="cannot be decoded"):
            single.rows("a")
        assert [row.seq_nr for row in single.rows("b")] == [1]

    def test_58_dates_of_expiry_are_those_of_utc(self) -> None:
        at = 1_576_059_010_000  # 2019-12-11T10:10:10Z
        assert Expiry(86_400_000, at).on == date(2019, 12, 12)
        assert Expiry(60_000, at).on == date(2019, 12, 11)
        assert Expiry(None, at).on is None

    def test_58_a_later_append_moves_the_date_and_one_without_removes_it(self, single: CaseJournals) -> None:
        at = 1_576_059_010_000
        single.raw(raw_append("a", 1, expire_after=86_400_000, timestamp=at))
        single.replicate()
        head = single.head("a")
        assert head is not None
        assert head.expire_on == date(2019, 12, 12)
        single.raw(raw_append("a", 2, expire_after=86_400_000, timestamp=at + 86_400_000))
        single.replicate()
        head = single.head("a")
        assert head is not None
        assert head.expire_on == date(2019, 12, 13)
        single.raw(raw_append("a", 3, timestamp=at))
        single.replicate()
        head = single.head("a")
        assert head is not None
        assert (head.expire_on, head.expire_after) == (None, None)

    def test_59_one_replicator_works_and_another_waits_for_it(self, tmp_path: Path) -> None:
        first, second = LocalReplicatorLock(tmp_path / "lock"), LocalReplicatorLock(tmp_path / "lock")
        assert first.take()
        assert first.take()
        assert not second.take()
        first.release()
        assert second.take()
        assert first.lost
        assert not first.take()
        second.release()

    def test_59_two_that_work_at_once_do_no_harm(self, single: CaseJournals) -> None:
        replicators = [Replicator(single) for _ in range(2)]
        for number in range(1, 9):
            single.append("a", number)
            assert replicators[number % 2].catch_up()
        assert all(copier.catch_up() for copier in replicators)
        for replicator in replicators:
            replicator.close()
        assert single.state("a") == (8, None, list(range(1, 9)))

    def test_55_to_57_a_store_is_made_once_and_keeps_its_settings(self, make: MakeJournals) -> None:
        journals = make()
        journals.append("a", 1)
        journals.replicate()
        again = make().store  # on the same place: nothing is made anew
        assert journals.topic.name in again.topics()
        key = f"test/{journals.topic.name}"
        assert again.setting(key) is None
        assert again.set_setting(key, "one") is None
        assert journals.store.set_setting(key, "two") == "one"
        assert again.setting(key) == "two"
        assert again.set_setting(key, None) == "two"
        assert again.set_setting(key, None) is None


class _FailingLog:
    """A log that cannot be reached while `fails` is set."""

    def __init__(self, log: Any) -> None:
        self._log, self.fails = log, False

    def __getattr__(self, name: str) -> Any:
        if self.fails and name in ("read", "scan"):
            raise Unreachable("The log does not answer.", hint="Wait.")
        return getattr(self._log, name)
