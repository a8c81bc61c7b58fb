"""Rows as columns: what a queue knows of each row, at its slot. A slot that is free is used again.

A million Python objects with a dozen numbers each would take a kilobyte each. Here a row is its body, and three numbers. What few rows
have stands in dicts by slot: a date of update other than that of insertion, lost leases, failures, a lane, the text of an error, the rows
that it waits for.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from headwater.queue.dependencies import Dependencies
from headwater.queue.schedule import NEVER
from headwater.queue.sized_dict import SizedDict, text_size

FREE, RUN, HEAP, FUTURE, HELD, PROCESSING, DEAD, BLOCKED = range(8)
"""States of a slot. `RUN`, `HEAP` and `FUTURE` are those of a waiting row, and say where it stands in the order. A held row waits for
the row of its key, and cannot be claimed before that one is gone. A blocked row waits for rows of other keys."""

LAST_WAITING = FUTURE
_GROWTH = 1024  # slots that are made at once
EXTRAS_NAMES = 64
"""Bytes of the names of extras in a record, and of the numbers among them: the most."""
_ID = 9  # bytes of an id in them


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
    unique_for: int = 0
    """Milliseconds for which its key is remembered when it is done."""
    absorbed: Sequence[int] = ()
    """Ids of follow-up rows that it has taken up: their puts wait for this row's end."""

    @property
    def recurs(self) -> str:
        """The schedule of a row that comes again; empty: it does not."""
        return "" if self.schedule == NEVER else self.schedule


NO_TRIES, NO_EXTRAS = Tries(), Extras()


def extras_size(extras: Extras) -> int:
    """About how many bytes a record has of them."""
    error = text_size(extras.error) if extras.error else 0
    return EXTRAS_NAMES + len(extras.lane) + error + len(extras.schedule) + _ID * len(extras.absorbed)


class RowColumns:
    """The columns. `free` holds the slots that no row has."""

    __slots__ = ("absorbed", "bodies", "by_id", "extras", "free", "homes", "ids", "states", "tries", "updates", "waits")

    def __init__(self) -> None:
        self.states = bytearray()
        self.ids = array("q")
        self.bodies: list[bytes] = []
        self.homes = array("q")
        """The homes of rows that were written again; 0: the record that has inserted the row, by its id. Empty until there is a first."""
        self.updates: dict[int, int] = {}
        self.tries: dict[int, Tries] = {}
        self.extras: SizedDict[int, Extras] = SizedDict(extras_size)
        self.absorbed: dict[int, int] = {}
        """The slots of rows by the ids of the follow-up rows that they have taken up."""
        self.waits = Dependencies()
        self.by_id: dict[int, int] | None = None
        """The slots by id, from the first `find` on."""
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
            if self.homes:
                self.homes.frombytes(bytes(8 * more))

    def use_homes(self) -> array[int]:
        """The column of homes, where a row is written again."""
        if not self.homes:
            self.homes.frombytes(bytes(8 * len(self.states)))
        return self.homes

    def give_back(self, slot: int) -> None:
        """Forget the row of a slot."""
        if self.by_id is not None:
            self.by_id.pop(self.ids[slot], None)
        self.states[slot] = FREE
        self.bodies[slot] = b""
        self.forget_rare(slot)
        self.free.append(slot)

    def give_back_all(self, slots: Sequence[int]) -> None:
        """`give_back` of many."""
        states, bodies, by_id = self.states, self.bodies, self.by_id
        if by_id is not None:
            for slot in slots:
                by_id.pop(self.ids[slot], None)
        for slot in slots:
            states[slot] = FREE
            bodies[slot] = b""
        if self.tries or self.extras or self.waits.after:
            for slot in slots:
                self.forget_rare(slot)
        elif self.homes:
            for slot in slots:
                self.homes[slot] = 0
            for slot in self.updates.keys() & slots:
                del self.updates[slot]
        self.free.extend(slots)

    def forget_rare(self, slot: int) -> None:
        """Forget what few rows have."""
        if self.homes:
            self.homes[slot] = 0
            self.updates.pop(slot, None)
        if self.tries:
            self.tries.pop(slot, None)
        if self.extras:
            self.disown(slot)
            self.extras.pop(slot, None)
        if self.waits.after:
            self.waits.forget(slot)

    def keep_rare(self, slot: int, extras: dict[str, Any]) -> None:
        """Keep what few rows have: that of a new row, as a record has it."""
        after = extras.get("after")
        if after:
            self.waits.add(slot, after, cancels=extras.get("after_dead") == "cancel")
            extras = {name: value for name, value in extras.items() if name not in ("after", "after_dead")}
        if extras:
            self.extras[slot] = Extras(**extras)
            self.absorbed.update(dict.fromkeys(extras.get("absorbed", ()), slot))

    def find(self, id: int) -> int:
        """The slot of a row, dead or not; -1: it is gone."""
        if self.by_id is None:
            self.by_id = {self.ids[slot]: slot for slot, state in enumerate(self.states) if state}
        return self.by_id.get(id, -1)

    def heir(self, id: int) -> int:
        """The id of a row, or of the one that has taken it up, dead or not; -1: it is gone."""
        if self.find(id) >= 0:
            return id
        slot = self.absorbed.get(id, -1)
        return -1 if slot < 0 else self.ids[slot]

    def disown(self, slot: int) -> None:
        """The row is no longer found by the ids of follow-up rows that it has taken up."""
        for id in self.extras[slot].absorbed if self.absorbed and slot in self.extras else ():
            self.absorbed.pop(id, None)

    def count_free(self) -> None:
        """Find the free slots: the lowest are used first."""
        import numpy as np  # a command's help loads this file, and must not wait for numpy

        self.free = np.flatnonzero(np.frombuffer(self.states, np.uint8) == FREE)[::-1].tolist()
