"""Deletes a region with everything in it.

1. Own the data topic: a living owner elsewhere is not disturbed. 2. Delete the data topic: from here on there is no such region. 3. Delete
the meta topic. After a death between 2 and 3 its snapshots are left, which `create_region` refuses to build on; the next deletion removes
them.
"""

from __future__ import annotations

from headwater.cluster import Ownership
from headwater.core.errors import UnknownTopic
from headwater.log import Log
from headwater.wal.region_list import known_region
from headwater.wal.region_topics import PART, RegionTopics


def check_deletable(log: Log, topics: RegionTopics) -> int:
    """How many offsets the log of the region has; 0 for one whose deletion was interrupted. Blocking. Errors: `RegionNotFound`."""
    if not leftover(log, topics):
        known_region(log, topics)
        bounds = log.bounds(topics.data, 0)
        return bounds.end - bounds.start
    return 0


def delete_region(log: Log, ownership: Ownership, topics: RegionTopics, *, held: bool = False) -> int:
    """Delete a region that is not open in this process; return how many offsets its log had. Blocking.

    `held`: this process has owned it until now. Of one that was taken over from a living process, Kafka's group still names that one.
    Errors: `RegionNotFound`; `NotOwner` while another process owns it.
    """
    count = check_deletable(log, topics)
    if not leftover(log, topics):
        owned = ownership.own(topics.data, 0, take_over=held and log.engine == "kafka", part=PART)
        try:
            log.delete_topic(topics.data, part=PART)
        except BaseException:
            owned.release()
            raise
        owned.release_deleted()
    try:
        log.delete_topic(topics.meta, part=PART)
    except UnknownTopic:  # lost, as `recover --accept-loss` would tell; nothing is left of the region
        return count
    return count


def leftover(log: Log, topics: RegionTopics) -> bool:
    """Whether only the meta topic is there, with snapshots in it: the rest of a deletion that was interrupted."""
    try:
        log.topic(topics.data)
        return False
    except UnknownTopic:
        pass
    try:
        bounds = log.bounds(topics.meta, 0)
    except UnknownTopic:
        return False
    return log.topic(topics.meta).settings.owner == PART and bounds.end > 0
