"""Performs the operations on snapshots of journals in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.client.journal_topics import OpenTopics
from headwater.core.errors import BadBounds, Conflict, NotFound
from headwater.journal import answers
from headwater.journal import snapshot_requests as requests
from headwater.journal.append_draft import payload_of
from headwater.journal.bodies import payload_in
from headwater.journal.event import Payload
from headwater.journal.grown_snapshots import GrownSnapshots
from headwater.journal.open_topic import OpenTopic
from headwater.journal.snapshot_metrics import SnapshotMetrics
from headwater.journal.snapshot_partition import SnapshotPartition
from headwater.journal.snapshot_shown import show_snapshot
from headwater.wire.operation import Operation, Reply

if TYPE_CHECKING:
    pass


class SnapshotPerformer:
    """One method for each operation of the same name. Its work runs in threads."""

    def __init__(self, topics: OpenTopics, *, by: tuple[str | None, str | None]) -> None:
        self._topics, self._by = topics, by
        self.metrics = SnapshotMetrics()

    async def perform(self, operation: Operation[Any, Any], request: Any) -> Any:
        """Perform one of them."""
        return await getattr(self, operation.name)(request)

    async def snapshots_find(self, request: requests.FindSnapshots) -> answers.SnapshotsFound:
        criteria = request.criteria()

        def find(topic: OpenTopic) -> answers.SnapshotsFound:
            partition = topic.snapshots(request.id)
            if not request.newest:
                return answers.SnapshotsFound(items=[show_snapshot(snapshot) for snapshot in partition.find(request.id, criteria)])
            newest = partition.load(request.id, criteria)
            self.metrics.loaded(newest is not None)
            return answers.SnapshotsFound(items=[] if newest is None else [show_snapshot(newest)])

        return await self._topics.reading(request.topic, find)

    async def snapshots_save(self, request: requests.SaveSnapshot) -> Reply[answers.SavedSnapshot]:
        assert request.body is not None
        payload, seq_nr, place = payload_of(payload_in(request.body.payload)), request.body.seq_nr, request.body.offset
        saved = await self._topics.reading(
            request.topic, lambda topic: self._save(topic.snapshots(request.id), request.id, seq_nr, place, payload)
        )
        return Reply(saved, 201)

    def _save(
        self, partition: SnapshotPartition | GrownSnapshots, id: str, seq_nr: int | None, place: int | None, payload: Payload
    ) -> answers.SavedSnapshot:
        living = partition.living(id)
        if living is None:
            raise NotFound(f"There is no journal {id!r:.60} to take a snapshot of.", hint="Its first Append creates it.")
        last = living.head.last
        if seq_nr is not None and seq_nr > last:
            raise BadBounds(f"Journal {id!r:.60} ends at event {last}: a snapshot of {seq_nr} is not possible.", hint=f"Give up to {last}.")
        number = last if seq_nr is None else seq_nr
        if place is not None and not partition.holds(id, number, place):
            raise Conflict(
                f"Event {number} of journal {id!r:.60} does not lie at offset {place}: it was purged or deleted meanwhile.",
                hint="Make the snapshot anew, of the events that are there.",
            )
        offset = partition.save(id, number, payload, living, self._by)
        self.metrics.saved(len(payload.data))
        return answers.SavedSnapshot(seq_nr=number, partition=partition.number, offset=offset)

    async def snapshots_delete(self, request: requests.DeleteSnapshots) -> answers.DeletedSnapshots:
        criteria = request.criteria()

        def delete(topic: OpenTopic) -> answers.DeletedSnapshots:
            partition = topic.snapshots(request.id)
            living = partition.living(request.id)
            snapshots = [] if living is None else partition.find(request.id, criteria)
            if living is not None and snapshots and not request.dry_run:
                partition.delete(request.id, criteria, living.life, self._by)
                self.metrics.deleted(len(snapshots))
            return answers.DeletedSnapshots(deleted=len(snapshots), dry_run=request.dry_run)

        return await self._topics.reading(request.topic, delete)
