"""Performs the operations of the log in this process, on the door's log."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.client.local import LocalLog
from headwater.core.clock import Clock
from headwater.core.settings import Settings
from headwater.log.answers import FoundOffset, NewStart, PartitionContent, ShownBounds, TopicWithBounds
from headwater.log.json_form import ShownTopic, show_topic
from headwater.log.record import Bounds, Compacted
from headwater.wire.operation import Operation, Reply


class LogPerformer:
    """One method for each operation that has no handler of its own in the server."""

    def __init__(self, *, log: LocalLog, clock: Clock | None = None, settings: Settings | None = None, address: str = "") -> None:
        self.log = log

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str = "") -> Any:
        return await getattr(self, operation.name)(**msgspec.structs.asdict(request))

    async def topics(self) -> list[ShownTopic]:
        return [show_topic(topic) for topic in await self.log.topics()]

    async def create_topic(self, topic: str, partitions: int, settings: dict[str, str]) -> Reply[ShownTopic]:
        made, new = await self.log.make_topic(topic, partitions=partitions, settings=settings)
        return Reply(show_topic(made), 201 if new else 200)

    async def topic(self, topic: str) -> TopicWithBounds:
        described = await self.log.topic(topic)
        bounds = await self.log.all_bounds(described)
        shown = [_bounds(number, partition_bounds) for number, partition_bounds in enumerate(bounds)]
        return TopicWithBounds(**msgspec.structs.asdict(show_topic(described)), bounds=shown)

    async def delete_topic(self, topic: str) -> None:
        await self.log.delete_topic(topic)

    async def stats(self, topic: str) -> list[PartitionContent]:
        return await self.log.stats(topic)

    async def bounds(self, topic: str, partition: int) -> ShownBounds:
        return _bounds(partition, await self.log.bounds(topic, partition))

    async def offset_at(self, topic: str, partition: int, at: int) -> FoundOffset:
        return FoundOffset(await self.log.offset_at(topic, partition, at))

    async def compact(self, topic: str, partition: int, before: int | None) -> Compacted:
        return await self.log.compact(topic, partition, before)

    async def delete_before(self, topic: str, partition: int, before: int) -> NewStart:
        return NewStart(await self.log.delete_before(topic, partition, before))


def _bounds(partition: int, bounds: Bounds) -> ShownBounds:
    return ShownBounds(partition, bounds.start, bounds.end)
