"""The replicator's loop: finds topics, waits for records, runs rounds, and tries again what failed.

The log wakes it (`Log.watch`); it polls nothing but the list of topics. One partition's problem keeps no other one.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from random import Random

from headwater.core.clock import Clock
from headwater.core.errors import Cancelled, Closed, HeadwaterError, UnknownTopic
from headwater.journal.base import JournalBases
from headwater.journal.control import ControlLog
from headwater.journal.copied_partition import CopiedPartition, left_out, noted_partitions
from headwater.journal.counts import note_count, partition_counts
from headwater.journal.discovery import Discovery, Holds, JournalTopic
from headwater.journal.leader import ReplicatorLock
from headwater.journal.replicate import RoundOutcome, Rounds
from headwater.journal.status import ReplicatorStatus
from headwater.journal.store import JournalStore
from headwater.log import Log, Watching

LOOK = 3.0
"""Seconds between two looks for topics."""
MOST = 200_000
"""The most records of a partition that one round copies."""
_GATHER = 0.005  # seconds: records of a stream that come within them are copied together
_STANDBY = 1.0  # seconds between two tries to become the one that replicates
_REPORT = 1.0  # the least seconds between two reports that say the same but for counts
_PAUSE = 0.1  # seconds after the first error of the log or the store as a whole, doubled with each
_LONGEST = 30.0

PartitionKey = tuple[str, int]  # topic and partition


class ReplicatorLoop:
    """Copies all topics of journals until it is stopped. `pause`: the least seconds between two rounds on Spark.

    `report` gets the status after every round that changes it, about once a second at most. `copied` gets every round's outcome.
    """

    def __init__(
        self,
        log: Log,
        store: JournalStore,
        rounds: Rounds,
        discovery: Discovery,
        *,
        clock: Clock,
        random: Random,
        lock: ReplicatorLock | None = None,
        pause: float = 0.25,
        report: Callable[[ReplicatorStatus], None] = lambda status: None,
        copied: Callable[[RoundOutcome], None] = lambda outcome: None,
        stopping: threading.Event | None = None,
        bases: JournalBases | None = None,
    ) -> None:
        self._log, self._store, self._rounds, self._discovery = log, store, rounds, discovery
        self._clock, self._random, self.lock, self._pause = clock, random, lock, pause
        self._report, self._copied, self._bases = report, copied, bases
        self._stopping = stopping or threading.Event()
        self._wake = threading.Event()
        self._arrived: deque[PartitionKey] = deque()  # partitions with new records, each once: other threads append
        self._decided = threading.Event()  # a control topic has grown
        self._partitions: dict[PartitionKey, CopiedPartition] = {}
        self._controls: dict[str, ControlLog] = {}
        self._control_watches: dict[str, Watching] = {}
        self._waiting: set[PartitionKey] = set()  # partitions that are tried again later
        self._look_at = self._round_at = -1.0
        self._failures = 0
        self._turn: Holds = "snapshots"
        self.active = lock is None
        self._removed: set[str] = set()
        self._last: RoundOutcome | None = None
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._problem = ""
        self._troubled: set[PartitionKey] = set()  # partitions with a problem
        self._news, self._told, self._report_at = True, 0, -1.0

    # -- running ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Replicate until `stop`. Errors: only faults of headwater's own; what fails outside is tried again."""
        try:
            while not self._stopping.is_set():
                if self._leads():
                    self.step()
                else:
                    self._tell(now=True)
                    self._clock.wait(self._stopping, _STANDBY)
        finally:
            self.close()

    def stop(self) -> None:
        """End the loop after the change under way. Safe from any thread, and in a signal handler."""
        self._stopping.set()
        self._wake.set()

    def close(self) -> None:
        """Close watches, end Spark, let another process replicate."""
        self._forget_all()
        self._rounds.close()
        if self.lock is not None:
            self.lock.release()

    def step(self) -> bool:
        """Look, run one round where there is something to copy, or wait for it. Returns whether a round was run."""
        self._wake.clear()  # before the look: what comes after it ends the next wait
        try:
            if self._clock.monotonic() >= self._look_at or self._decided.is_set():
                self.look()
            if self._arrived:
                self._gather()
            outcome = self.round()
            if self._problem:
                self._failures, self._problem, self._news = 0, "", True
        except Cancelled:
            return False
        except HeadwaterError as error:
            self._fail(error)
            return False
        self._tell()
        if outcome is None:
            self._rest()
        return outcome is not None

    def catch_up(self) -> bool:
        """Run rounds until everything that the log held at the beginning is copied; False where a problem keeps some of it.

        Errors: those of the log or of Spark as a whole.
        """
        try:
            return self._caught_up()
        finally:
            self._tell(now=True)

    def _caught_up(self) -> bool:
        self.look()
        ends = {place: partition.end() for place, partition in self._partitions.items()}
        self.round()
        if self._arrived:  # partitions of the other kind, whose copies may have to be made anew
            self.round()
        while not self._stopping.is_set():
            behind = [partition for place, partition in self._partitions.items() if place in ends and partition.pointer + 1 < ends[place]]
            if not behind:
                return True
            if not any(partition.ready(self._clock.monotonic()) for partition in behind):
                return False
            for late_partition in behind:
                self._queue(late_partition)
            self.round()
        return False

    # -- 1. find topics and partitions --------------------------------------------------------------------------

    def look(self) -> None:
        """Read the list of topics, and what operators have decided; prepare what is new. Errors: those of the log."""
        self._decided.clear()
        changes = self._discovery.look()
        for name in changes.removed:
            self._forget(name)
            self._removed.add(name)
        for topic in changes.created_again:
            self._forget(topic.name)
        if self._log.engine == "kafka":  # topics of the embedded log do not grow
            for topic in (*changes.added, *changes.created_again, *changes.grown):
                if topic.holds == "journals":
                    note_count(self._store, topic)
        for topic in list(self._discovery.topics.values()):
            self._removed.discard(topic.name)
            self._watch(topic)
        self._look_at = self._clock.monotonic() + LOOK
        self._news = self._news or bool(changes) or self._rounds.rest()

    def _watch(self, topic: JournalTopic) -> None:
        control = self._controls.setdefault(topic.journals, ControlLog(self._log, topic.journals))
        if control.found or control.name in self._discovery.names:  # to ask for a topic that is not there costs much where there are many
            control.look()
            if topic.journals not in self._control_watches:
                with suppress(UnknownTopic):  # deleted since
                    self._control_watches[topic.journals] = self._log.watch(control.name, 0, self._on_decision)
        counts = partition_counts(self._store, topic) if self._log.engine == "kafka" else ()
        for number in range(topic.partitions):
            place = topic.name, number
            partition = self._partitions.get(place)
            if partition is None:
                partition = self._partitions[place] = CopiedPartition(topic, number)
                self._queue(partition)  # so that a copy that does not fit the log is noticed without a record
            partition.counts = counts if len(counts) > 1 else ()
            decided = partition.decided(control.partition(topic.generation, number))
            try:
                partition.watch(self._log, self._on_records(place, partition))
                if decided or partition.end() > partition.pointer + 1:
                    self._queue(partition)
            except UnknownTopic:  # deleted since the list was read
                self._forget(topic.name)
                self._discovery.topics.pop(topic.name, None)
                return

    def _on_decision(self) -> None:
        self._decided.set()
        self._wake.set()

    def _on_records(self, place: PartitionKey, partition: CopiedPartition) -> Callable[[], None]:
        def arrived() -> None:
            if not partition.queued:
                partition.queued = True
                self._arrived.append(place)
            self._wake.set()

        return arrived

    def _queue(self, partition: CopiedPartition) -> None:
        if not partition.queued:
            partition.queued = True
            self._arrived.append((partition.topic, partition.partition))

    def _queue_rest(self, partition: CopiedPartition) -> None:
        try:
            if partition.problem is None and partition.pointer + 1 < partition.end():
                self._queue(partition)
        except (UnknownTopic, Closed):  # deleted meanwhile: the next look forgets it
            self._look_at = -1.0

    def _forget(self, topic: str) -> None:
        for place in [place for place in self._partitions if place[0] == topic]:
            self._partitions.pop(place).close()
            self._waiting.discard(place)
            self._troubled.discard(place)
        self._controls.pop(topic, None)
        watching = self._control_watches.pop(topic, None)
        if watching is not None:
            watching.close()

    def _forget_all(self) -> None:
        for topic in {*self._controls, *(name for name, _ in self._partitions)}:
            self._forget(topic)
        self._discovery.topics.clear()
        self._look_at = -1.0

    # -- 2. one round -------------------------------------------------------------------------------------------

    def round(self) -> RoundOutcome | None:
        """Copy what has arrived. None: there was nothing. Errors: those of Spark as a whole."""
        chosen = self._due()
        if not chosen:
            return None
        tasks, pointers, partitions = [], [], []
        for partition in chosen:
            try:
                partition.prepare(self._log, self._store, self._bases)
                task = partition.task(MOST)
            except (UnknownTopic, Closed):  # the next look forgets it
                self._look_at = -1.0
                continue
            except HeadwaterError as error:
                partition.failed(error, self._clock.monotonic(), self._random)
                self._settled(partition)
                continue
            if task is not None:
                tasks.append(task)
                pointers.append(partition.pointer)
                partitions.append(partition)
        if not tasks:
            return None
        try:
            where = self._rounds.choose(sum(partition.end() - partition.pointer - 1 for partition in partitions))
            outcome = self._rounds.run(tasks, where, pointers)
        except BaseException:
            for partition in partitions:
                self._queue(partition)
            raise
        finally:
            now = self._clock.monotonic()
            self._round_at = now
        for partition, done in zip(partitions, outcome.partitions, strict=True):
            partition.settle(done, now, self._random)
            self._settled(partition)
            self._queue_rest(partition)
        self._last = outcome
        self._counts[outcome.engine] += 1
        self._total += outcome.records
        self._copied(outcome)
        return outcome

    def _due(self) -> list[CopiedPartition]:
        now = self._clock.monotonic()
        places: list[PartitionKey] = []
        while self._arrived:
            places.append(self._arrived.popleft())
        places += [place for place in self._waiting if (copied := self._partitions.get(place)) is not None and now >= copied.retry_at]
        due: dict[PartitionKey, CopiedPartition] = {}
        for place in places:
            partition = self._partitions.get(place)
            if partition is not None:
                partition.queued = False  # before its end is read: what comes later queues it again
                if partition.ready(now):
                    due[place] = partition
        return self._of_one_kind(list(due.values()))

    def _of_one_kind(self, due: list[CopiedPartition]) -> list[CopiedPartition]:
        """Those of one kind, by turns: what is known of a journal decides which of its snapshots are kept, so no two tasks of a job
        change the copies of one partition."""
        kinds = {partition.holds for partition in due}
        if len(kinds) < 2:
            return due
        self._turn = "snapshots" if self._turn == "journals" else "journals"
        for partition in due:
            if partition.holds != self._turn:
                self._queue(partition)
        return [partition for partition in due if partition.holds == self._turn]

    def _gather(self) -> None:
        """The first record after a rest is copied at once; those of a stream go together."""
        least = self._pause if self._last is not None and self._last.engine == "spark" else _GATHER
        rest = self._round_at + least - self._clock.monotonic()
        if self._round_at >= 0 and rest > 0:
            self._clock.wait(self._stopping, rest)

    def _settled(self, partition: CopiedPartition) -> None:
        place = partition.topic, partition.partition
        if partition.waits:
            self._waiting.add(place)
        else:
            self._waiting.discard(place)
        self._news = self._news or partition.problem is not None or place in self._troubled
        if partition.problem is not None:
            self._troubled.add(place)
        else:
            self._troubled.discard(place)

    # -- 3. wait, fail, tell ------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Wait for records, for the next look, or for the next try."""
        now = self._clock.monotonic()
        times = [self._look_at, *(self._partitions[place].retry_at for place in self._waiting if place in self._partitions)]
        seconds = min(times) - now
        if seconds > 0 and not self._arrived and not self._stopping.is_set():
            self._clock.wait(self._wake, seconds)

    def _fail(self, error: HeadwaterError) -> None:
        """The log as a whole, or Spark, does not answer: wait before the next try."""
        self._problem = f"{error.message} {error.hint}".strip()
        self._look_at = -1.0
        pause = min(_LONGEST, _PAUSE * 2 ** min(self._failures, 9)) * self._random.uniform(0.5, 1.0)
        self._failures += 1
        self._tell(now=True)
        self._clock.wait(self._stopping, pause)

    def _leads(self) -> bool:
        """Whether this process is the one that replicates."""
        if self.lock is None:
            return True
        if self.active and self.lock.lost:
            self.lock.release()
            self._forget_all()
            self.active = False
        if not self.active:
            try:
                self.active = self.lock.take()
            except HeadwaterError as error:
                self._fail(error)
        return self.active

    def status(self) -> ReplicatorStatus:
        """What this replicator does now."""
        last, partitions = self._last, list(self._partitions.values())  # a copy: another thread may ask while a partition is added
        return ReplicatorStatus(
            pid=os.getpid(),
            host=socket.gethostname(),
            at=self._clock.now_ms(),
            active=self.active,
            topics=tuple(sorted(name for name, topic in self._discovery.topics.items() if topic.holds == "journals")),
            removed=tuple(sorted(self._removed)),
            damaged=dict(self._discovery.damaged),
            engine=last.engine if last else None,
            records=last.records if last else 0,
            rate=last.rate if last else 0.0,
            rounds=dict(self._counts),
            copied=self._total,
            spark=self._rounds.spark_started,
            problem=self._problem or self._rounds.spark_problem,
            partitions=tuple(noted_partitions(partitions)),
            quarantined=left_out(partitions),
        )

    def _tell(self, *, now: bool = False) -> None:
        """Report what is new: problems at once, counts about once a second."""
        moment = self._clock.monotonic()
        if now or self._news or (self._total != self._told and moment >= self._report_at):
            self._news, self._told, self._report_at = False, self._total, moment + _REPORT
            self._report(self.status())
