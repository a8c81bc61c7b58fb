"""Runs a projection in this process, and shares its partitions with the other processes that run it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from headwater.cluster.shares import PartitionShares
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Differs, Fenced, HeadwaterError, Stopped, Unavailable
from headwater.journal.claims import has_claims
from headwater.journal.control import PART, ControlLog
from headwater.journal.names import control_topic
from headwater.journal.projection import Projection
from headwater.journal.projection_partition import ProjectionPartition
from headwater.journal.projection_records import Keeps, ProjectionLog, ProjectionReport, ProjectionStarted
from headwater.journal.projection_reports import ProgressWriter
from headwater.journal.projection_target import AsyncCalls, HandlerFailed, ProjectionTarget, TargetUnavailable
from headwater.journal.store import JournalStore, PartitionStore
from headwater.journal.target_of import target_of
from headwater.journal.topic_cipher import Keys, TopicCipher
from headwater.log import Log
from headwater.log.record import Topic

_IDLE = 0.25  # seconds between two looks at shares and decisions, where no record comes
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds before a partition is taken again whose target did not answer
_logger = logging.getLogger("headwater.projection")
Shares = Callable[[Topic], PartitionShares]


class ProjectionDone(msgspec.Struct, frozen=True):
    """What a run has done. `events`: how many the handler has had."""

    topic: str
    name: str
    events: int
    dead: int


class ProjectionRun:
    """One process's run of a projection. Blocking: `run` returns after `stop`.

    `store` gives the store of the copies. `shares` gives this process's share of a topic's partitions. `keys`: as of `TopicCipher`. Where
    an event is encrypted and cannot be opened, its partition stands before it.
    """

    def __init__(
        self,
        projection: Projection,
        log: Log,
        topic: Topic,
        *,
        store: Callable[[], JournalStore],
        shares: Shares,
        clock: Clock | None = None,
        keys: Keys = lambda: None,
    ) -> None:
        self._projection, self._log, self._topic, self._store = projection, log, topic, store
        self._shares, self._clock = shares, clock or SystemClock()
        self._cipher = TopicCipher(log, topic, keys, clock=self._clock)
        self._records = ProjectionLog(log, topic.name)
        self._control = ControlLog(log, topic.name)
        self._calls = AsyncCalls()
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._target: ProjectionTarget | None = None
        self._owned: dict[int, ProjectionPartition] = {}
        self._pauses: dict[int, tuple[int, float]] = {}
        self._events, self._unavailable = 0, ""
        self._copies: dict[int, PartitionStore] = {}

    def stop(self) -> None:
        """End soon: the transaction under way is finished. Safe in any thread and in a signal's handler."""
        self._stopping.set()
        self._wake.set()

    def run(self, *, once: bool = False) -> ProjectionDone:
        """Give the handler the events as they come. `once`: up to what the log holds now; then it returns.

        Errors: `BadInput` for a connection of an unknown kind; with `once` also `Stopped` where a partition stands, and `Unavailable` where
        the database does not answer.
        """
        ends = {number: self._log.bounds(self._topic.name, number).end for number in range(self._topic.partitions)}
        with ExitStack() as stack:
            stack.callback(self._calls.close)
            shares = stack.enter_context(self._shares(self._topic))
            stack.callback(self._close)
            for number in range(self._topic.partitions):
                stack.enter_context(self._log.watch(self._topic.name, number, self._wake.set))
            while not self._stopping.is_set():
                self._wake.clear()  # before reading: a record that arrives later ends the wait
                busy = self._turn(shares)
                if once and not busy and self._caught_up(shares, ends):
                    break
                if not busy:
                    self._clock.wait(self._wake, _IDLE)
            for owned in self._owned.values():
                self._released(owned)
            self._records.look()
            report = self._records.report(self._projection.name)
            dead = sum(len(report.partition(number).dead) for number in range(self._topic.partitions))
        return ProjectionDone(self._topic.name, self._projection.name, self._events, dead)

    def _close(self) -> None:
        if self._target is not None:
            self._target.close()

    # -- one turn ---------------------------------------------------------------------------------------------

    def _turn(self, shares: PartitionShares) -> bool:
        """One step of each partition; whether something was done."""
        try:
            self._records.look()
            if self._log.topic(self._topic.name).generation != self._topic.generation:
                raise Differs(f"The topic {self._topic.name} was deleted and created again.", hint="Run the projection again.")
            self._own(shares)
        except (TargetUnavailable, Unavailable) as error:
            self._told(str(error))
            return False
        busy = False
        for number, owned in list(self._owned.items()):
            before = owned.events
            try:
                busy |= owned.step(self._records.report(self._projection.name))
                self._pauses.pop(number, None)
                self._unavailable = ""
            except Fenced:
                del self._owned[number]
                busy = True
            except (TargetUnavailable, HandlerFailed) as error:
                del self._owned[number]  # what is kept there is not known now: it is taken again
                self._pause(number)
                self._told(str(error))
                with suppress(TargetUnavailable):
                    owned.unavailable(str(error))
            finally:
                self._events += owned.events - before
        shares.hold(self._owned)
        return busy

    def _own(self, shares: PartitionShares) -> None:
        """Let go of partitions that others shall have, and take those that this process shall have."""
        assigned = shares.assigned()
        for number in [number for number in self._owned if number not in assigned]:
            self._released(self._owned.pop(number))
        shares.hold(self._owned)
        for number in sorted(assigned.difference(self._owned)):
            if self._clock.monotonic() < self._pauses.get(number, (0, 0.0))[1]:
                continue
            try:
                shares.hold([*self._owned, number])
                self._owned[number] = self._take(number)
            except Fenced:
                continue
            except TargetUnavailable:
                self._pause(number)
                shares.hold(self._owned)
                raise

    def _take(self, number: int) -> ProjectionPartition:
        target = self._connected()
        projection = self._projection
        partition = ProjectionPartition(
            projection,
            self._log,
            self._topic,
            number,
            target=target,
            progress=ProgressWriter(projection.name, self._records, target.keeps, self._clock),
            call=self._call,
            copy=lambda: self._copy(number),
            left_out=lambda offset: self._left_out(number, offset),
            claimed=has_claims(self._log, self._topic),
            clock=self._clock,
            opens=self._cipher.open_kept,
        )
        self._records.look()
        if partition.state.decision >= self._records.end:  # the control topic is an older copy, or a new one: its decisions are to come
            partition.state = msgspec.structs.replace(partition.state, decision=-1)
        return partition

    def _connected(self) -> ProjectionTarget:
        if self._target is None:
            target = target_of(self._projection, self._records, self._calls)
            try:
                self._say_started(target.keeps)
            except BaseException:  # nobody would see a projection that has not said so: it is connected again
                target.close()
                raise
            self._target = target
        return self._target

    def _say_started(self, keeps: Keeps) -> None:
        report = self._records.report(self._projection.name)
        self._check_changed(report, keeps)
        started = ProjectionStarted(
            name=self._projection.name, generation=self._topic.generation, keeps=keeps, on_error=self._projection.on_error,
            tags=tuple(sorted(self._projection.tags)),
        )  # fmt: skip
        if report.started != started:
            self._records.append([started])

    def _check_changed(self, report: ProjectionReport, keeps: Keeps) -> None:
        """Warn of changes since the last run that leave the read model other than it would be, made anew."""
        before, name = report.started, self._projection.name
        if before is None or not report.partitions:
            return
        if before.keeps != keeps:
            _logger.warning(
                "the projection %s kept its positions as %s before, and now as %s: it goes on from there", name, before.keeps, keeps
            )
        if set(before.tags) != self._projection.tags:
            _logger.warning("the tags of the projection %s have changed: earlier events are not read again without a reset", name)

    def _call(self, handler: Callable[..., Any], *arguments: Any) -> None:
        self._calls(handler(*arguments))

    def _copy(self, number: int) -> PartitionStore | None:
        copy = self._copies.get(number) or self._store().partition(self._topic.name, number, self._topic.generation, create=False)
        if copy is not None:
            self._copies[number] = copy
        return copy

    def _left_out(self, number: int, offset: int) -> bool:
        self._control.look()
        return offset in self._control.partition(self._topic.generation, number).quarantined

    # -- how it goes ------------------------------------------------------------------------------------------

    def _released(self, owned: ProjectionPartition) -> None:
        try:
            owned.release()
        except TargetUnavailable as error:
            self._told(str(error))

    def _pause(self, number: int) -> None:
        tries = self._pauses.get(number, (0, 0.0))[0]
        self._pauses[number] = (tries + 1, self._clock.monotonic() + _PAUSES[min(tries, len(_PAUSES) - 1)])

    def _told(self, problem: str) -> None:
        if problem != self._unavailable:
            _logger.error("the projection %s waits: %s", self._projection.name, problem)
        self._unavailable = problem

    def _caught_up(self, shares: PartitionShares, ends: dict[int, int]) -> bool:
        """Whether every partition of this process has had what the log held at the beginning. Errors: `Stopped`, `Unavailable`."""
        for number in shares.assigned():
            owned = self._owned.get(number)
            if owned is None:
                if self._unavailable and self._pauses.get(number, (0, 0.0))[0] > len(_PAUSES):
                    raise Unavailable(f"The database of {self._projection.name} does not answer: {self._unavailable}", hint="Try again.")
                return False
            if owned.error is not None:
                self._released(owned)
                raise stopped(self._projection, self._topic.name, owned.error)
            if owned.offset < ends[number]:
                return False
        return True


def stopped(projection: Projection, topic: str, error: HeadwaterError) -> Stopped:
    """The error of a run that stands at an event."""
    hint = error.hint or f"See what fails with `headwater journal projection dead {projection.topic} {projection.name} list`."
    return Stopped(f"The projection {projection.name} of {topic} stands: {error.message}", hint=hint)


def local_shares(folder: Path, name: str, clock: Clock) -> Shares:
    """Shares by the files of this machine: `<data>/projections/<topic>/<name>`."""

    def shares(topic: Topic) -> PartitionShares:
        from headwater.cluster.local_shares import LocalShares

        folder_shares = LocalShares(folder / "projections" / topic.name / name, topic.partitions, clock=clock)
        folder_shares.start()
        return folder_shares

    return shares


def kafka_shares(log: Log, name: str, clock: Clock) -> Shares:
    """Shares by a consumer group of Kafka, over the topic `control-<topic>-projection-<name>`."""

    def shares(topic: Topic) -> PartitionShares:
        from headwater.cluster.kafka import KafkaOwnership
        from headwater.cluster.kafka_shares import KafkaShares

        place = f"{control_topic(topic.name)}-projection-{name}"
        log.create_topic(place, partitions=topic.partitions, part=PART)
        ownership = KafkaOwnership(log, group=f"headwater-{place}", stays=True, clock=clock)
        broker_shares = KafkaShares(ownership, place, topic.partitions, part=PART, clock=clock)
        broker_shares.start()
        return broker_shares

    return shares
