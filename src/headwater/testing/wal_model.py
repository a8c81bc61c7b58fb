"""A model of a region: what was acknowledged, and what may or may not have happened. It checks what a region gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from headwater.core.errors import Fenced, HeadwaterError, OutcomeUnknown, UnknownTable
from headwater.wal.region import Region

Tables = dict[int, dict[int, bytes]]


class RegionModel:
    """Takes random steps on a region and remembers their outcomes.

    Every payload is written once, so that each one found can be told from all others. A step that failed may have happened or not.
    """

    def __init__(self, random: Random, *, tables: int = 4) -> None:
        self.random, self._tables = random, tables
        self.acknowledged: Tables = {}  # by table and sequence, of its present life
        self.marked: dict[int, int] = {}  # the last sequence that is certainly flushed
        self.maybe_marked: dict[int, int] = {}  # and that may be
        self.maybe_written: set[bytes] = set()
        self.maybe_dropped: set[int] = set()
        self._number = 0

    async def step(self, region: Region) -> None:
        """One random step. Errors: `Fenced` alone: others are noted."""
        table, dice = self.random.randrange(self._tables), self.random.random()
        if dice < 0.6 or table not in self.acknowledged:
            await self._write(region, table)
        elif dice < 0.78:
            await self._mark(region, table)
        elif dice < 0.84:
            await self._drop(region, table)
        elif dice < 0.9:
            await self._changes_nothing(lambda: region.move(table))
        elif dice < 0.95:
            await self._changes_nothing(region.snapshot)
        else:
            await self._changes_nothing(region.clean)

    async def _write(self, region: Region, table: int) -> None:
        count = self.random.choice([1, 1, 2, 5])
        payloads = [b"%d" % (self._number + place) for place in range(count)]
        self._number += count
        try:
            last = await region.write(table, payloads)
        except Fenced:
            raise
        except OutcomeUnknown:
            self.maybe_written.update(payloads)
        except HeadwaterError:
            self.maybe_written.update(payloads)  # of a batch that others were in: the error may be theirs
        else:
            if table in self.maybe_dropped and last == count:  # it was dropped: this is a new life
                self._forget(table)
            lived = self.acknowledged.setdefault(table, {})
            first = last - count + 1
            assert not lived.keys() & set(range(first, last + 1)), f"{first} to {last} of table {table} were given before"
            lived.update(zip(range(first, last + 1), payloads, strict=True))

    async def _mark(self, region: Region, table: int) -> None:
        last = max(self.acknowledged[table], default=0)
        sequence = self.random.randrange(last + 2)
        try:
            done = await region.mark_delete_up_to(table, sequence)
        except Fenced:
            raise
        except UnknownTable:
            assert table in self.maybe_dropped
            self._forget(table)
        except HeadwaterError:
            self.maybe_marked[table] = max(sequence, self.maybe_marked.get(table, 0))
        else:
            self.marked[table] = max(done.sequence, self.marked.get(table, 0))

    async def _drop(self, region: Region, table: int) -> None:
        try:
            await region.drop_table(table)
        except Fenced:
            raise
        except UnknownTable:
            assert table in self.maybe_dropped
            self._forget(table)
        except HeadwaterError:
            self.maybe_dropped.add(table)
        else:
            self._forget(table)

    async def _changes_nothing(self, call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
        except Fenced:
            raise
        except HeadwaterError:
            pass

    def _forget(self, table: int) -> None:
        self.acknowledged.pop(table, None)
        self.marked.pop(table, None)
        self.maybe_marked.pop(table, None)
        self.maybe_dropped.discard(table)

    async def check(self, region: Region) -> None:
        """Everything acknowledged and not flushed is there, under its number; everything that is there was written."""
        tables: Tables = {}
        async for entry in region.scan():
            table = tables.setdefault(entry.table, {})
            assert entry.sequence not in table, f"{entry.sequence} of table {entry.table} came twice"
            assert not table or entry.sequence == max(table) + 1, f"{entry.sequence} of table {entry.table} came behind {max(table)}"
            table[entry.sequence] = entry.payload
        for number, lived in self.acknowledged.items():
            payloads = tables.pop(number, {})
            if number in self.maybe_dropped and (not payloads or min(payloads) == 1):
                continue
            flushed, perhaps = self.marked.get(number, 0), self.maybe_marked.get(number, 0)
            for sequence, payload in lived.items():
                if sequence in payloads:
                    assert payloads[sequence] == payload, (
                        f"{sequence} of table {number} is {payloads[sequence]!r}, and {payload!r} was acknowledged"
                    )
                    assert sequence > flushed, f"{sequence} of table {number} was flushed up to {flushed}"
                else:
                    assert sequence <= max(flushed, perhaps), f"{sequence} of table {number} is gone, and was flushed up to {flushed}"
            assert {content for sequence, content in payloads.items() if sequence not in lived} <= self.maybe_written
            assert region.sequence_num(number) >= max(lived, default=0)
        for number, payloads in tables.items():
            assert set(payloads.values()) <= self.maybe_written, f"table {number} has {payloads}, which nobody wrote"
