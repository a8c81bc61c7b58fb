"""Where a follower of a topic of journals goes on: for each partition the next offset, and which events of its record it has had."""

from __future__ import annotations

import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from headwater.core.errors import BadInput

KEPT = "kept"
"""The word for a position at the first record that the log keeps, whatever lay before it."""
_PLACE = re.compile(
    r"([0-9]{1,19})(?:\.([0-9]{1,19}))?(?:@([0-9]{1,20}))?(?:-([0-9]{1,19})(?:~([A-Za-z0-9_-]{1,5600})(?:~([0-9]{1,19}))?)?)?"
)
_GENERATION = re.compile(r"[0-9a-f]{8}")
_MOST = 4096  # partitions


class FollowPlace(msgspec.Struct, frozen=True):
    """Where reading of one partition goes on. `had`: the number of the last event of the record at that offset which the follower
    has had, 0 for none. `epoch`: of the claim that holds there (`headwater.log.epochs`).

    `until`: the records [offset, until) are read from the store, because the log has deleted them; -1: they are read from the log. Then
    `id` and `number` are the last event of the store that the follower has had; a store is read by journals.
    """

    offset: int | None = None
    had: int = 0
    epoch: int = 0
    until: int = -1
    id: str = ""
    number: int = 0

    def __str__(self) -> str:
        if self.offset is None:
            return ""
        written = f"{self.offset}{f'.{self.had}' if self.had else ''}{f'@{self.epoch}' if self.epoch else ''}"
        if self.until < 0:
            return written
        written += f"-{self.until}"
        if not self.id:
            return written
        return f"{written}~{urlsafe_b64encode(self.id.encode()).decode().rstrip('=')}~{self.number}"

    @classmethod
    def read(cls, written: str) -> FollowPlace:
        """Errors: `BadInput`."""
        if not written:
            return cls()
        match = _PLACE.fullmatch(written)
        if match is None:
            raise _no_position(written)
        offset, had, epoch, until, id, number = match.groups()
        try:
            return cls(int(offset), int(had or 0), int(epoch or 0), -1 if until is None else int(until), _id(id), int(number or 0))
        except ValueError:
            raise _no_position(written) from None


BEGINNING = FollowPlace()


class FollowPosition(msgspec.Struct, frozen=True):
    """Places by partition. `generation`: a mark of the topic's generation, so that a position is never used for another topic of its name.

    Written as `1f0c9a2e:16,8.2`: partition 0 goes on at offset 16, partition 1 at offset 8 behind the event of the number 2. `kept`: at
    the first records that the log keeps.
    """

    places: tuple[FollowPlace, ...] = ()
    generation: str = ""
    kept: bool = False

    @classmethod
    def read(cls, written: object) -> FollowPosition:
        """Errors: `BadInput`."""
        if not isinstance(written, str):
            raise _no_position(written)
        if written == KEPT:
            return cls(kept=True)
        head, colon, rest = written.rpartition(":")
        parts = rest.split(",") if rest else []
        if (colon and not _GENERATION.fullmatch(head)) or len(parts) > _MOST:
            raise _no_position(written)
        return cls(tuple(map(FollowPlace.read, parts)), head)

    def __str__(self) -> str:
        if self.kept and not self.places:
            return KEPT
        written = ",".join(map(str, self.places))
        return f"{self.generation}:{written}" if self.generation else written

    def place(self, partition: int) -> FollowPlace:
        """Where a partition goes on."""
        return self.places[partition] if partition < len(self.places) else BEGINNING

    def at(self, partition: int, place: FollowPlace) -> FollowPosition:
        """This position with another place of one partition."""
        places = [*self.places, *[BEGINNING] * (partition + 1 - len(self.places))]
        places[partition] = place
        return FollowPosition(tuple(places), self.generation, self.kept)


def generation_mark(generation: str) -> str:
    """The mark by which positions know the generation of a topic."""
    return f"{zlib.crc32(generation.encode()):08x}"


def _id(written: str | None) -> str:
    return "" if not written else urlsafe_b64decode(written + "=" * (-len(written) % 4)).decode()


def _no_position(written: object) -> BadInput:
    return BadInput(f"{written!r:.60} is no position.", hint="Give the position of an event that was followed, or none.")
