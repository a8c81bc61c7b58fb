"""Which partition a key belongs to: the function that Kafka's Java clients use, so that every client agrees, on both engines."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headwater.core.errors import BadInput, MissingKey
from headwater.log.record import Record, unfit

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C


def partition_for(key: bytes, count: int) -> int:
    """The partition of `key` among `count`: the same in every process and every version, and the same as a Java producer's.

    Errors: `BadInput` for a count below 1.
    """
    if count < 1:
        raise BadInput(f"A topic cannot have {count} partitions.", hint="Give the topic's partition count.")
    return (murmur2(key) & 0x7FFFFFFF) % count  # Java drops the sign bit, it does not negate


def places(topic: str, records: Sequence[Record], count: int) -> dict[int, list[int]]:
    """Which of the records, by their index, belong to which partition of a topic with `count` of them.

    Errors: `BadInput` for what are no records, `MissingKey` for a record without a key where there are several partitions.
    """
    numbers: dict[int, list[int]] = {}
    try:
        for index, record in enumerate(records):
            if record.key is None and count > 1:
                raise MissingKey(
                    f"Record {index} has no key, and topic {topic} has {count} partitions.", hint="Give it a key, or name the partition."
                )
            numbers.setdefault(0 if record.key is None else partition_for(record.key, count), []).append(index)
    except (TypeError, AttributeError, ValueError, struct.error) as error:
        raise unfit(records, error) from error
    return numbers


def murmur2(data: bytes) -> int:
    """MurmurHash2 with Kafka's seed, as an unsigned 32-bit number."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = k * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15
