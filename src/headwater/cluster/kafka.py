"""Ownership by Kafka's consumer group: the member to which the group assigns a partition may claim it. Rebalancing is cooperative: members
go on with the partitions that they keep.

A member's client id names its process and address, so that a description of the group names the owner. The consumer reads no records.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headwater.cluster import OwnedPartition, Ownership, PartitionOwner, lost_to_another, not_owner
from headwater.cluster.group_description import GroupDescription
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, HeadwaterError, Timeout, UnknownTopic
from headwater.core.ids import Ids, random_id
from headwater.log import Log, Writer
from headwater.log.epochs import claimant_of, earliest_offset, marks
from headwater.log.kafka.brokers import Brokers

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

Place = tuple[str, int]
Passing = Callable[[OwnedPartition], None]

_logger = logging.getLogger("headwater.cluster")
_POLL = 0.1
_PAUSE = 0.05
_REMEMBERED = 1.0  # seconds for which the members of the group are remembered, for refusals alone
_MARK = "headwater"


class KafkaOwned(OwnedPartition):
    """Owned until the group assigns it to another member, or another process takes over."""

    def __init__(self, ownership: KafkaOwnership, writer: Writer, *, part: str, claimant: str, generation: str) -> None:
        """`claimant`: the id under which it has claimed the partition. `generation`: of the topic."""
        self.topic, self.partition, self.writer, self.generation = writer.topic, writer.partition, writer, generation
        self.part, self.claimant, self._ownership, self.gone = part, claimant, ownership, False

    @property
    def lost(self) -> bool:
        return self.gone

    def overtaken(self) -> bool:
        return self.gone or self._ownership.is_overtaken(self)

    def renew(self) -> Writer:
        return self._ownership.renew(self)

    def release(self) -> None:
        self._ownership.release(self)


class KafkaOwnership(Ownership):
    """One member of the group `group`. It subscribes to a topic with the first `own` of one of its partitions.

    Calls `passing` with a partition before it moves to another member, which waits until `passing` returns: finish the calls
    under way there.
    `session`: seconds after which the group removes a dead or hanging member. A member that releases its last partition of a topic
    unsubscribes from it. So does one that was refused its first, unless it serves at an address and the topic has several partitions: the
    group then gives it some of them. One that `stays` remains a member whatever it was refused: it asks again until it owns something, and
    each time that it left and came back the whole group would rebalance. After `take_over` the group names the previous owner until that
    one is fenced and releases the partition.
    """

    def __init__(
        self,
        log: Log,
        *,
        group: str = "headwater-owners",
        address: str = "",
        stays: bool = False,
        passing: Passing | None = None,
        clock: Clock | None = None,
        ids: Ids = random_id,
        session: float = 10.0,
        timeout: float = 30.0,
    ) -> None:
        self._log, self._group, self._passing, self._timeout = log, group, passing, timeout
        self._clock, self._address, self._stays = clock or SystemClock(), address, stays
        self._brokers = Brokers(log.address.servers, client=log.address.client, clock=self._clock, timeout=timeout)
        self._name = "|".join((_MARK, socket.gethostname(), str(os.getpid()), address, ids()))
        kafka, patience = self._brokers.kafka, self._brokers.patience
        self._members = GroupDescription(self._brokers.admin(hangs=2 * patience), group, kafka=kafka, patience=patience)
        self._session, self._ids = session, ids
        self._consumer = self._brokers.member(group=group, name=self._name, session=session)
        self._changed = threading.Condition()
        self._wanted: set[str] = set()
        self._asking: Counter[str] = Counter()  # the calls of `own` under way
        self._leaving: set[str] = set()  # topics that the group has to take away before this member may want them again
        self._given: set[Place] = set()
        self._remembered: tuple[float, dict[Place, str]] = 0.0, {}  # until when, and the member that has each partition
        self._owned: dict[Place, KafkaOwned] = {}
        self._closed, self._pid, self._never = False, os.getpid(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"owners-{group}", daemon=True)
        self._thread.start()

    # -- owning -----------------------------------------------------------------------------------------------

    def own(self, topic: str, partition: int, *, take_over: bool = False, part: str = "") -> KafkaOwned:
        self._check()
        self._log.bounds(topic, partition)
        place, claimant = (topic, partition), self._ids()
        with self._changed:
            if place in self._owned:
                return self._owned[place]
            self._wanted.add(topic)  # 1. the thread subscribes to the topic
            self._asking[topic] += 1
        try:
            if not take_over:
                self._wait_until_given(place)  # 2. the group assigns the partition
            generation = self._log.topic(topic).generation
            writer = self._log.claim(topic, partition, part=part, claimant=claimant)  # 3. fence the previous owner
            with self._changed:
                self._check()
                if not take_over and place not in self._given:
                    raise not_owner(topic, partition, None)  # 4. the group has assigned it to another member, whose claim will be newer
                owned = KafkaOwned(self, writer, part=part, claimant=claimant, generation=generation)
                return self._owned.setdefault(place, owned)
        finally:
            with self._changed:
                self._asking[topic] -= 1
            if not self._shares(topic):
                self._leave(topic)  # the group must not keep the partition for a member that has not got it

    def _shares(self, topic: str) -> bool:
        """Whether a member that was refused stays: the group gives it some of the partitions, and others find it there."""
        return self._stays or (bool(self._address) and self._partitions(topic) > 1)

    def _partitions(self, topic: str) -> int:
        try:
            return self._log.topic(topic).partitions
        except HeadwaterError:  # such as for one that was deleted meanwhile
            return 0

    def _wait_until_given(self, place: Place) -> None:
        deadline = self._clock.monotonic() + self._timeout
        while True:
            with self._changed:
                self._check()
                if place in self._given:
                    return
            member = self._remembered_holder(place) or self._holder(place)
            if member is not None and member != self._name:
                refused = not_owner(*place, _owner(member))
                refused.hint += f" If it has died, try again: the group gives away what it had within {self._session:g} s."
                raise refused
            if self._clock.monotonic() >= deadline:
                raise Timeout(
                    f"The group {self._group} has assigned {place[0]}/{place[1]} to no member for {self._timeout:g} s.",
                    hint="Its members may change all the time: look at the brokers' logs.",
                )
            self._clock.wait(self._never, _PAUSE)

    def owner(self, topic: str, partition: int) -> PartitionOwner | None:
        self._check()
        self._log.bounds(topic, partition)
        member = self._holder((topic, partition))
        return None if member is None else _owner(member)

    def unowned(self, places: Sequence[Place]) -> list[Place]:
        """As `Ownership.unowned`, with one question to the brokers for all."""
        self._check()
        holders = self._holders()
        return [place for place in places if place not in holders]

    def forget_owner(self, address: str) -> None:
        with self._changed:
            if any(_owner(member).address == address for member in self._remembered[1].values()):
                self._remembered = 0.0, {}

    def renew(self, owned: KafkaOwned) -> Writer:
        """`KafkaOwned.renew`. An owner that took over from a living one is not the group's: only its claim, if it is the newest, counts."""
        if owned.gone or not self._is_newest(owned):
            raise lost_to_another(owned.topic, owned.partition)
        owned.writer = self._log.claim(owned.topic, owned.partition, part=owned.part, claimant=owned.claimant)
        if owned.gone:
            raise lost_to_another(owned.topic, owned.partition)
        return owned.writer

    def is_overtaken(self, owned: KafkaOwned) -> bool:
        """`KafkaOwned.overtaken`. The last record has the epoch of the newest owner, or of one that is fenced: only a higher one than this
        owner's is looked into, which reads what was written since the last look."""
        try:
            if self._log.topic(owned.topic).generation != owned.generation:
                return True
            bounds = self._log.bounds(owned.topic, owned.partition)
            last = self._log.read(owned.topic, owned.partition, max(bounds.start, bounds.end - 1), limit=1)
            newest = max((epoch or 0 for record in last for epoch in marks(record.headers)), default=0)
            return newest > owned.writer.epoch and not self._is_newest(owned)
        except UnknownTopic:
            return True
        except HeadwaterError:  # brokers that do not answer prove nothing
            return False

    def _is_newest(self, owned: KafkaOwned) -> bool:
        """Whether the newest claim is this owner's: that of its writer, or one of an earlier `renew` that failed after it had arrived.

        The epoch of such a claim proves nothing: another process that has seen the same end claims with the same one, and the first wins.
        """
        epoch = self._log.epoch(owned.topic, owned.partition)
        if epoch == owned.writer.epoch:
            return True
        at = max(earliest_offset(epoch), self._log.bounds(owned.topic, owned.partition).start)
        while records := self._log.read(owned.topic, owned.partition, at):
            if (claimant := claimant_of(records, epoch)) is not None:
                return claimant == owned.claimant
            at = (records[-1].offset or 0) + 1
        return False

    def release(self, owned: KafkaOwned) -> None:
        """`KafkaOwned.release`. One that another process has taken over is left to the group, which still assigns it to this member:
        wanted again at once, it would be taken back from its new owner."""
        taken = not owned.gone and self._is_taken(owned)
        with self._changed:
            place = (owned.topic, owned.partition)
            owned.gone = True
            if self._owned.get(place) is owned:
                del self._owned[place]
                self._leave(owned.topic)
                if taken and not self._has(owned.topic):
                    self._leaving.add(owned.topic)
                    self._given = {assigned for assigned in self._given if assigned[0] != owned.topic}

    def _is_taken(self, owned: KafkaOwned) -> bool:
        try:
            return not self._is_newest(owned)
        except HeadwaterError:  # whoever owns it, the next claim decides
            return False

    def _leave(self, topic: str) -> None:
        """Unsubscribe from a topic of which nothing is owned, and nothing asked for."""
        with self._changed:
            if not self._has(topic) and not self._asking[topic]:
                del self._asking[topic]
                self._wanted.discard(topic)

    def _has(self, topic: str) -> bool:
        return any(owned_topic == topic for owned_topic, _ in self._owned)

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
        if os.getpid() == self._pid:
            self._thread.join()

    # -- the group --------------------------------------------------------------------------------------------

    def _holder(self, place: Place) -> str | None:
        """The client id of the member that has the partition; None while the group has not decided."""
        return self._holders().get(place)

    def _holders(self) -> dict[Place, str]:
        """The client id of the member that has each partition, as the group has decided."""
        description = self._brokers.ask(f"looking at the group {self._group}", self._members.now)
        holders = {
            (partition.topic, partition.partition): str(member.client_id)
            for member in description.members
            for partition in member.assignment.topic_partitions
        }
        with self._changed:
            self._remembered = self._clock.monotonic() + _REMEMBERED, holders
        return holders

    def _remembered_holder(self, place: Place) -> str | None:
        """The other member that had the partition a moment ago: a server is asked for what it does not own with every write that it gets,
        and the brokers must not be. One that is wrong says so, and who asks it forgets it."""
        with self._changed:
            until, holders = self._remembered
            member = holders.get(place)
            return member if member != self._name and self._clock.monotonic() < until else None

    def _run(self) -> None:
        """The only thread that uses the consumer. A rebalance calls `_assigned`, `_revoked` and `_lost` inside `poll`, which raises what
        they raise. The thread ends with `close` alone: without it, the group would give this member's partitions away unasked."""
        subscribed: set[str] = set()
        try:
            while (wanted := self._now_wanted(subscribed)) is not None:
                try:
                    if wanted != subscribed:
                        self._ask_for(wanted)
                        subscribed = wanted
                    self._consumer.poll(_POLL)  # for the group alone: all partitions are paused, and errors are not of interest
                except Exception:
                    _logger.exception("The group %s was not looked after; it is tried again.", self._group)
                    self._clock.wait(self._never, _POLL)
            self._consumer.close()  # revokes all partitions and leaves the group at once
        finally:
            self._take_away([*self._given, *self._owned], pass_on=False)

    def _now_wanted(self, subscribed: set[str]) -> set[str] | None:
        """The topics to subscribe to; None once this is closed."""
        with self._changed:
            assigned = {partition.topic for partition in self._consumer.assignment()} if self._leaving else set()
            self._leaving &= subscribed | assigned
            return None if self._closed else self._wanted - self._leaving

    def _ask_for(self, wanted: set[str]) -> None:
        if wanted:
            self._consumer.subscribe(sorted(wanted), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        else:
            self._consumer.unsubscribe()

    def _assigned(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = self._brokers.kafka.OFFSET_END
        consumer.incremental_assign(list(partitions))
        if partitions:
            consumer.pause(list(partitions))
        with self._changed:
            self._remembered = 0.0, {}
            self._given |= {(partition.topic, partition.partition) for partition in partitions}
            self._changed.notify_all()

    def _revoked(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        try:
            self._take_away([(partition.topic, partition.partition) for partition in partitions], pass_on=True)
        finally:
            consumer.incremental_unassign(list(partitions))

    def _lost(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        """The group has removed this member: others may own these already."""
        try:
            self._take_away([(partition.topic, partition.partition) for partition in partitions], pass_on=False)
        finally:
            consumer.incremental_unassign(list(partitions))

    def _take_away(self, places: Sequence[Place], *, pass_on: bool) -> None:
        with self._changed:
            self._remembered = 0.0, {}
            self._given -= set(places)
            owned = [self._owned.pop(place) for place in places if place in self._owned]
        for partition in owned:
            try:
                if pass_on and self._passing is not None:
                    self._passing(partition)
            except Exception:  # it is given away all the same, and the others have to be passed on
                _logger.exception("What is under way in %s/%s was not ended before it is given away.", partition.topic, partition.partition)
            finally:
                partition.gone = True

    def _check(self) -> None:
        if self._closed or os.getpid() != self._pid:
            raise Closed("This ownership is not open in this process.", hint="Open it again.")


def _owner(member: str) -> PartitionOwner:
    """The process that a client id names; for a foreign member, its client id."""
    parts = member.split("|")
    if len(parts) != 5 or parts[0] != _MARK or not parts[2].isdecimal():
        return PartitionOwner(host=f"an unknown machine, a client named {member!r}", pid=0)
    return PartitionOwner(host=parts[1], pid=int(parts[2]), address=parts[3])
