"""Compares the rings of snapshots in a store with what the log says: with those of a scratch store into which the log is folded anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from headwater.core.errors import Conflict, Differs
from headwater.journal.base import JournalBases
from headwater.journal.base_copy import restore_rings
from headwater.journal.control import PartitionControl
from headwater.journal.digest import snapshot_content
from headwater.journal.discovery import JournalTopic
from headwater.journal.replication_task import gap
from headwater.journal.store import CopyStore, JournalStore, RingStore, RingView
from headwater.log import Log

_TIMES = 10

Fold = Callable[[JournalTopic, int, PartitionControl], None]
"""Folds a topic's log into the scratch store up to an offset, exclusive."""


def verify_rings(
    log: Log,
    store: JournalStore,
    scratch: JournalStore,
    journals: JournalTopic,
    snapshots: JournalTopic,
    partition: int,
    *,
    controls: tuple[PartitionControl, PartitionControl],
    fold: Fold,
) -> tuple[int, str]:
    """How many snapshots a partition's copy holds, and the first difference; empty where they are what the log says.

    `controls`: of journals and of snapshots. The journals are folded into `scratch` already, up to some pointer. Where the replicator goes
    on meanwhile, both are compared again. Errors: `LogGap` where the log of snapshots begins behind what `scratch` and the copy hold;
    `Differs` where the copy is older than the base from which `scratch` began; `Conflict` where the copy changes too quickly.
    """
    copy, start = (
        store.snapshots(snapshots.name, partition, snapshots.generation, create=False),
        log.bounds(snapshots.name, partition).start,
    )
    begun = scratch.snapshots(snapshots.name, partition, snapshots.generation)
    assert begun is not None
    at, based = -1 if copy is None else copy.pointer().offset, begun.pointer().offset
    if min(at, based) + 1 < start:
        raise gap(snapshots.name, partition, min(at, based) + 1, start)
    if copy is None or at < 0:
        return 0, ""
    if at < based:
        raise Differs(
            f"The copy of {snapshots.name}/{partition} ends at offset {at}, and its base at {based}.",
            hint=f"It is older. Let it begin with the base: `headwater journal rebuild {journals.name}`.",
        )
    for _ in range(_TIMES):
        journals_pointer = _journals_pointer(store, journals, partition)
        with copy.view() as view:
            fold(journals, journals_pointer + 1, controls[0])
            fold(snapshots, view.pointer.offset + 1, controls[1])
            expected = scratch.snapshots(snapshots.name, partition, snapshots.generation)
            assert expected is not None
            count, difference = _compared(expected, view)
            still = journals_pointer == _journals_pointer(store, journals, partition) and _unchanged(copy, view)
        if not difference or still:
            return count, difference
    raise Conflict(f"The copy of {snapshots.name}/{partition} changes while it is compared.", hint="Verify it again in a quieter moment.")


def begin_rings(
    log: Log,
    store: JournalStore,
    scratch: JournalStore,
    snapshots: JournalTopic,
    partition: int,
    *,
    bases: JournalBases | None,
    taken: bool,
    counts: Sequence[int] = (),
) -> bool:
    """Let a scratch store begin with the snapshots that the log has deleted; whether it does.

    They are those of the base; with `taken`, those of the copy where no base has them. Without `bases` it begins with none.
    `counts`: as of `RingStore.restore`.
    Errors: those of `restore_rings`.
    """
    rings = scratch.snapshots(snapshots.name, partition, snapshots.generation)
    assert rings is not None
    rings.clear()  # what a base of the journals has may be of an earlier topic of snapshots
    start = log.bounds(snapshots.name, partition).start
    if not start or bases is None:
        return True
    if bases.of_snapshots(log, snapshots, partition) is not None:
        restore_rings(bases, log, snapshots, rings, counts)
        return True
    copy = store.snapshots(snapshots.name, partition, snapshots.generation, create=False)
    if not taken or copy is None or copy.pointer().offset + 1 < start:
        return False
    with copy.view() as view:
        rings.restore(view, counts)
    return True


def _journals_pointer(store: JournalStore, topic: JournalTopic, partition: int) -> int:
    copy: CopyStore | None = store.partition(topic.name, partition, topic.generation, create=False)
    return -1 if copy is None else copy.pointer().offset


def _unchanged(copy: RingStore, view: RingView) -> bool:
    return copy.pointer().offset == view.pointer.offset


def _compared(expected: RingStore, view: RingView) -> tuple[int, str]:
    count = 0
    with expected.view() as wanted:
        for wanted_row, stored_row in zip_longest(_all(wanted), _all(view)):
            if wanted_row != stored_row:
                id, slot, *_ = stored_row or wanted_row or ("", 0)
                return count, f"Journal {id!r}, snapshot in slot {slot}: {stored_row!s:.300} instead of {wanted_row!s:.300}."
            count += 1
    return count, ""


def _all(view: RingView) -> Iterator[tuple[object, ...]]:
    after: str | None = None
    while ids := view.ids(after):
        for id in ids:
            for slot, snapshot in sorted(view.ring(id).slots.items()):
                yield (id, slot, *snapshot_content(snapshot, view.payload(id, slot, snapshot)))
        after = ids[-1]
