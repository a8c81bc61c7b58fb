"""The copy of one partition of snapshots in Cassandra.

All slots of a ring lie in one partition of the table `snapshot`, so a batch changes them at once, with the offset up to which the ring is
folded. A process that finds a change half done goes on ring by ring, from that offset. The pointer moves last. Writes have the time base +
offset of the record that they follow from, as those of `cassandra_partition`: a task that was paused overwrites nothing newer.

A journal that moved here, because its topic grew, has one ring here, under the name that `cassandra_moved` gives it, and another one in its
older partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from headwater.core.clock import Clock
from headwater.journal.apply import check_generation, due
from headwater.journal.cassandra_moved import MovedFolds, moved_topic
from headwater.journal.cassandra_note import PartitionNote
from headwater.journal.cassandra_partition import MARGIN_US, CassandraPartitionStore, CopyPosition
from headwater.journal.cassandra_ring_rows import slot_values, stored_ring
from headwater.journal.cassandra_rows import changed, payload_of_columns
from headwater.journal.cassandra_view import CassandraTables
from headwater.journal.change import Pointer
from headwater.journal.discovery import generation_of_journals
from headwater.journal.event import Payload
from headwater.journal.head import EMPTY
from headwater.journal.names import SNAPSHOTS
from headwater.journal.places import moved_here
from headwater.journal.rings import living_rings, pages_of_ids
from headwater.journal.snapshot import EMPTY_RING, Copied, Ring, Snapshot, SnapshotAction, living
from headwater.journal.snapshot_fold import SnapshotsChange, SnapshotsChanged
from headwater.journal.store import RingStore, RingView

_BATCH_BYTES = 1 << 20  # of payloads that one batch may hold, and one payload more


class CassandraRingStore(RingStore):
    """As `RingStore`. One process at a time applies, to journals and to snapshots of a partition; others may read."""

    def __init__(self, topic: str, partition: int, generation: str, tables: CassandraTables, *, clock: Clock) -> None:
        self.topic, self.partition, self.generation = topic, partition, generation
        self._journals, self._tables, self._clock = topic.removeprefix(SNAPSHOTS), tables, clock
        self._place = CassandraPartitionStore(topic, partition, generation, tables, clock=clock, segment_size=1)  # its pointer and note

    def pointer(self) -> Pointer:
        return self.position().pointer

    def position(self) -> CopyPosition:
        """The pointer with its note."""
        return self._place.position()

    @contextmanager
    def view(self) -> Iterator[CassandraRingView]:
        position = self.position()
        check_generation(position.pointer, self.topic, self.partition, self.generation)
        moved = position.note is not None and position.note.moved
        yield CassandraRingView(self._tables, self._journals, self.partition, position.pointer, clearing=position.clearing, moved=moved)

    def apply(self, change: SnapshotsChange) -> bool:
        position = self.position()
        if not due(change, position.pointer):
            return False
        if position.clearing:
            self.clear(position.pointer.offset)
            position = self.position()
        moved = any(self._is_moved(journal.id, change.counts) for journal in change.journals)
        note = self._place.begin(change, position, changes=bool(change.journals), moved=moved)
        if change.journals:
            self._apply_rings(change.journals, note.base, change.counts)
        self._place.move_pointer(change.end - 1, note, position)
        return True

    def checkpoint(self) -> Pointer:
        """As `CassandraPartitionStore.checkpoint`."""
        return self._place.checkpoint()

    def clear(self, offset: int = -1) -> None:
        """As `CopyStore.clear`. It reads the keys of all rings."""
        tables, position = self._tables, self.position()
        note, now = position.note, self._clock.now_ms() * 1000
        # Later than every write so far, and earlier than every write to come.
        time = max(now, position.written + MARGIN_US if position.there else 0)
        if note is not None:
            time = max(time, note.base + max(position.pointer.offset + 1, note.begun, 0) + 1)
        cleared = PartitionNote(self.generation, time + 1 - max(offset, 0))
        self._place.write_note(msgspec.structs.replace(cleared, clearing=True), time)
        tables.requests.write([tables.bound("delete_pointer", time, self.topic, self.partition)])
        view = CassandraRingView(tables, self._journals, self.partition, Pointer(-1), clearing=False)
        tables.requests.write(tables.bound("delete_ring", time, id, name) for id, name in view.places())
        self._place.write_note(cleared, time + 1)
        if offset >= 0:
            self._place.move_pointer(offset, cleared, self.position())

    def restore(self, base: RingView, counts: Sequence[int] = ()) -> None:
        """As `RingStore.restore`. The pointer is written last: until then nothing that is here counts."""
        self.clear()
        note, pointer = self.position().note, base.pointer
        assert note is not None
        moved = False
        for ids in pages_of_ids(base):
            moved = moved or any(self._is_moved(id, counts) for id in ids)
            pointed, copied = self._copied_journals(ids, counts)
            for id, slots in living_rings(base, ids, pointed, copied.get):
                self._tables.requests.write(self._restored(self._name(id, counts), id, slots, pointer.offset, note.base))
        begun = msgspec.structs.replace(note.begin(pointer.offset + 1, pointer.epoch), moved=moved)
        self._place.write_note(begun, note.base + pointer.offset + 1)
        self._place.move_pointer(pointer.offset, begun, CopyPosition(Pointer(-1), begun, there=False))

    # -- rings ------------------------------------------------------------------------------------------------

    def _name(self, id: str, counts: Sequence[int]) -> str:
        """The name under which the table holds a ring."""
        return moved_topic(self._journals, self.partition) if self._is_moved(id, counts) else self._journals

    def _is_moved(self, id: str, counts: Sequence[int]) -> bool:
        return moved_here(id.encode(), counts, self.partition)

    def _restored(self, name: str, id: str, slots: Mapping[int, Snapshot], applied: int, base: int) -> Iterator[Any]:
        """Slot by slot, as ten payloads may be more than a batch takes; then how far the ring is folded."""
        for slot, snapshot in slots.items():
            yield self._tables.bound("put_snapshot", *slot_values(name, id, slot, snapshot, base + snapshot.offset))
        yield self._tables.bound("ring_applied", base + applied, applied, self.partition, id, name)

    def _apply_rings(self, journals: Sequence[SnapshotsChanged], base: int, counts: Sequence[int]) -> None:
        tables = self._tables
        pointed, copied = self._copied_journals([journal.id for journal in journals], counts)
        names = [self._name(journal.id, counts) for journal in journals]
        answers = tables.requests.all(tables.bound("ring", journal.id, name) for journal, name in zip(journals, names, strict=True))
        stored = [stored_ring(rows).ring for rows in answers]

        def writes() -> Iterator[Any]:
            for journal, name, ring in zip(journals, names, stored, strict=True):
                actions = living(journal.actions, pointed, lambda id=journal.id: copied.get(id))  # type: ignore[misc]
                yield from self._ring_writes(name, journal.id, ring, actions, last=journal.actions[-1].offset, base=base)

        tables.requests.write(writes())

    def _copied_journals(self, ids: Sequence[str], counts: Sequence[int]) -> tuple[int, dict[str, Copied]]:
        """How far the journals are copied, and what is known of them there. Nothing is where their copy is of another generation, or is
        being made anew."""
        journals = CassandraPartitionStore(
            self._journals, self.partition, generation_of_journals(self.generation), self._tables, clock=self._clock, segment_size=1
        )
        before, folds = journals.position(), MovedFolds(self._tables, self._journals, self.partition)
        copies: dict[str, Copied] = {id: EMPTY for id in ids if self._is_moved(id, counts)}
        if before.clearing or before.pointer.generation not in ("", journals.generation):
            return -1, copies
        stored = self._tables.heads(self._journals, [id for id in ids if id not in copies])
        copies = {id: folds.at(id, before.pointer.offset) for id in copies}
        copies |= {id: raw.at(before.pointer.offset, self.partition) for id, raw in stored.items()}
        after = journals.position()
        if after.clearing or _base(after) != _base(before):  # cleared meanwhile: a head that was not found says nothing
            raise changed()
        return before.pointer.offset, copies

    def _ring_writes(self, name: str, id: str, ring: Ring, actions: Sequence[SnapshotAction], *, last: int, base: int) -> Iterator[Any]:
        """The batches that bring a ring up to `last`, the offset of the journal's last action."""
        before, part, size = ring, list[SnapshotAction](), 0
        for action in actions:
            part.append(action)
            size += len(action.payload.data) if isinstance(action, Snapshot) and action.payload else 0
            if size > _BATCH_BYTES:
                after = before.then(part)
                yield self._batch(name, id, before, after, base)
                before, part, size = after, [], 0
        after = before.then(part)
        if last > ring.applied:
            yield self._batch(name, id, before, Ring(after.slots, last), base)

    def _batch(self, name: str, id: str, before: Ring, after: Ring, base: int) -> Any:
        tables, applied, time = self._tables, after.applied, base + after.applied
        writes = [tables.bound("delete_snapshot", time, id, name, slot) for slot in sorted(before.slots.keys() - after.slots.keys())]
        for slot, snapshot in sorted(after.slots.items()):
            if before.slots.get(slot) is not snapshot:
                writes.append(tables.bound("put_snapshot", *slot_values(name, id, slot, snapshot, base + snapshot.offset)))
        writes.append(tables.bound("ring_applied", time, applied, self.partition, id, name))
        return tables.requests.batch(writes)


class CassandraRingView(RingView):
    """Rings as they are when they are read: each says how far it is folded."""

    def __init__(
        self, tables: CassandraTables, topic: str, partition: int, pointer: Pointer, *, clearing: bool, moved: bool = False
    ) -> None:
        """`moved`: whether it holds rings of journals that have an older place."""
        self.pointer, self._tables, self._topic, self._partition, self._clearing = pointer, tables, topic, partition, clearing
        self._moved, self._grown = moved_topic(topic, partition), moved

    def ring(self, id: str) -> Ring:
        if self._clearing:
            return EMPTY_RING
        ring = self._stored(id)[1]
        return Ring(ring.slots, max(ring.applied, self.pointer.offset))

    def _stored(self, id: str) -> tuple[str, Ring]:
        """The ring of this partition, and the name under which the table holds it. Under the topic's own name it may be another's."""
        if self._grown and (moved := stored_ring(self._tables.rows("ring", id, self._moved))).partition is not None:
            return self._moved, moved.ring
        stored = stored_ring(self._tables.rows("ring", id, self._topic))
        return self._topic, stored.ring if stored.partition in (None, self._partition) else EMPTY_RING

    def payload(self, id: str, slot: int, snapshot: Snapshot) -> Payload:
        rows = self._tables.rows("snapshot_payload", id, self._stored(id)[0], slot)
        if not rows or rows[0][0] != snapshot.offset:
            raise changed()
        return payload_of_columns(*rows[0][1:])

    def ids(self, after: str | None = None, limit: int = 1000) -> list[str]:
        ids = [] if self._clearing else sorted(self.all_ids(), key=str.encode)
        ring_ids = [id for id in ids if (after is None or id.encode() > after.encode()) and self.ring(id).slots]
        return ring_ids[:limit]

    def all_ids(self) -> list[str]:
        """The ids that have or had a ring, in no order."""
        return list({id for id, _ in self.places()})

    def places(self) -> list[tuple[str, str]]:
        """As `all_ids`, each with the name under which the table holds its ring."""
        names, rings = (self._topic, self._moved), self._tables.rows("rings")
        return [(id, topic) for id, topic, partition in rings if topic in names and partition == self._partition]


def _base(position: CopyPosition) -> int | None:
    return None if position.note is None else position.note.base
