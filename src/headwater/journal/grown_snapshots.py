"""Snapshots of a journal with several places, because its topic grew: each lies where the journal lay when it was saved, in a ring of its
own. All of one life count, wherever they lie: without those of an older place, events that a Delete has removed would be in no state.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.journal.event import Payload
from headwater.journal.snapshot import Snapshot, SnapshotCriteria
from headwater.journal.snapshot_partition import LivingJournal, SnapshotPartition
from headwater.journal.snapshot_wire import JournalLife


class GrownSnapshots:
    """As `SnapshotPartition`, of journals with the same places, older ones first. Errors: those of each place."""

    def __init__(self, places: Sequence[SnapshotPartition]) -> None:
        self._places = places
        self.number = places[-1].number

    def living(self, id: str) -> LivingJournal | None:
        """A journal now, as its newest place says; None: there is none."""
        return self._places[-1].living(id)

    def find(self, id: str, criteria: SnapshotCriteria) -> list[Snapshot]:
        """The snapshots that match, the newest first, without their payloads. Of two of one number, that of the newer place."""
        snapshots = {snapshot.seq_nr: snapshot for place in self._places for snapshot in place.find(id, criteria)}
        return [snapshots[number] for number in sorted(snapshots, reverse=True)]

    def load(self, id: str, criteria: SnapshotCriteria) -> Snapshot | None:
        """As `SnapshotPartition.load`, of all places."""
        newest = [(snapshots[0].seq_nr, at) for at, place in enumerate(self._places) if (snapshots := place.find(id, criteria))]
        for _, at in sorted(newest, reverse=True):
            if (snapshot := self._places[at].load(id, criteria)) is not None:
                return snapshot
        return None

    def holds(self, id: str, seq_nr: int, offset: int) -> bool:
        """As `SnapshotPartition.holds`."""
        return self._places[-1].holds(id, seq_nr, offset)

    def save(self, id: str, seq_nr: int, payload: Payload, living: LivingJournal, by: tuple[str | None, str | None]) -> int:
        """Save a snapshot in the newest place, as `SnapshotPartition.save`."""
        return self._places[-1].save(id, seq_nr, payload, living, by)

    def delete(self, id: str, criteria: SnapshotCriteria, life: JournalLife, by: tuple[str | None, str | None]) -> int:
        """Write down in each place with snapshots of the life that those which match are deleted, older places first; returns the last
        record's offset. After an error in between, delete again."""
        offset = -1
        for place in self._places:
            living = place.living(id)
            if living is not None and living.life.record_id == life.record_id and place.find(id, criteria):
                offset = place.delete(id, criteria, living.life, by)
        return offset
