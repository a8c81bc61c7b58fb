"""The regions that are there, by the topics of the log."""

from __future__ import annotations

from headwater.core.errors import RegionNotFound, UnknownTopic
from headwater.core.spelling import meant
from headwater.log import Log, Topic
from headwater.wal.region_topics import PART, RegionTopics, region_of


def region_list(log: Log, namespace: str | None = None) -> list[tuple[RegionTopics, Topic]]:
    """Every region, or those of a namespace, in order, each with its data topic. Blocking."""
    found = [(region, topic) for topic in log.topics() if topic.settings.owner == PART and (region := region_of(topic.name)) is not None]
    return sorted(
        (pair for pair in found if namespace is None or pair[0].namespace == namespace),
        key=lambda pair: (pair[0].namespace, pair[0].region),
    )


def known_region(log: Log, topics: RegionTopics) -> Topic:
    """The data topic of a region. Blocking. Errors: `RegionNotFound`, with the nearest one that is there."""
    try:
        topic = log.topic(topics.data)
        if topic.settings.owner == PART:
            return topic
    except UnknownTopic:
        pass
    near = meant(str(topics), (str(one) for one, _ in region_list(log)))
    raise RegionNotFound(
        f"There is no region {topics}.",
        hint=f"{f'Did you mean {near}? ' if near else ''}Create it with `headwater wal create {topics}`, or list regions with "
        "`headwater wal regions`.",
    )
