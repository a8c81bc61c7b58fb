"""What the replicator knows of one partition while it runs: how far it is copied, and what keeps it from going on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

from headwater.core.errors import Differs, HeadwaterError
from headwater.journal.base import JournalBases
from headwater.journal.base_copy import restore_base, restore_rings
from headwater.journal.change import Pointer
from headwater.journal.control import PartitionControl
from headwater.journal.copies import open_copy
from headwater.journal.counts import noted_counts
from headwater.journal.discovery import Holds, JournalTopic
from headwater.journal.replication_task import PartitionOutcome, PartitionProblem, PartitionTask, gap, problem_of
from headwater.journal.status import PartitionStatus
from headwater.journal.store import JournalStore, PartitionStore, RingStore
from headwater.log import Log, Watching

_SHORTEST = 0.1  # seconds before the first new try, doubled with each
_LONGEST = 30.0
_DOUBLINGS = 9


class CopiedPartition:
    """One partition of one generation of a topic. Not safe for several threads; `arrived` is called by any."""

    def __init__(self, topic: JournalTopic, partition: int) -> None:
        self._topic = topic
        self.topic, self.partition, self.generation = topic.name, partition, topic.generation
        self.pointer = -1
        self.timestamp = 0  # of the newest record that is copied, milliseconds; 0: none was since the start
        self.problem: PartitionProblem | None = None
        self.note = ""
        """What was done to the copy besides going on: that it was made anew, and why."""
        self.counts: tuple[int, ...] = ()
        """The numbers of partitions that the topic has had, where it grew."""
        self.retry_at = 0.0
        self.queued = False
        self._attempts = 0
        self._prepared = False
        self._control = PartitionControl()
        self._watching: Watching | None = None

    # -- before and after rounds ------------------------------------------------------------------------------

    def watch(self, log: Log, arrived: Callable[[], None]) -> None:
        """Have `arrived` called for new records. Errors: those of `Log.watch`."""
        if self._watching is None:
            self._watching = log.watch(self.topic, self.partition, arrived)

    def end(self) -> int:
        """The durable end. Errors: `UnknownTopic` once the topic is deleted, also where one of its name was made since; `Closed`."""
        assert self._watching is not None
        return self._watching.end()

    def close(self) -> None:
        if self._watching is not None:
            self._watching.close()
            self._watching = None

    def decided(self, control: PartitionControl) -> bool:
        """Take what operators have decided; whether that changes anything."""
        if control == self._control:
            return False
        if control.remade != self._control.remade:
            self._prepared = False
        self._control = control
        if self.problem is not None and self.problem.poison:
            self.problem, self.retry_at = None, 0.0
        return True

    def prepare(self, log: Log, store: JournalStore, bases: JournalBases | None = None) -> None:
        """Look at the copy before the first round, and after every problem: clear one that is to be made anew, and find its pointer.

        `bases`: from which a copy begins whose log no longer begins at 0. Errors: `LogGap` where the log begins behind the pointer, or
        behind 0 where the copy is to be made anew and has no base; `Differs` where the store holds more than the log.
        """
        if self._prepared:
            return
        copy = open_copy(store, self._topic, self.partition)
        assert copy is not None
        pointer, bounds = copy.pointer(), log.bounds(self.topic, self.partition)
        if pointer.generation not in ("", self.generation):
            copy.clear(self._deleted_before(pointer, bounds.start))
            self.note = "The topic was deleted and created again: its copy is made anew."
            pointer = copy.pointer()
        if remake_pending(store, self._topic, self.partition, self._control):
            if bounds.start > 0:
                if bases is None:
                    raise gap(self.topic, self.partition, 0, bounds.start)
                if isinstance(copy, PartitionStore):
                    restore_base(bases, log, self._topic, copy)
                elif isinstance(copy, RingStore):
                    restore_rings(bases, log, self._topic, copy, noted_counts(store, self._topic))
            else:
                copy.clear()
            decision = f"{self.generation}/{self._control.remade}"
            store.set_setting(ahead_setting(self.topic, self.partition), None)
            store.set_setting(remade_setting(self.topic, self.partition), decision)  # then: a death in between clears it once more
            self.note = "An operator wants the copy made anew."
            pointer = copy.pointer()
        if pointer.offset + 1 < bounds.start:
            raise gap(self.topic, self.partition, pointer.offset + 1, bounds.start)
        self._check_ahead(store, pointer.offset, bounds.end)
        self.pointer, self._prepared = pointer.offset, True

    def _deleted_before(self, pointer: Pointer, start: int) -> int:
        """The offset behind which a copy is made anew. Snapshots of an earlier topic of journals count for nothing, and those that the log
        has deleted are of such a one, as they were copied."""
        same = self._topic.holds == "snapshots" and pointer.generation.partition(":")[0] == self.generation.partition(":")[0]
        return min(start - 1, pointer.offset) if same else -1

    def _check_ahead(self, store: JournalStore, pointer: int, end: int) -> None:
        """Errors: `Differs` where the store holds more than the log. The store keeps that: once an older log has grown beyond the pointer,
        nothing else would show that its records are others than those that were copied."""
        key = ahead_setting(self.topic, self.partition)
        noted = f"{self.generation}/{pointer}"
        if pointer < end and store.setting(key) != noted:
            return
        if pointer >= end:
            store.set_setting(key, noted)
        raise Differs(
            f"The store has copied {self.topic}/{self.partition} up to offset {pointer}, and the log ended before that, at {end} or below.",
            hint="The log is older than the store. Bring it back, or make the copy anew: "
            f"`headwater journal rebuild {self._topic.journals}`.",
        )

    def task(self, most: int) -> PartitionTask | None:
        """What the next round has to copy, at most so many records; None where there is nothing."""
        end = self.end()
        if end <= self.pointer + 1:
            return None
        return PartitionTask(
            topic=self.topic,
            partition=self.partition,
            generation=self.generation,
            end=min(end, self.pointer + 1 + most),
            skip=self._control.quarantined,
            counts=self.counts,
            holds=self._topic.holds,
        )

    def settle(self, outcome: PartitionOutcome, now: float, random: Random) -> None:
        """Take over what a round has done."""
        if outcome.pointer is not None:
            self.pointer = outcome.pointer
        self.timestamp = outcome.timestamp or self.timestamp
        if outcome.records:
            self._attempts = 0
        if outcome.problem is None:
            self.problem, self._attempts = None, 0
        else:
            self._hold(outcome.problem, now, random)

    def failed(self, error: HeadwaterError, now: float, random: Random) -> None:
        """Take over an error of `prepare`, or of a whole round."""
        self._hold(problem_of(error), now, random)

    def ready(self, now: float) -> bool:
        """Whether it may take part in a round."""
        return self.problem is None or (not self.problem.poison and now >= self.retry_at)

    @property
    def holds(self) -> Holds:
        """What its records are."""
        return self._topic.holds

    @property
    def waits(self) -> bool:
        """Whether it is tried again at `retry_at`."""
        return self.problem is not None and not self.problem.poison

    @property
    def quarantined(self) -> int:
        """How many of its records are left out."""
        return len(self._control.quarantined)

    def _hold(self, problem: PartitionProblem, now: float, random: Random) -> None:
        self.problem, self._prepared = problem, problem.poison
        pause = min(_LONGEST, _SHORTEST * 2 ** min(self._attempts, _DOUBLINGS))
        self.retry_at = now + pause * random.uniform(0.5, 1.0)  # so that partitions do not all ask a store again at one moment
        self._attempts += 1


def noted_partitions(partitions: Iterable[CopiedPartition]) -> list[PartitionStatus]:
    """Those that do not simply go on."""
    return [
        PartitionStatus(
            topic=partition.topic, partition=partition.partition, pointer=partition.pointer, problem=partition.problem, note=partition.note
        )
        for partition in partitions
        if partition.problem is not None or partition.note
    ]


def left_out(partitions: Iterable[CopiedPartition]) -> dict[str, int]:
    """How many records of each topic are quarantined."""
    counts = Counter[str]()
    for partition in partitions:
        counts[partition.topic] += partition.quarantined
    return {topic: count for topic, count in counts.items() if count}


def remade_setting(topic: str, partition: int) -> str:
    """The setting of a store that names the newest decision for which a partition's copy was made anew."""
    return f"headwater/remade/{topic}/{partition}"


def ahead_setting(topic: str, partition: int) -> str:
    """The setting of a store that names the pointer at which its copy was ahead of the log."""
    return f"headwater/ahead/{topic}/{partition}"


def remake_pending(store: JournalStore, topic: JournalTopic, partition: int, control: PartitionControl) -> bool:
    """Whether a partition's copy is to be made anew, and is not yet."""
    return control.remade >= 0 and store.setting(remade_setting(topic.name, partition)) != f"{topic.generation}/{control.remade}"
