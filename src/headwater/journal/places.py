"""Where the records of a journal lie: by each number of partitions that its topic has had."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.log.partitioner import partition_for


def places_of(key: bytes, counts: Sequence[int]) -> tuple[int, ...]:
    """The partitions of a journal, older ones first, each once; the last one is where its records are appended now.

    `counts`: the numbers of partitions that the topic has had, older ones first.
    """
    places: dict[int, None] = {}
    for count in counts:
        place = partition_for(key, count)
        places.pop(place, None)  # one to which the journal came back is its newest
        places[place] = None
    return tuple(places)


def moved_here(key: bytes, counts: Sequence[int], partition: int) -> bool:
    """Whether a journal has an older place than this partition."""
    places = places_of(key, counts) if len(counts) > 1 else ()
    return partition in places[1:]
