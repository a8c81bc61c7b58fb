"""Reads records at given offsets. Brokers have no such request: each group of near offsets is one read from its first offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.core.errors import BadBounds
from headwater.log.kafka.readers import PartitionConsumer
from headwater.log.kafka.records import incoming
from headwater.log.record import Record, ascending

_NEAR = 500  # offsets that are read and dropped rather than skipped by a new request, which takes as long as reading so many

_AT_ONCE = 10_000


def read_at(reader: PartitionConsumer, topic: str, partition: int, offsets: Sequence[int]) -> list[Record | None]:
    """As `Log.read_at`. Errors: also `OffsetGone`, where records were deleted while they were read: ask again."""
    bounds = reader.bounds(topic, partition)
    wanted = ascending(offsets)
    if wanted and not 0 <= wanted[0] <= wanted[-1] < bounds.end:
        beyond = wanted[0] if wanted[0] < 0 else wanted[-1]
        raise BadBounds(
            f"{topic}/{partition} ends at {bounds.end}; {beyond} is not in it.", hint=f"Give offsets from 0 to {bounds.end - 1}."
        )
    records: dict[int, Record] = {}
    for stretch in stretches([offset for offset in wanted if offset >= bounds.start]):
        asked = set(stretch)
        reader.begin(topic, partition, stretch[0])
        for messages in reader.until(stretch[-1] + 1, min(_AT_ONCE, stretch[-1] + 1 - stretch[0])):
            records.update((offset, incoming(message)) for message in messages if (offset := message.offset()) in asked)
    return [records.get(offset) for offset in offsets]


def stretches(offsets: Sequence[int]) -> Iterator[list[int]]:
    """Ascending offsets in groups that are more than `_NEAR` offsets apart."""
    group: list[int] = []
    for offset in offsets:
        if group and offset - group[-1] > _NEAR:
            yield group
            group = []
        group.append(offset)
    if group:
        yield group
