"""Folds the store of a partition of documents anew from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwater.core.errors import Cancelled, Differs, LogGap
from headwater.documents.replay import replay
from headwater.documents.store import DocumentStore
from headwater.log import Log
from headwater.log.record import Topic
from headwater.wire.progress import report


def rebuild_partition(
    log: Log,
    store: DocumentStore,
    topic: Topic,
    partition: int,
    *,
    base: DocumentStore | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Clear the store of a partition and fold the log anew; return the applied offset. Blocking; reports progress.

    Only the owner of the partition may call it, while it applies nothing else; readers meanwhile take what the store lacks from the log.
    What is interrupted goes on from the applied offset, as after any death: every slice is applied whole.
    `base`: a verified copy, from which the fold begins where the log no longer begins at 0.

    Errors: `LogGap` where the log no longer begins at 0 and no base leads up to it, and `Differs` for a base that is newer than the log:
    the store stays as it is. `Cancelled`; those of the log and the store.
    """
    applied = check_beginning(log, topic, partition, base)
    end = log.bounds(topic.name, partition).end
    if base is not None and applied:
        with base.view() as view:
            store.clear()  # also of a store that belongs to another topic
            store.restore(view)
    else:
        store.clear()
    for done in fold_log(log, store, topic, partition, end):
        report(done, end)
        if stopped():
            raise Cancelled(
                f"Stopped at offset {done} of {end}; the store goes on from there by itself.", hint="Start it again to begin anew."
            )
    return end


def check_beginning(log: Log, topic: Topic, partition: int, base: DocumentStore | None) -> int:
    """The offset from which the log is folded: 0, or where the base ends that a log without its first records needs.

    Errors: `LogGap`, `Differs`.
    """
    bounds, place = log.bounds(topic.name, partition), f"{topic.name}/{partition}"
    if bounds.start == 0:
        return 0
    if base is None:
        raise LogGap(
            f"The log of {place} begins at offset {bounds.start}, and there is no base copy that holds the records before.",
            hint="Bring back the older log, or keep the store as it is.",
        )
    with base.view() as view:
        applied = view.applied()
    if applied < bounds.start:
        raise LogGap(
            f"The base copy of {place} ends at offset {applied}, and the log begins at {bounds.start}: the records between are in neither.",
            hint="Bring back a newer base copy or an older log.",
        )
    if applied > bounds.end:
        raise Differs(
            f"The base copy of {place} ends at offset {applied}, and the log at {bounds.end}: it is older than the copy.",
            hint="Bring the newer log back.",
        )
    return applied


def fold_log(log: Log, store: DocumentStore, topic: Topic, partition: int, end: int) -> Iterator[int]:
    """Apply what a store lacks of the log up to `end`; yield the applied offset after each slice. Errors: those of `replay` and `apply`."""
    with store.view() as view:
        applied = view.applied()
    for records, stop in replay(log, topic.name, partition, applied, end):
        if log.engine == "kafka":
            # The record before an applied offset must be one that counts: its mark is the epoch with which the next fold begins.
            stop = records[-1].offset + 1 if records else applied
        if stop > applied:
            store.apply(records, stop, since=applied)
            applied = stop
        yield applied
