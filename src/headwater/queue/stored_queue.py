"""A queue by its log alone, whoever owns it: for readers that want no claim, such as Spark and `headwater doctor`."""

from __future__ import annotations

from headwater.core.errors import Damaged
from headwater.log import Log
from headwater.queue.catalogue_fold import QueueEntry
from headwater.queue.fold import QueueFold
from headwater.queue.records import Malformed
from headwater.queue.region_hints import NAMESPACE
from headwater.queue.replay import replay
from headwater.wal.region_topics import region_topics
from headwater.wal.view import RegionView


def stored_fold(log: Log, entry: QueueEntry, *, now: int) -> tuple[QueueFold, dict[int, bytes]]:
    """A queue as its log has it, whoever owns it; and the payloads, by sequence. Blocking. Errors: `RegionNotFound`, `Damaged`."""
    topics = region_topics(NAMESPACE, entry.region)
    following, entries = RegionView(log, topics).table(entry.table)
    fold = QueueFold(entries[0].sequence if entries else following, table=entry.table)
    for one in entries:
        try:
            replay(fold, one.sequence, one.payload)
        except Malformed as error:
            raise Damaged(
                f"Record {one.offset} of {topics.data} cannot be read as one of a queue: {error}.",
                hint=f"See it with `headwater log show {topics.data} {one.offset}`.",
            ) from error
    fold.skip_to(following)
    fold.finish(now)
    return fold, {one.sequence: one.payload for one in entries}
