"""`headwater log check` on Kafka: classifies the records of a partition by the rule of claims. Brokers check checksums."""

from __future__ import annotations

import msgspec

from headwater.log import Log
from headwater.log.epochs import Epochs, Kind

_ONCE = 10_000
_MOST_RANGES = 1000

Ranges = tuple[tuple[int, int], ...]
"""First and last offset of each run."""


class KafkaChecked(msgspec.Struct, frozen=True, kw_only=True):
    """The counts. Claims in a deleted beginning are not known: there, plain records count until the first mark."""

    partition: int
    start: int
    end: int
    epoch: int
    records: int
    counted: int
    claims: int
    stale: int  # of Writers whose partition was claimed by others before
    foreign: int  # of no Writer of ours
    stale_offsets: Ranges  # the first 1000 runs
    foreign_offsets: Ranges


def check(log: Log, topic: str, partition: int) -> KafkaChecked:
    """Read the partition to its end and fold it. Nothing is changed. Errors: those of `Log.read`."""
    bounds = log.bounds(topic, partition)
    epochs, at = Epochs(), bounds.start
    counts = dict.fromkeys(Kind, 0)
    ranges: dict[Kind, list[tuple[int, int]]] = {Kind.STALE: [], Kind.FOREIGN: []}
    while at < bounds.end and (records := log.read(topic, partition, at, limit=_ONCE)):
        for record in records:
            offset = record.offset or 0
            if offset >= bounds.end:
                break
            kind = epochs.kind(record.key is None and record.value is None, record.headers, offset)
            counts[kind] += 1
            if kind in ranges:
                _add(ranges[kind], offset)
        at = (records[-1].offset or 0) + 1
    return KafkaChecked(
        partition=partition,
        start=bounds.start,
        end=bounds.end,
        epoch=epochs.epoch,
        records=sum(counts.values()),
        counted=counts[Kind.COUNTED],
        claims=counts[Kind.CLAIM],
        stale=counts[Kind.STALE],
        foreign=counts[Kind.FOREIGN],
        stale_offsets=tuple(ranges[Kind.STALE]),
        foreign_offsets=tuple(ranges[Kind.FOREIGN]),
    )


def _add(ranges: list[tuple[int, int]], offset: int) -> None:
    if ranges and ranges[-1][1] + 1 == offset:
        ranges[-1] = (ranges[-1][0], offset)
    elif len(ranges) < _MOST_RANGES:
        ranges.append((offset, offset))
