"""The regions that are there, by the topics of the log."""

from __future__ import annotations

from headwater.core.errors import Damaged, RegionNotFound, UnknownTopic
from headwater.core.spelling import meant
from headwater.log import Log, Topic
from headwater.wal.region_topics import PART, RegionTopics, region_of


def region_list(log: Log, namespace: str | None = None) -> list[tuple[RegionTopics, Topic]]:
    """Every region, or those of a namespace, in order, each with its data topic. Blocking.

    Errors: `Damaged` where a topic cannot be described.
    """
    pairs = [(region, topic) for topic in log.topics() if topic.settings.owner == PART and (region := region_of(topic.name)) is not None]
    return sorted(
        (pair for pair in pairs if namespace is None or pair[0].namespace == namespace),
        key=lambda pair: (pair[0].namespace, pair[0].region),
    )


def found_regions(log: Log, namespace: str | None = None) -> list[tuple[RegionTopics, Topic | Damaged]]:
    """As `region_list`, with the damage instead of the topic where one of a region's topics cannot be described. Blocking."""
    try:
        return list(region_list(log, namespace))
    except Damaged:
        pass
    by_region: dict[RegionTopics, Topic | Damaged] = {}
    for name in log.topic_names():
        region = region_of(name) or region_of(name.replace("_meta_", "_data_"))
        if region is None or isinstance(by_region.get(region), Damaged) or namespace not in (None, region.namespace):
            continue
        try:
            topic = log.topic(name)
            if topic.settings.owner == PART and name == region.data:
                by_region[region] = topic
        except Damaged as error:
            by_region[region] = error
        except UnknownTopic:  # deleted meanwhile
            continue
    return sorted(by_region.items(), key=lambda pair: (pair[0].namespace, pair[0].region))


def data_topic(log: Log, topics: RegionTopics) -> Topic | None:
    """The data topic of a region; None where there is no such region. Blocking. Errors: `Damaged`."""
    try:
        topic = log.topic(topics.data)
    except UnknownTopic:
        return None
    return topic if topic.settings.owner == PART else None


def known_region(log: Log, topics: RegionTopics) -> Topic:
    """The data topic of a region. Blocking. Errors: `RegionNotFound`, with the nearest one that is there; `Damaged`."""
    topic = data_topic(log, topics)
    if topic is not None:
        return topic
    # By their names alone: describing a thousand topics takes seconds, and whoever asks for a wrong number would have it done.
    near = meant(str(topics), (str(region) for name in log.topic_names() if (region := region_of(name)) is not None))
    raise RegionNotFound(
        f"There is no region {topics}.",
        hint=f"{f'Did you mean {near}? ' if near else ''}Create it with `headwater wal create {topics}`, or list regions with "
        "`headwater wal regions`.",
    )
