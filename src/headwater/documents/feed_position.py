"""Where a feed of many documents goes on: for each partition the next offset, and how many changes of its record were had."""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

import msgspec

from headwater.core.errors import BadInput

_POSITION = re.compile(r"([0-9a-f]{8}):((?:[0-9]{1,19}(?:\.[0-9]{1,9})?)(?:,[0-9]{1,19}(?:\.[0-9]{1,9})?)*)")


class FeedPlace(NamedTuple):
    """The record to go on with, and how many of its changes were had."""

    offset: int
    had: int = 0

    def __str__(self) -> str:
        return f"{self.offset}.{self.had}" if self.had else str(self.offset)


class FeedPosition(msgspec.Struct, frozen=True):
    """Places by partition. `mark`: of the topic's generation, so that no position is used for another topic of its name.

    Written as `1f0c9a2e:16,8.2`: partition 0 goes on at offset 16, partition 1 at offset 8 behind two of its changes.
    """

    mark: str
    places: tuple[FeedPlace, ...]

    def __str__(self) -> str:
        return f"{self.mark}:{','.join(map(str, self.places))}"

    @classmethod
    def read(cls, written: str) -> FeedPosition:
        """Errors: `BadInput`."""
        match = _POSITION.fullmatch(written)
        if match is None:
            raise BadInput(f"{written!r:.60} is no position of a feed.", hint="Give the id of an event that was followed, or none.")
        parts = [part.partition(".") for part in match[2].split(",")]
        return cls(match[1], tuple(FeedPlace(int(offset), int(had or 0)) for offset, _, had in parts))

    def at(self, partition: int, place: FeedPlace) -> FeedPosition:
        """This position with another place of one partition."""
        return FeedPosition(self.mark, (*self.places[:partition], place, *self.places[partition + 1 :]))


def feed_mark(generation: str) -> str:
    """The mark by which positions know the generation of a topic."""
    return f"{zlib.crc32(generation.encode()):08x}"
