"""Creates a region: its two topics, with the settings of each."""

from __future__ import annotations

import msgspec

from headwater.core.disposal import overwrites
from headwater.core.errors import AlreadyExists, BadInput, Conflict, Damaged, UnknownTopic
from headwater.log import Log
from headwater.log.record import TopicSettings
from headwater.wal.region_deletion import leftover
from headwater.wal.region_topics import PART, RegionTopics

_SMALLEST = 1024  # bytes of the largest record: a snapshot's chunk needs as much


def create_region(log: Log, topics: RegionTopics, settings: TopicSettings | None = None, *, copies: int = 0) -> bool:
    """Create a region's topics; return whether it is new. Blocking. `copies`: as for `Log.create_topic`.

    Errors: `AlreadyExists` where it is there with other settings; `Conflict` where a deletion of it was interrupted.
    """
    if settings is not None and settings.max_record < _SMALLEST:
        raise BadInput(f"Records of {settings.max_record} bytes are too small for a region.", hint=f"Give max_record={_SMALLEST} or more.")
    new = False
    try:
        log.topic(topics.data)
    except UnknownTopic:
        new = True
    except Damaged:  # a lost description is made anew; a rotten one raises once more
        log.create_topic(topics.data, settings=settings, part=PART, copies=copies)
    if leftover(log, topics):
        raise Conflict(
            f"Region {topics} has snapshots and no log: it was deleted halfway, or its log is lost.",
            hint=f"Restore {topics.data} from a backup, or remove the rest with `headwater wal delete {topics}`.",
        )
    create_meta(log, topics, (settings and meta_settings(log, settings)) if new else lost_meta(log, topics), copies=copies)
    log.create_topic(topics.data, settings=settings, part=PART, copies=copies)  # last: with it the region is there
    return new


def lost_meta(log: Log, topics: RegionTopics) -> TopicSettings | None:
    """The settings with which the meta topic of a region is made anew; None where it is there, with its own."""
    try:
        log.topic(topics.meta)
        return None
    except (UnknownTopic, Damaged):
        return meta_settings(log, msgspec.structs.replace(log.topic(topics.data).settings, owner=""))


def create_meta(log: Log, topics: RegionTopics, settings: TopicSettings | None, *, copies: int = 0) -> None:
    """Create the meta topic. One that is there stays as it is; an empty one, which other settings were given, is made anew."""
    try:
        log.create_topic(topics.meta, settings=settings, part=PART, copies=copies)
    except AlreadyExists:
        if log.topic(topics.meta).settings.owner != PART or log.bounds(topics.meta, 0).end:
            raise
        # Empty, and there is no data topic: who began to create the region has died, and nobody could ever give it these settings.
        log.delete_topic(topics.meta, part=PART)
        log.create_topic(topics.meta, settings=settings, part=PART, copies=copies)


def meta_settings(log: Log, settings: TopicSettings) -> TopicSettings:
    """The settings of the meta topic of such a data topic: no period, and of the disposals the secure ones alone.

    On Kafka they are the same, so that what brokers refuse is refused before anything is made.
    """
    if log.engine == "kafka":
        return settings
    return msgspec.structs.replace(settings, period=0, disposal=settings.disposal if overwrites(settings.disposal) else "delete")
