"""Rings of snapshots as rows of the table `snapshot` of Cassandra, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headwater.core.errors import Damaged
from headwater.journal.cassandra_rows import payload_columns
from headwater.journal.cassandra_view import CassandraTables
from headwater.journal.event import KIND_NAMES
from headwater.journal.snapshot import Ring, Snapshot, purged_slots
from headwater.store import Row

_KINDS = {name: kind for kind, name in KIND_NAMES.items()}


class StoredRing(NamedTuple):
    """A ring, when its slots were written, and which partition has it; None: there is no ring."""

    ring: Ring
    written: Mapping[int, int]
    partition: int | None = None


def stored_ring(rows: Sequence[Row]) -> StoredRing:
    """The ring from the rows of the statement `ring`. Errors: `Damaged` for a type of payload that nobody writes."""
    slots: dict[int, Snapshot] = {}
    written: dict[int, int] = {}
    applied, partition = -1, None
    for done, slot, seq_nr, timestamp, offset, at, kind, record_id, origin, version, time, owner in rows:
        applied, partition = -1 if done is None else done, owner
        if slot is None or seq_nr is None:  # no slot is left, or it is deleted at this moment
            continue
        if kind not in _KINDS:
            raise Damaged(f"A snapshot has a payload of the type {kind!r}.", hint="Copy the topic anew: `headwater journal rebuild`.")
        slots[slot] = Snapshot(seq_nr, timestamp, offset, at, _KINDS[kind], record_id, origin, version)
        written[slot] = time
    return StoredRing(Ring(slots, applied), written, partition)


def slot_values(topic: str, id: str, slot: int, snapshot: Snapshot, time: int) -> Sequence[object]:
    """The values of the statement `put_snapshot`. What the slot held before goes, column by column."""
    assert snapshot.payload is not None
    kind, text, binary = payload_columns(snapshot.payload, missing=None)
    return (
        id, topic, slot, snapshot.seq_nr, snapshot.timestamp, snapshot.origin, snapshot.version, snapshot.record_id, snapshot.offset,
        snapshot.at, kind, text, binary, time,
    )  # fmt: skip


def purge_writes(tables: CassandraTables, topic: str, purged: Mapping[str, int]) -> Iterator[Any]:
    """What removes the snapshots of journals that Purges have ended. `purged`: ids, and the offset of the Purge.

    Each slot is deleted at the time of its own write, so that what is saved later stays, whatever its topic's times are.
    """
    ids = list(purged)
    for id, rows in zip(ids, tables.requests.all(tables.bound("ring", id, topic) for id in ids), strict=True):
        ring, written, _ = stored_ring(rows)
        if slots := purged_slots(ring.slots, purged[id]):
            yield tables.requests.batch([tables.bound("delete_snapshot", written[slot], id, topic, slot) for slot in slots])
