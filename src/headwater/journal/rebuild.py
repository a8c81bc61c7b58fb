"""Makes the copy of a topic anew from the log. The decision is a record of the control topic, and the replicator carries it out.

Readers stay right meanwhile: they fold what lies behind the pointer, which begins anew, from the log.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.core.errors import UnknownPartition
from headwater.journal.control import ControlLog, Rebuild
from headwater.journal.copied_partition import remade_setting
from headwater.journal.discovery import JournalTopic
from headwater.journal.replication_task import gap
from headwater.journal.store import JournalStore
from headwater.log import Log


class RebuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions are made anew, and up to which offset that is done. `decisions`: offsets in the control topic, by partition."""

    topic: JournalTopic
    decisions: dict[int, int]
    ends: dict[int, int]


class RebuildProgress(msgspec.Struct, frozen=True):
    """How far it is, in records. `begun`: how many partitions are cleared and being copied."""

    done: int
    total: int
    begun: int
    partitions: int

    @property
    def finished(self) -> bool:
        return self.done >= self.total and self.begun == self.partitions


def request_rebuild(log: Log, topic: JournalTopic, *, partitions: Sequence[int] = (), why: str = "", who: str = "") -> RebuildRequest:
    """Decide that the copies of these partitions, of all without a list, are made anew.

    Errors: `LogGap` where the log of one of them no longer begins at 0; `UnknownPartition`. Then nothing is decided about any.
    """
    chosen = sorted(set(partitions)) or list(range(topic.partitions))
    ends: dict[int, int] = {}
    for partition in chosen:
        if not 0 <= partition < topic.partitions:
            raise UnknownPartition(f"{topic.name} has no partition {partition}.", hint=f"It has 0 to {topic.partitions - 1}.")
        bounds = log.bounds(topic.name, partition)
        if bounds.start > 0:
            raise gap(topic.name, partition, 0, bounds.start)
        ends[partition] = bounds.end
    control = ControlLog(log, topic.name)
    decisions = {one: control.append(Rebuild(generation=topic.generation, partition=one, why=why, who=who)) for one in chosen}
    return RebuildRequest(topic=topic, decisions=decisions, ends=ends)


def rebuild_progress(store: JournalStore, request: RebuildRequest) -> RebuildProgress:
    """How far the replicator has come with a request."""
    topic, done, begun = request.topic, 0, 0
    for partition, decision in request.decisions.items():
        generation, _, number = (store.setting(remade_setting(topic.name, partition)) or "").rpartition("/")
        if generation != topic.generation or not number or int(number) < decision:
            continue
        begun += 1
        copy = store.partition(topic.name, partition, topic.generation, create=False)
        done += min(request.ends[partition], copy.pointer().offset + 1 if copy is not None else 0)
    return RebuildProgress(done, sum(request.ends.values()), begun, len(request.decisions))
