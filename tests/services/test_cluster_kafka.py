"""Owners on a real Kafka: one that is killed, one that stands still, and partitions that move to a new member."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from headwater.cluster import OwnedPartition
from headwater.cluster.kafka import KafkaOwnership
from headwater.core.clock import SystemClock
from headwater.core.errors import Fenced, NotOwner, Timeout
from headwater.log import Record
from headwater.log.epochs import Epochs
from headwater.log.kafka.log import KafkaLog
from headwater.log.kafka.partition import KafkaPartition
from headwater.log.kafka.writer import KafkaWriter
from headwater.testing.cluster_contract import owned_by, until
from headwater.testing.log_ground import counted, fresh

pytestmark = pytest.mark.service("kafka")

OWNER = """
import sys
from headwater.cluster.kafka import KafkaOwnership
from headwater.log import Record
from headwater.log.kafka.log import KafkaLog
from headwater.log.kafka.partition import KafkaPartition
from headwater.log.kafka.writer import KafkaWriter

servers, topic, group = sys.argv[1:]
owned = KafkaOwnership(KafkaLog(servers), group=group, address="http://other:1", session=6.0).own(topic, 0)
number = 0
while True:
    owned.writer.append([Record(b"other", b"%d" % number)])
    print(number, flush=True)
    number += 1
    sys.stdin.readline()
"""


@pytest.fixture
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as log:
        yield log


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_partition_of_one_that_is_not_heard_of_goes_to_another_and_its_writes_do_not_count(log: KafkaLog, kafka: str, how: str) -> None:
    topic, group = log.create_topic(fresh("owned")).name, fresh("owners")
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, kafka, topic, group], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    with KafkaOwnership(log, group=group, session=6.0) as here:
        with pytest.raises(NotOwner, match="http://other:1"):
            here.own(topic, 0)
        process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        owned = owned_by(here, topic)
        owned.writer.append([Record(b"here", b"x")])
        if how == "stopped":
            process.send_signal(signal.SIGCONT)
            out, errors = process.communicate("\n", timeout=120)
            assert (out, "Fenced" in errors) == ("", True)
        process.wait()
        owned.writer.append([Record(b"here", b"y")])
    assert [record.value for record in counted(log, topic, epochs=Epochs())] == [b"0", b"x", b"y"]


def test_partitions_move_to_a_new_member_after_they_were_passed_on_and_the_others_stay(log: KafkaLog) -> None:
    topic, group = log.create_topic(fresh("owned"), partitions=4).name, fresh("owners")
    passed: list[OwnedPartition] = []

    def passing(owned: OwnedPartition) -> None:
        owned.writer.append([Record(b"k", b"last words")])  # still the owner
        passed.append(owned)

    with KafkaOwnership(log, group=group, address="http://one", passing=passing, session=6.0) as one:
        owned = [one.own(topic, number) for number in range(4)]
        with KafkaOwnership(log, group=group, address="http://two", session=6.0) as two:
            with pytest.raises(NotOwner):
                two.own(topic, 0)
            moved = {number for number in range(4) if until(lambda number=number: two.owner(topic, number))}
            assert moved == {0, 1, 2, 3}
            while len(passed) < 2:
                one.owner(topic, 0)
            gone = {partition.partition for partition in passed}
            for number in gone:
                until(lambda number=number: one.owner(topic, number), lambda owner: owner.address == "http://two")
                two.own(topic, number).writer.append([Record(b"k", b"two")])
                with pytest.raises(Fenced):
                    owned[number].writer.append([Record(b"k", b"late")])
            for number in {0, 1, 2, 3} - gone:
                owned[number].writer.append([Record(b"k", b"one")])
            assert [partition.lost for partition in owned] == [number in gone for number in range(4)]


def test_one_that_fails_to_pass_a_partition_on_goes_on_with_the_others(log: KafkaLog) -> None:
    topic, group = log.create_topic(fresh("owned"), partitions=4).name, fresh("owners")
    asked: list[int] = []

    def passing(owned: OwnedPartition) -> None:
        asked.append(owned.partition)
        raise Fenced("The last snapshot was refused.", hint="")

    with KafkaOwnership(log, group=group, address="http://one", passing=passing, session=6.0) as one:
        owned = [one.own(topic, number) for number in range(4)]
        with KafkaOwnership(log, group=group, address="http://two", session=6.0) as two:
            with pytest.raises(NotOwner):
                two.own(topic, 0)
            while len(asked) < 2:
                one.owner(topic, 0)
            for number in asked:
                until(lambda number=number: one.owner(topic, number), lambda owner: owner.address == "http://two")
                two.own(topic, number).writer.append([Record(b"k", b"two")])
                assert owned[number].lost
            for number in {0, 1, 2, 3} - set(asked):
                owned[number].writer.append([Record(b"k", b"one")])
        for number in asked:  # it is still a member of the group
            until(lambda number=number: one.owner(topic, number), lambda owner: owner.address == "http://one")
            one.own(topic, number).writer.append([Record(b"k", b"one")])


def test_one_that_was_refused_is_given_nothing_when_the_owner_lets_go(log: KafkaLog) -> None:
    topic, group = log.create_topic(fresh("owned")).name, fresh("owners")
    with (
        KafkaOwnership(log, group=group, session=6.0) as first,
        KafkaOwnership(log, group=group, session=6.0) as refused,
        KafkaOwnership(log, group=group, session=6.0) as third,
    ):
        owned = first.own(topic, 0)
        for _ in range(2):
            with pytest.raises(NotOwner):
                refused.own(topic, 0)
        assert refused._wanted == set()
        owned.release()
        owned_by(third, topic).writer.append([Record(b"k", b"third")])
        with pytest.raises(NotOwner):
            refused.own(topic, 0)


def test_one_that_stays_is_given_what_the_owner_lets_go(log: KafkaLog) -> None:
    topic, group = log.create_topic(fresh("owned")).name, fresh("owners")
    with KafkaOwnership(log, group=group, session=6.0) as first, KafkaOwnership(log, group=group, stays=True, session=6.0) as standby:
        first.own(topic, 0)
        for _ in range(2):
            with pytest.raises(NotOwner):
                standby.own(topic, 0)
        assert standby._wanted == {topic}
        first.close()
        owned_by(standby, topic).writer.append([Record(b"k", b"standby")])


@pytest.mark.parametrize("arrives", [True, False])
def test_a_claim_of_unknown_outcome_does_not_fence_its_own_owner(log: KafkaLog, monkeypatch: pytest.MonkeyPatch, arrives: bool) -> None:
    topic, group = log.create_topic(fresh("owned")).name, fresh("owners")
    with KafkaOwnership(log, group=group, session=6.0) as here:
        owned = owned_by(here, topic)
        owned.writer.append([Record(b"k", b"a")])
        with monkeypatch.context() as patch:
            fail(patch, arrives=arrives)
            for _ in range(2):
                with pytest.raises(Timeout):
                    owned.renew()
        owned.renew().append([Record(b"k", b"b")])
    assert [record.value for record in counted(log, topic, epochs=Epochs())] == [b"a", b"b"]


@pytest.mark.parametrize("arrives", [True, False])
def test_one_who_took_over_after_a_claim_of_unknown_outcome_keeps_the_partition(
    log: KafkaLog, kafka: str, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    """Where the claim has not arrived, the other one's has the same epoch: both saw the same end."""
    topic, group = log.create_topic(fresh("owned")).name, fresh("owners")
    with KafkaOwnership(log, group=group, session=6.0) as here, KafkaLog(kafka) as there, KafkaOwnership(there, group=group) as other:
        owned = owned_by(here, topic)
        owned.writer.append([Record(b"k", b"a")])
        with monkeypatch.context() as patch:
            fail(patch, arrives=arrives)
            with pytest.raises(Timeout):
                owned.renew()
        taken = other.own(topic, 0, take_over=True)
        with pytest.raises(Fenced):
            owned.renew()
        taken.writer.append([Record(b"k", b"b")])


def test_one_who_was_taken_over_from_does_not_take_it_back_at_once(log: KafkaLog, kafka: str) -> None:
    """The group still assigns the partition to the former owner. It must leave the group's list before it may want the partition again."""
    topic, group = log.create_topic(fresh("owned")).name, fresh("owners")
    with KafkaOwnership(log, group=group, session=6.0) as here, KafkaLog(kafka) as there, KafkaOwnership(there, group=group) as other:
        owned = owned_by(here, topic)
        taken = other.own(topic, 0, take_over=True)
        with pytest.raises(Fenced):
            owned.writer.append([Record(b"k", b"late")])
        owned.release()
        with pytest.raises(NotOwner):
            here.own(topic, 0)
        taken.writer.append([Record(b"k", b"a")])
        taken.release()
        again = owned_by(here, topic)
        again.writer.append([Record(b"k", b"b")])


def fail(patch: pytest.MonkeyPatch, *, arrives: bool) -> None:
    """No claim is known to be there: its record arrives, or not."""

    def late(*_: object) -> None:
        raise Timeout("The brokers do not answer.")

    patch.setattr(KafkaWriter if arrives else KafkaPartition, "_see" if arrives else "send", late)


class StandingClock(SystemClock):
    """The machine's time, until it stands."""

    at: float | None = None

    def monotonic(self) -> float:
        return super().monotonic() if self.at is None else self.at


def test_a_partition_of_another_member_is_refused_without_asking_the_brokers_each_time(log: KafkaLog) -> None:
    """Until a moment has passed, that one was not the owner, or the group has changed."""
    topic, group, clock = log.create_topic(fresh("owned"), partitions=2).name, fresh("owners"), StandingClock()
    asked = list[float]()
    with (
        KafkaOwnership(log, group=group, address="http://there:1", session=6.0) as there,
        KafkaOwnership(log, group=group, stays=True, session=6.0, clock=clock) as here,
    ):
        owned_by(there, topic)
        mine = None
        for number in itertools.cycle((0, 1)):  # the group gives one of the two away
            with suppress(NotOwner):
                mine = here.own(topic, number).partition
                break
        assert mine is not None
        describe = here._members.now

        def counted_description() -> object:
            asked.append(clock.monotonic())
            return describe()

        here._members.now = counted_description  # type: ignore[assignment,method-assign]

        def refused(times: int) -> int:
            before = len(asked)
            for _ in range(times):
                with pytest.raises(NotOwner, match="http://there:1"):
                    here.own(topic, 1 - mine)
            return len(asked) - before

        clock.at = clock.monotonic()
        assert refused(1) == 1
        assert refused(50) == 0
        here.forget_owner("http://elsewhere:1")
        assert refused(5) == 0
        here.forget_owner("http://there:1")
        assert refused(5) == 1
        clock.at += 2
        assert refused(5) == 1
        clock.at = None
        there.close()
        owned_by(here, topic)
