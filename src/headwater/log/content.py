"""Statistics of partitions, in one form for both engines."""

from __future__ import annotations

from headwater.log import Log
from headwater.log.answers import PartitionContent


def content_of(log: Log, topic: str) -> list[PartitionContent]:
    """The statistics of every partition of a topic. A damaged partition is marked so; the others are listed. Errors: `UnknownTopic`."""
    return [_content(log, topic, number) for number in range(log.topic(topic).partitions)]


def _content(log: Log, topic: str, partition: int) -> PartitionContent:
    from headwater.log.embedded.log import EmbeddedLog

    if isinstance(log, EmbeddedLog):
        from headwater.log.embedded.check import stats

        statistics = stats(log.reader(topic, partition))
        return PartitionContent(
            topic=topic,
            partition=partition,
            start=statistics.start,
            end=statistics.end,
            segments=statistics.segments,
            bytes=statistics.bytes,
            epoch=statistics.epoch,
            cuts=statistics.cuts,
            damage=statistics.damage,
            drained=statistics.drained,
            spares=statistics.spares,
        )
    bounds = log.bounds(topic, partition)
    return PartitionContent(topic=topic, partition=partition, start=bounds.start, end=bounds.end)
