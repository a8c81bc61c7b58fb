"""Everything that `headwater.cluster.Ownership` promises, as tests that any way of owning can be held to."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headwater.cluster import OwnedPartition, Ownership, PartitionOwner
from headwater.core.errors import Closed, Fenced, NotOwner, OwnedTopic, UnknownPartition, UnknownTopic
from headwater.log import Log, Record
from headwater.log.epochs import Epochs
from headwater.testing.log_ground import PATIENCE, counted, fresh, numbered

Join = Callable[[str], Ownership]


class OwnershipContract:
    """Subclass it, and give the fixtures `log` and `join`: a function that makes one more Ownership over the log for an address."""

    @pytest.fixture
    def log(self) -> Log:
        raise NotImplementedError("Give a fixture `log`.")

    @pytest.fixture
    def join(self, log: Log) -> Join:
        raise NotImplementedError("Give a fixture `join` that returns a function from an address to an Ownership.")

    @pytest.fixture
    def another(self, join: Join) -> Iterator[Join]:
        """One more member; all are closed afterwards."""
        with ExitStack() as opened:
            yield lambda address: opened.enter_context(join(address))

    @pytest.fixture
    def topic(self, log: Log) -> str:
        return log.create_topic(fresh("owned")).name

    # -- one owner --------------------------------------------------------------------------------------------

    def test_the_owner_writes_and_the_others_learn_where_it_is(self, another: Join, topic: str) -> None:
        member, other = another("http://one:1"), another("http://two:2")
        assert other.owner(topic, 0) is None
        assert other.unowned([(topic, 0)]) == [(topic, 0)]
        owned = member.own(topic, 0)
        assert list(owned.writer.append(numbered(2)))
        assert not owned.lost
        owner = until(lambda: other.owner(topic, 0))
        assert (owner.host, owner.pid, owner.address) == (socket.gethostname(), os.getpid(), "http://one:1")
        assert owner.epoch in (0, owned.writer.epoch)
        assert other.unowned([(topic, 0)]) == member.unowned([(topic, 0)]) == []

    def test_while_the_owner_lives_another_is_sent_to_it_and_fences_nobody(self, another: Join, topic: str) -> None:
        member, other = another("http://one:1"), another("http://two:2")
        owned = member.own(topic, 0)
        for _ in range(3):
            with pytest.raises(NotOwner, match="http://one:1") as caught:
                other.own(topic, 0)
            assert caught.value.address == "http://one:1"
            owned.writer.append(numbered(1))
        assert not owned.lost

    def test_an_owner_without_an_address_is_named(self, another: Join, topic: str) -> None:
        member, other = another(""), another("")
        member.own(topic, 0)
        with pytest.raises(NotOwner, match=f"process {os.getpid()} on") as caught:
            other.own(topic, 0)
        assert caught.value.address == ""
        assert "Stop" in caught.value.hint

    def test_what_is_owned_is_given_again(self, another: Join, topic: str) -> None:
        member = another("")
        owned = member.own(topic, 0)
        assert member.own(topic, 0) is owned
        owned.writer.append(numbered(1))

    # -- passing it on ----------------------------------------------------------------------------------------

    def test_what_is_released_can_be_owned_by_another(self, log: Log, another: Join, topic: str) -> None:
        member, other = another("http://one:1"), another("http://two:2")
        with member.own(topic, 0) as first:
            first.writer.append([Record(b"k", b"1")])
        first.release()
        assert first.lost
        second = owned_by(other, topic)
        second.writer.append([Record(b"k", b"2")])
        with pytest.raises(Fenced):
            first.writer.append([Record(b"k", b"3")])
        assert [record.value for record in counted(log, topic, epochs=Epochs())] == [b"1", b"2"]
        assert until(lambda: member.owner(topic, 0)).address == "http://two:2"

    def test_what_a_member_owned_that_left_can_be_owned_by_another(self, another: Join, topic: str) -> None:
        member, other = another("http://one:1"), another("http://two:2")
        member.own(topic, 0)
        member.close()
        member.close()
        owned_by(other, topic).writer.append(numbered(1))
        with pytest.raises(Closed):
            member.own(topic, 0)

    def test_a_living_owner_is_replaced_only_by_taking_over_and_is_fenced(self, log: Log, another: Join, topic: str) -> None:
        member, other = another("http://one:1"), another("http://two:2")
        first = member.own(topic, 0)
        first.writer.append([Record(b"k", b"1")])
        second = other.own(topic, 0, take_over=True)
        assert second.writer.epoch > first.writer.epoch
        with pytest.raises(Fenced):
            first.writer.append([Record(b"k", b"2")])
        second.writer.append([Record(b"k", b"3")])
        first.release()  # what another has taken is not released by this
        second.writer.append([Record(b"k", b"4")])
        assert [record.value for record in counted(log, topic, epochs=Epochs())] == [b"1", b"3", b"4"]
        assert until(lambda: member.owner(topic, 0), lambda owner: owner.address == "http://two:2")
        with pytest.raises(NotOwner, match="http://two:2"):
            member.own(topic, 0)

    def test_an_owner_that_was_fenced_owns_again_with_a_new_claim(self, log: Log, another: Join, topic: str) -> None:
        member = another("")
        owned = member.own(topic, 0)
        log.claim(topic, 0)  # by an operator, or by a process that died right after it
        with pytest.raises(Fenced):
            owned.writer.append(numbered(1))
        owned.release()
        again = owned_by(member, topic)
        assert again is not owned
        again.writer.append(numbered(1))

    def test_an_owner_claims_again_after_a_write_of_unknown_outcome(self, log: Log, another: Join, topic: str) -> None:
        member = another("")
        owned = member.own(topic, 0)
        first = owned.writer
        renewed = owned.renew()
        assert renewed is owned.writer
        assert renewed.epoch > first.epoch
        with pytest.raises(Fenced):
            first.append(numbered(1))
        renewed.append(numbered(1))
        assert member.own(topic, 0) is owned
        assert not owned.lost

    def test_an_owner_that_has_lost_its_partition_fences_nobody_by_claiming_again(self, another: Join, topic: str) -> None:
        member, other = another("http://one:1"), another("http://two:2")
        first = member.own(topic, 0)
        second = other.own(topic, 0, take_over=True)
        with pytest.raises(Fenced):
            first.renew()
        second.writer.append(numbered(1))
        second.release()
        with pytest.raises(Fenced):
            second.renew()

    def test_the_topic_of_a_part_is_owned_by_that_part(self, log: Log, another: Join) -> None:
        topic = log.create_topic(fresh("owned"), part="toy").name
        with pytest.raises(OwnedTopic):
            another("").own(topic, 0)
        owned = owned_by(another(""), topic, part="toy")
        owned.writer.append(numbered(1))
        owned.renew().append(numbered(1))

    # -- what changes nothing ---------------------------------------------------------------------------------

    def test_looking_changes_nothing(self, log: Log, another: Join, topic: str) -> None:
        member, other = another(""), another("")
        before = log.bounds(topic, 0), log.epoch(topic, 0)
        assert [other.owner(topic, 0) for _ in range(3)] == [None] * 3
        assert (log.bounds(topic, 0), log.epoch(topic, 0)) == before
        owned = member.own(topic, 0)
        for _ in range(3):
            other.owner(topic, 0)
        owned.writer.append(numbered(1))

    def test_a_name_that_is_no_topics_is_refused(self, another: Join, topic: str) -> None:
        member = another("")
        for call in (member.own, member.owner):
            with pytest.raises(UnknownTopic):
                call("nowhere", 0)
            with pytest.raises(UnknownPartition):
                call(topic, 7)


def owned_by(ownership: Ownership, topic: str, part: str = "") -> OwnedPartition:
    """Own partition 0 as soon as nobody else does: a group needs a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ownership.own(topic, 0, part=part)
        except NotOwner:
            if time.monotonic() > deadline:
                raise


def until(look: Callable[[], PartitionOwner | None], fits: Callable[[PartitionOwner], bool] = lambda owner: True) -> PartitionOwner:
    """The owner, as soon as there is one that fits."""
    deadline = time.monotonic() + PATIENCE
    while True:
        partition_owner = look()
        if partition_owner is not None and fits(partition_owner):
            return partition_owner
        assert time.monotonic() < deadline, f"the owner is {partition_owner}"
