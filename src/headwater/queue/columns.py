"""Rows as columns: what a queue knows of each row, at its slot. A slot that is free is used again.

A million Python objects with a dozen numbers each would take a kilobyte each. Here a row is its body, and three numbers. What few rows
have stands in dicts by slot: a date of update other than that of insertion, lost leases, failures, a lane, the text of an error.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import msgspec

from headwater.queue.schedule import NEVER

FREE, RUN, HEAP, FUTURE, HELD, PROCESSING, DEAD = range(7)
"""States of a slot. `RUN`, `HEAP` and `FUTURE` are those of a waiting row, and say where it stands in the order. A held row waits for
another row, and cannot be claimed before that one is gone."""

LAST_WAITING = FUTURE
_GROWTH = 1024  # slots that are made at once


class Tries(NamedTuple):
    """How a row has fared. Most rows are claimed once, and have none of this until then."""

    attempts: int = 0
    timeouts: int = 0
    failures: int = 0


class Extras(msgspec.Struct, omit_defaults=True, frozen=True):
    """What few rows have."""

    lane: bytes = b""
    error: str = ""
    schedule: str = ""
    """As `str` writes it. `never`: a follow-up row that ends the schedule of the row that it follows."""
    run: int = 0
    """The date of the schedule's run for which the row waits, or is processed: retries and puts move the process date alone."""

    @property
    def recurs(self) -> str:
        """The schedule of a row that comes again; empty: it does not."""
        return "" if self.schedule == NEVER else self.schedule


NO_TRIES, NO_EXTRAS = Tries(), Extras()


class RowColumns:
    """The columns. `free` holds the slots that no row has."""

    __slots__ = ("bodies", "extras", "free", "homes", "ids", "states", "tries", "updates")

    def __init__(self) -> None:
        self.states = bytearray()
        self.ids = array("q")
        self.bodies: list[bytes] = []
        self.homes: dict[int, int] = {}
        """The homes of rows that were written again; that of any other row is the record that has inserted it, by its id."""
        self.updates: dict[int, int] = {}
        self.tries: dict[int, Tries] = {}
        self.extras: dict[int, Extras] = {}
        self.free: list[int] = []

    def __len__(self) -> int:
        """How many slots there are, free ones included."""
        return len(self.states)

    def take(self) -> int:
        """A free slot."""
        if not self.free:
            begin = len(self.states)
            self.grow(begin + _GROWTH)
            self.free.extend(range(begin + _GROWTH - 1, begin - 1, -1))
        return self.free.pop()

    def grow(self, slots: int) -> None:
        """Make it so many slots at least, the new ones `FREE`. Whoever replays a log counts the free ones afterwards, by `count_free`."""
        more = slots - len(self.states)
        if more > 0:
            self.states.extend(bytes(more))
            self.ids.frombytes(bytes(8 * more))
            self.bodies.extend([b""] * more)

    def give_back(self, slot: int) -> None:
        """Forget the row of a slot."""
        self.states[slot] = FREE
        self.bodies[slot] = b""
        self.forget_rare(slot)
        self.free.append(slot)

    def forget_rare(self, slot: int) -> None:
        """Forget what few rows have."""
        if self.homes:
            self.homes.pop(slot, None)
            self.updates.pop(slot, None)
        if self.tries:
            self.tries.pop(slot, None)
        if self.extras:
            self.extras.pop(slot, None)

    def count_free(self) -> None:
        """Find the free slots: the lowest are used first."""
        self.free = [slot for slot in range(len(self.states) - 1, -1, -1) if not self.states[slot]]
