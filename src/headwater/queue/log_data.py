"""The data of rows that are on the log alone: which records hold them, how many bytes they have, and which are kept in memory beside it."""

from __future__ import annotations

from headwater.queue.body import place_in
from headwater.queue.data_place import DataPlace
from headwater.queue.homes import Homes
from headwater.queue.kept_data import KeptData


class LogData:
    """Belongs to a fold. A record that holds the data of a row is needed as its home is."""

    __slots__ = ("_homes", "bytes", "homes", "kept")

    def __init__(self, homes: Homes) -> None:
        self._homes = homes
        self.homes: dict[int, int] = {}
        """By slot: the record that holds a row's data, where it is another one than the row's home."""
        self.bytes = 0
        self.kept = KeptData()

    def need(self, slot: int, body: bytes, home: int) -> None:
        """A row whose data are on the log was written, by the record `home`."""
        place = place_in(body)
        self.bytes += place.length
        if (sequence := place.sequence) != home:
            self.homes[slot] = sequence
            self._homes.add(sequence)

    def leave(self, slot: int, body: bytes) -> None:
        """Such a row goes, or is about to be written whole."""
        place = place_in(body)
        self.bytes -= place.length
        self.kept.remove(place)
        if sequence := self.homes.pop(slot, 0):
            self._homes.leave(sequence)

    def of(self, place: bytes) -> bytes:
        """What stands at the end of a body: the data where they are kept, or their place."""
        return self.kept.get(DataPlace(place))
