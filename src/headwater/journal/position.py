"""Where a follower of a topic of journals goes on: for each partition the next offset, and how many events of its record it has had."""

from __future__ import annotations

import re

import msgspec

from headwater.core.errors import BadInput

_WRITTEN = re.compile(r"(?:[0-9]{1,19}(?:\.[0-9]{1,9})?)?(?:,(?:[0-9]{1,19}(?:\.[0-9]{1,9})?)?){0,4095}")


class FollowPosition(msgspec.Struct, frozen=True):
    """Next offsets by partition. `skip`: events of the record at that offset which the follower has had.

    Written as `16,8.2`: partition 0 goes on at offset 16, partition 1 at offset 8 behind its second event.
    """

    places: tuple[tuple[int | None, int], ...] = ()

    @classmethod
    def read(cls, written: object) -> FollowPosition:
        """Errors: `BadInput`."""
        if not isinstance(written, str) or not _WRITTEN.fullmatch(written):
            raise BadInput(f"{written!r:.60} is no position.", hint="Give the position of an event that was followed, or none.")
        return cls(tuple(_place(part) for part in written.split(","))) if written else cls()

    def __str__(self) -> str:
        return ",".join("" if offset is None else f"{offset}.{skip}" if skip else str(offset) for offset, skip in self.places)

    def place(self, partition: int) -> tuple[int | None, int]:
        """The next offset of a partition, None for its first one, and how many of its events to leave out."""
        return self.places[partition] if partition < len(self.places) else (None, 0)

    def at(self, partition: int, offset: int, skip: int = 0) -> FollowPosition:
        """This position with another place of one partition."""
        places = [*self.places, *[(None, 0)] * (partition + 1 - len(self.places))]
        places[partition] = (offset, skip)
        return FollowPosition(tuple(places))


def _place(written: str) -> tuple[int | None, int]:
    offset, _, skip = written.partition(".")
    return (int(offset) if offset else None, int(skip or 0))
