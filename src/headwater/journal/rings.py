"""The rings of a copy of snapshots, as another copy takes them over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from headwater.journal.snapshot import Copied, Snapshot, life_ended
from headwater.journal.store import RingView


def pages_of_ids(view: RingView) -> Iterator[Sequence[str]]:
    """The journals with snapshots, sorted."""
    after: str | None = None
    while ids := view.ids(after):
        yield ids
        after = ids[-1]


def living_rings(
    view: RingView, ids: Sequence[str], pointer: int, copied: Callable[[str], Copied]
) -> Iterator[tuple[str, Mapping[int, Snapshot]]]:
    """Of these journals: the slots of their rings, with payloads, without snapshots whose life has ended at `pointer`.

    `pointer`: of the journals' copy beside which they come to lie; `copied` looks a journal up there.
    """
    for id in ids:
        slots = view.ring(id).slots
        ends = any(snapshot.at <= pointer + 1 for snapshot in slots.values())
        stored = copied(id) if ends else None
        living = {slot: snapshot for slot, snapshot in slots.items() if not (ends and life_ended(snapshot, pointer, stored))}
        if living:
            yield (
                id,
                {slot: msgspec.structs.replace(snapshot, payload=view.payload(id, slot, snapshot)) for slot, snapshot in living.items()},
            )
