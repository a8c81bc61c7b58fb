from __future__ import annotations

from typing import NoReturn

import msgspec
import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, ground_at, held

from headwater.core.errors import BadConfig, Unavailable
from headwater.core.settings import LogSettings, Settings, SparkSettings
from headwater.journal.discovery import JournalTopic
from headwater.journal.replicate import SIGN, SMALL, Rounds, copy_in_task, small_of
from headwater.journal.replication_task import PartitionOutcome, PartitionTask
from headwater.journal.settings import JournalSettings
from headwater.spark.lazy import LazySpark
from headwater.spark.ranges import Range
from headwater.spark.small import Place
from headwater.testing.clock import ManualClock


def tasks(topic: JournalTopic, *ends: int) -> list[PartitionTask]:
    return [PartitionTask(topic=topic.name, partition=number, generation=topic.generation, end=end) for number, end in enumerate(ends)]


def test_small_is_what_is_set_or_fits_the_machine() -> None:
    kafka = LogSettings(engine="kafka")
    cluster = SparkSettings(master="spark://host:7077")
    assert small_of(Settings()) == SMALL
    assert small_of(Settings(log=kafka)) == 0
    assert small_of(Settings(spark=cluster)) == 0
    assert small_of(Settings(log=kafka, sections={"journal": JournalSettings(small=7)})) == 7


def test_a_round_here_gives_an_outcome_for_each_partition(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    ground.append(appended("b", 1), partition=1)
    outcome = ground.rounds().run(tasks(topic, 2, 1), Place.HERE, [-1, -1])
    assert (outcome.engine, outcome.records) == ("here", 3)
    assert [one.pointer for one in outcome.partitions] == [1, 0]


def test_while_spark_starts_a_share_is_copied_here(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 11)])
    monkeypatch.setattr("headwater.journal.replicate._MEANWHILE", 4)
    outcome = ground.rounds().run(tasks(topic, 10), Place.MEANWHILE, [-1])
    assert outcome.partitions[0].pointer == 3


def test_few_records_start_no_java(ground: Ground) -> None:
    rounds = ground.rounds(small=10)
    assert rounds.choose(9) is Place.HERE
    assert not rounds.spark_started


def test_a_spark_that_does_not_start_lets_this_process_copy(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ground.clock, ManualClock)

    def absent(self: LazySpark) -> NoReturn:
        raise Unavailable("There is no Java.", hint="Install one.")

    monkeypatch.setattr(LazySpark, "ready", lambda self: True)
    monkeypatch.setattr(LazySpark, "runner", absent)
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 11)])
    rounds = ground.rounds(small=2)
    assert rounds.choose(10) is Place.SPARK
    outcome = rounds.run(tasks(topic, 10), Place.SPARK, [-1])
    assert (outcome.engine, outcome.records) == ("here", 10)
    assert rounds.spark_problem == "There is no Java. Install one."
    assert rounds.choose(10) is Place.MEANWHILE
    ground.clock.advance(100)
    assert rounds.choose(10) is Place.SPARK
    with pytest.raises(Unavailable, match="no Java"):
        ground.rounds(small=0).run(tasks(topic, 10), Place.SPARK, [-1])


def test_where_every_round_is_a_job_the_first_waits_for_spark(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, False, True])
    clock = ManualClock()
    monkeypatch.setattr(LazySpark, "ready", lambda self: next(answers))
    monkeypatch.setattr(clock, "wait", lambda event, seconds: False)
    rounds = Rounds(ground.log, ground.store, address=ground.address, spark=SparkSettings(), small=0, clock=clock)
    assert rounds.choose(1) is Place.SPARK


def test_a_task_opens_the_store_itself_and_copies_the_same(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(*[appended("a", number) for number in range(1, 11)])
    batch = copy_in_task(ground.address, tuple(tasks(topic, 10)), ground.log, Range(TOPIC, 0, 0, 10))
    outcome = msgspec.json.decode(batch.column("result")[0].as_py(), type=PartitionOutcome)
    assert (outcome.pointer, outcome.records) == (9, 10)
    with ground_at(ground.data / "other") as other:
        rounds = Rounds(ground.log, other.store, address=other.address, spark=SparkSettings(), small=1 << 40, clock=ground.clock)
        rounds.run(tasks(topic, 10), Place.HERE, [-1])
        assert held(other.store, topic) == held(ground.store, topic)


def test_a_task_on_a_machine_that_does_not_see_the_store_makes_no_other_one(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1))
    given = tuple(tasks(topic, 1)), ground.log, Range(TOPIC, 0, 0, 1)
    elsewhere = msgspec.structs.replace(ground.address, folder=ground.data / "elsewhere")
    ground.store.set_setting(SIGN, "ours")
    with pytest.raises(BadConfig, match="do not see the store"):
        copy_in_task(elsewhere, *given, seen="ours")
    assert not (ground.data / "elsewhere").exists()
    copy_in_task(ground.address, *given, seen="ours")
    assert ground.pointer() == 0
