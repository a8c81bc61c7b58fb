"""Makes the copy of a topic anew from the log. The decision is a record of the control topic, and the replicator carries it out.

Readers stay right meanwhile: they fold what lies behind the pointer, which begins anew, from the log. In Cassandra they meet `LogGap` while
a base is restored, because its rows are there before the pointer is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.core.errors import UnknownPartition
from headwater.journal.base import JournalBases
from headwater.journal.control import ControlLog, Rebuild
from headwater.journal.copied_partition import remade_setting
from headwater.journal.copies import open_copy
from headwater.journal.discovery import JournalTopic, with_snapshots
from headwater.journal.replication_task import gap
from headwater.journal.store import JournalStore
from headwater.log import Log


class RebuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions are made anew, and up to which offset that is done. `decisions`: offsets in the control topic, by partition.
    `snapshots`: the same of the topic's snapshots; None: it has none."""

    topic: JournalTopic
    decisions: dict[int, int]
    ends: dict[int, int]
    snapshots: RebuildRequest | None = None

    @property
    def records(self) -> int:
        """How many records are copied for it."""
        return sum(self.ends.values()) + (0 if self.snapshots is None else self.snapshots.records)


class RebuildProgress(msgspec.Struct, frozen=True):
    """How far it is, in records. `begun`: how many partitions are cleared and being copied."""

    done: int
    total: int
    begun: int
    partitions: int

    @property
    def finished(self) -> bool:
        return self.done >= self.total and self.begun == self.partitions


def request_rebuild(
    log: Log,
    topic: JournalTopic,
    *,
    partitions: Sequence[int] = (),
    why: str = "",
    who: str = "",
    bases: JournalBases | None = None,
) -> RebuildRequest:
    """Decide that the copies of these partitions, of all without a list, are made anew: from the beginning of the log, or from their bases.

    Errors: `LogGap` where the log of one of them no longer begins at 0, and no base leads up to it; `Differs` for a base that is newer than
    the log; `Damaged` for one that is rotten; `UnknownPartition`. Then nothing is decided about any.
    """
    checked = check_rebuild(log, topic, partitions=partitions, bases=bases)
    control, request = ControlLog(log, topic.name), None
    for journal_topic, ends in reversed(checked):
        decisions = {
            place: control.append(Rebuild(generation=journal_topic.generation, partition=place, why=why, who=who)) for place in ends
        }
        request = RebuildRequest(topic=journal_topic, decisions=decisions, ends=ends, snapshots=request)
    assert request is not None
    return request


def check_rebuild(
    log: Log, topic: JournalTopic, *, partitions: Sequence[int] = (), bases: JournalBases | None = None
) -> list[tuple[JournalTopic, dict[int, int]]]:
    """Of the topic, and of its snapshots where there are any: by partition, how many records its copy would be made of.

    With `bases`, snapshots whose log no longer begins at 0, and which no base has, stay as they are. Errors: as `request_rebuild`.
    """
    return [(journal_topic, _ends(log, journal_topic, partitions, bases)) for journal_topic in with_snapshots(log, topic)]


def _ends(log: Log, topic: JournalTopic, partitions: Sequence[int], bases: JournalBases | None) -> dict[int, int]:
    chosen = sorted(set(partitions)) or list(range(topic.partitions))
    ends: dict[int, int] = {}
    for partition in chosen:
        if not 0 <= partition < topic.partitions:
            raise UnknownPartition(f"{topic.name} has no partition {partition}.", hint=f"It has 0 to {topic.partitions - 1}.")
        bounds = log.bounds(topic.name, partition)
        if bounds.start > 0:
            if bases is None:
                raise gap(topic.name, partition, 0, bounds.start)
            snapshots = topic.holds == "snapshots"
            note = bases.of_snapshots(log, topic, partition) if snapshots else bases.usable(log, topic, partition)
            if note is None:
                continue
            with bases.scratch(note):
                pass  # reads it through: what is rotten must be found before the copy goes
        ends[partition] = bounds.end
    return ends


def rebuild_progress(store: JournalStore, request: RebuildRequest) -> RebuildProgress:
    """How far the replicator has come with a request."""
    topic, done, begun, partitions = request.topic, 0, 0, len(request.decisions)
    if request.snapshots is not None:
        snapshots = rebuild_progress(store, request.snapshots)
        done, begun, partitions = snapshots.done, snapshots.begun, partitions + snapshots.partitions
    for partition, decision in request.decisions.items():
        generation, _, number = (store.setting(remade_setting(topic.name, partition)) or "").rpartition("/")
        if generation != topic.generation or not number or int(number) < decision:
            continue
        begun += 1
        copy = open_copy(store, topic, partition, create=False)
        done += min(request.ends[partition], copy.pointer().offset + 1 if copy is not None else 0)
    return RebuildProgress(done, request.records, begun, partitions)
