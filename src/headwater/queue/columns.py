"""Rows as columns: what a queue knows of each row, at its slot in arrays and lists. A slot that is free is used again.

A million Python objects with a dozen numbers each would take a kilobyte each. Here the numbers of a row take about 70 bytes. What few rows
have, such as a lane or the text of an error, stands in `extras`.
"""

from __future__ import annotations

from array import array

import msgspec

FREE, WAITING, HELD, PROCESSING, DEAD = range(5)
"""States of a slot. A held row waits for another row, and cannot be claimed before that one is gone."""

NOWHERE, FUTURE = -1, -2
"""Places of a row that is in no order, and of one whose date has not come; others are those of `DueRows`."""

_GROWTH = 1024  # slots that are made at once


class Extras(msgspec.Struct, omit_defaults=True):
    """What few rows have."""

    lane: bytes = b""
    error: str = ""

    def __bool__(self) -> bool:
        return self != _NONE


_NONE = Extras()


class RowColumns:
    """The columns. `free` holds the slots that no row has."""

    __slots__ = (
        *("attempts", "data", "declarations", "expirations", "extras", "failures", "forms", "free", "homes", "ids"),
        *("insertions", "keys", "places", "priorities", "processes", "states", "timeouts", "updates"),
    )

    def __init__(self) -> None:
        self.states, self.priorities, self.forms, self.timeouts = bytearray(), bytearray(), bytearray(), bytearray()
        self.ids, self.homes, self.places = array("q"), array("q"), array("q")
        self.insertions, self.processes, self.expirations, self.updates = array("q"), array("q"), array("q"), array("q")
        self.attempts, self.failures, self.declarations = array("H"), array("H"), array("H")
        self.keys: list[bytes] = []
        self.data: list[bytes] = []
        self.extras: dict[int, Extras] = {}
        self.free: list[int] = []

    def __len__(self) -> int:
        """How many slots there are, free ones included."""
        return len(self.states)

    def take(self) -> int:
        """A free slot. Whoever takes it fills every column of it."""
        if not self.free:
            begin = len(self.states)
            self.grow(begin + _GROWTH)
            self.free.extend(range(begin + _GROWTH - 1, begin - 1, -1))
        return self.free.pop()

    def grow(self, slots: int) -> None:
        """Make it so many slots at least, the new ones `FREE`. Whoever replays a log counts the free ones afterwards, by `count_free`."""
        more = slots - len(self.states)
        if more <= 0:
            return
        for small in (self.states, self.priorities, self.forms, self.timeouts):
            small.extend(bytes(more))
        for column in (self.attempts, self.failures, self.declarations):
            column.frombytes(bytes(2 * more))
        for column in (self.ids, self.homes, self.insertions, self.processes, self.expirations, self.updates):
            column.frombytes(bytes(8 * more))
        self.places.extend([NOWHERE] * more)
        self.keys.extend([b""] * more)
        self.data.extend([b""] * more)

    def give_back(self, slot: int) -> None:
        """Forget the row of a slot."""
        self.states[slot] = FREE
        self.keys[slot] = self.data[slot] = b""
        if slot in self.extras:
            del self.extras[slot]
        self.free.append(slot)

    def count_free(self) -> None:
        """Find the free slots: the lowest are used first."""
        self.free = [slot for slot in range(len(self.states) - 1, -1, -1) if not self.states[slot]]
