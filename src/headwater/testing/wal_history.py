"""A history of a region, told call by call: ten callers at once, who may die at any moment, and what must be found afterwards.

Every payload is written once. Each line says that a call begins or how it ended, in the order in which that happened; the last lines of a
killed process may be missing, so that a call without an end may have happened or not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from headwater.core.errors import Closed, Fenced, HeadwaterError, UnknownTable
from headwater.wal.region import Region

Tell = Callable[[dict[str, Any]], None]
TABLES = CALLERS = 10


async def live(region: Region, random: Random, tell: Tell, *, steps: int, name: str, callers: int = CALLERS) -> None:
    """Ten callers take so many steps each, on ten tables. Errors are told, and the callers go on; `Fenced` and `Closed` end them."""
    number = 0

    async def caller(own: Random) -> None:
        nonlocal number
        for _ in range(steps):
            table, dice = own.randrange(TABLES), own.random()
            try:
                last = region.sequence_num(table)
            except Closed:
                return
            number += 1
            line: dict[str, Any] = {"call": f"{name}.{number}", "table": table}
            call: Callable[[], Any]
            if dice < 0.62:
                count = own.choice([1, 1, 1, 2, 5])
                payloads = [f"{name}.{number}.{place}" for place in range(count)]
                sizes = own.choice([0, 0, 0, 900])
                call = partial(region.write, table, [payload.encode().ljust(sizes) for payload in payloads])
                line |= {"begin": "write", "payloads": payloads}
            elif dice < 0.8:
                sequence = max(0, last + own.choice([-5, -3, -1, 0, 3]))
                call = partial(region.mark_delete_up_to, table, sequence)
                line |= {"begin": "mark", "sequence": sequence}
            elif dice < 0.84:
                call = partial(region.drop_table, table)
                line |= {"begin": "drop"}
            elif dice < 0.9:
                call = partial(region.move, table)
                line |= {"begin": "move"}
            else:
                call, line["begin"] = (region.snapshot, "snapshot") if dice < 0.94 else (region.clean, "clean")
            tell(line)
            try:
                done = await call()
            except UnknownTable:
                tell({"call": line["call"], "unknown": True})
            except HeadwaterError as error:
                tell({"call": line["call"], "error": type(error).__name__})
                if isinstance(error, Fenced | Closed):
                    return
            else:
                tell({"call": line["call"], "done": getattr(done, "sequence", done if isinstance(done, int) else 0)})

    await asyncio.gather(*(caller(Random(random.getrandbits(32))) for _ in range(callers)))


@dataclass
class _Call:
    kind: str
    table: int
    begun: int
    ended: int | None = None  # None: it never said, or failed: it may have happened, at any time since
    done: int | None = None
    sequence: int = 0
    payloads: list[str] = field(default_factory=list)


class RegionHistory:
    """What was told so far, and what it promises."""

    def __init__(self) -> None:
        self.calls: dict[str, _Call] = {}
        self._by: dict[tuple[str, int], list[_Call]] = {}  # marks and drops, by their table
        self.errors: list[str] = []
        self._now = 0

    @property
    def acknowledged(self) -> int:
        return sum(call.done is not None for call in self.calls.values())

    def hear(self, line: dict[str, Any]) -> None:
        self._now += 1
        if "begin" in line:
            fields = {name: line[name] for name in ("sequence", "payloads") if name in line}
            call = self.calls[line["call"]] = _Call(line["begin"], line["table"], self._now, **fields)
            self._by.setdefault((call.kind, call.table), []).append(call)
        elif "error" in line:
            self.errors.append(line["error"])
        else:
            call = self.calls[line["call"]]
            call.ended, call.done = self._now, line.get("done")
            if "unknown" in line:  # nothing was done
                self._by[call.kind, call.table].remove(call)

    def read(self, text: bytes) -> None:
        """Take in whole lines; a half one at the end was never told."""
        for line in text[: text.rfind(b"\n") + 1].splitlines():
            self.hear(json.loads(line))

    async def check(self, region: Region) -> None:
        """Everything acknowledged and neither flushed nor dropped is there under its number, and nothing that nobody wrote."""
        tables: dict[int, dict[int, str]] = {}
        async for entry in region.scan():
            table = tables.setdefault(entry.table, {})
            assert not table or entry.sequence == max(table) + 1, f"{entry.sequence} of table {entry.table} came behind {max(table)}"
            table[entry.sequence] = entry.payload.decode().rstrip()
        everything = [text for table in tables.values() for text in table.values()]
        assert len(set(everything)) == len(everything), "a payload came twice"
        tried = {text: call for call in self.calls.values() if call.kind == "write" for text in call.payloads}
        for number, rows in tables.items():
            for sequence, payload in rows.items():
                assert payload in tried, f"nobody wrote {payload}, which is {sequence} of table {number}"
                self._check_not_flushed(tried[payload], number, sequence)
        for call in self.calls.values():
            if call.kind == "write" and call.done is not None:
                assert region.sequence_num(call.table) >= call.done or self._dropped_after(call), f"{call}: numbers went back"
                for sequence, payload in enumerate(call.payloads, call.done - len(call.payloads) + 1):
                    stored = tables.get(call.table, {}).get(sequence)
                    if stored != payload:
                        assert self._dropped_after(call) or (stored is None and self._marked(call, sequence)), (
                            f"{sequence} of table {call.table} is {stored}, and {payload} was acknowledged"
                        )

    def _of(self, kind: str, table: int) -> list[_Call]:
        return self._by.get((kind, table), [])

    def _dropped_after(self, write: _Call) -> bool:
        return any(drop.ended is None or drop.ended > write.begun for drop in self._of("drop", write.table))

    def _marked(self, write: _Call, sequence: int) -> bool:
        """Whether a mark may have reached a sequence. One that was acknowledged says how far it went."""
        return any(
            sequence <= (mark.sequence if mark.done is None else mark.done)
            for mark in self._of("mark", write.table)
            if mark.ended is None or mark.ended > write.begun
        )

    def _check_not_flushed(self, write: _Call, table: int, sequence: int) -> None:
        """What is there was not flushed for certain: by a mark that was acknowledged, of a table that nobody has dropped since."""
        assert write.table == table
        for mark in self._of("mark", table):
            if mark.done is not None and sequence <= mark.done:
                assert any(drop.ended is None or drop.ended > mark.begun for drop in self._of("drop", table)), (
                    f"{sequence} of table {table} is back, which was flushed up to {mark.done}"
                )
