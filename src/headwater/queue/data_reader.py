"""Reads the data of rows that are on the log alone, for answers that have them.

Many rows are read together, in one step of a thread: those of an answer, and those of all answers that wait when the step before ends.

While rows are read, the records that hold their data count as needed, so that nothing removes them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import force_setattr

from headwater.core.errors import Damaged, HeadwaterError
from headwater.queue.data_place import DataPlace
from headwater.queue.fold import QueueFold
from headwater.queue.row import Row
from headwater.wal.region import Region

Found = Mapping[DataPlace, bytes | HeadwaterError]
_RECENT = 16 << 20  # bytes of records of many rows that are kept: the next claim is mostly of the same one


class DataReader:
    """Reads data of one table by their places."""

    def __init__(self, region: Region, table: int) -> None:
        self._region, self._table = region, table
        self._recent: OrderedDict[int, bytes] = OrderedDict()
        self._size = 0  # of the recent ones
        self._wanted: list[tuple[list[DataPlace], asyncio.Future[Found]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def read(self, places: Iterable[DataPlace]) -> Found:
        """The data at each place, or why they cannot be read. Their records must be durable."""
        wanted = list(places)
        if not wanted:
            return {}
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._wanted.append((wanted, future))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all())
        return await future

    async def _read_all(self) -> None:
        """Read for all who wait, until nobody does."""
        try:
            while self._wanted:
                asking, self._wanted = self._wanted, []
                outcomes = await self._found([place for places, future in asking if not future.done() for place in places])
                for _, future in asking:
                    if not future.done():  # its caller may have given up
                        future.set_result(outcomes)
        finally:
            self._reading = None
            for _, future in self._wanted:
                future.cancel()

    async def _found(self, places: Iterable[DataPlace]) -> Found:
        wanted: dict[int, list[DataPlace]] = {}
        for place in dict.fromkeys(places):
            wanted.setdefault(place.sequence, []).append(place)
        outcomes: dict[DataPlace, bytes | HeadwaterError] = {}
        for sequence in [sequence for sequence in wanted if sequence in self._recent]:
            self._recent.move_to_end(sequence)
            outcomes.update(self._cut(self._recent[sequence], wanted.pop(sequence)))
        if wanted:
            more, large = await asyncio.to_thread(self._read, wanted)
            outcomes.update(more)
            for sequence, payload in large:
                self._keep(sequence, payload)
        return outcomes

    def _read(self, wanted: Mapping[int, Sequence[DataPlace]]) -> tuple[Found, list[tuple[int, bytes]]]:
        """In a thread. What was found, and records that hold much beside it."""
        outcomes: dict[DataPlace, bytes | HeadwaterError] = {}
        large: list[tuple[int, bytes]] = []
        try:
            for sequence, payload in self._region.payloads_at(self._table, sorted(wanted)):
                outcomes.update(self._cut(payload, wanted[sequence]))
                if len(payload) <= _RECENT and len(payload) > 2 * sum(place.length for place in wanted[sequence]):
                    large.append((sequence, payload))
                    del large[:-4]
        except HeadwaterError as error:
            left = [sequence for sequence, places in wanted.items() if places[0] not in outcomes]
            if len(wanted) == 1:
                return dict.fromkeys(wanted[left[0]], error), []
            for sequence in left:  # one by one: one that cannot be read does not spoil the others
                outcomes.update(self._read({sequence: wanted[sequence]})[0])
        return outcomes, large

    def _cut(self, payload: bytes, places: Sequence[DataPlace]) -> Iterator[tuple[DataPlace, bytes | HeadwaterError]]:
        for place in places:
            data = place.cut(payload)
            if data is None:
                text = f"Payload {place.sequence} of a queue in region {self._region.topics} does not hold the data of its row."
                yield place, Damaged(text, hint=f"See it with `headwater log show {self._region.topics.data}`.")
            else:
                yield place, data

    def _keep(self, sequence: int, payload: bytes) -> None:
        if sequence not in self._recent:
            self._recent[sequence] = payload
            self._size += len(payload)
        while self._size > _RECENT:
            self._size -= len(self._recent.popitem(last=False)[1])

    async def fill(self, rows: Sequence[Row]) -> None:
        """Give rows their data that have only the places of these. Errors: what reading raises, `Damaged` and `OffsetGone` among it."""
        outcomes = await self.read(places_of(rows))
        for row in rows:
            if type(row.data) is DataPlace:
                give_data(row, outcomes[row.data])


def places_of(rows: Iterable[Row]) -> list[DataPlace]:
    """The places of data that are not there."""
    return [row.data for row in rows if type(row.data) is DataPlace]


def give_data(row: Row, data: bytes | HeadwaterError) -> None:
    """Give a row its data. Nobody else has it yet. Raises what is no data."""
    if isinstance(data, HeadwaterError):
        raise data
    force_setattr(row, "data", data)


@contextmanager
def held(fold: QueueFold, places: Sequence[DataPlace]) -> Iterator[None]:
    """Keep the records that hold data, while they are read."""
    for place in places:
        fold.homes.add(place.sequence)
    try:
        yield
    finally:
        for place in places:
            fold.homes.leave(place.sequence)
