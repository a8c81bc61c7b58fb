"""A collection of many items, opened in this process: each has a price and the same value as its cost, in no order of the ids."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import headwater
from bench.case import Sample
from headwater.client.door import Headwater
from headwater.core.errors import Differs

PATH = "bench/items~"
PAGE = 50
_CONFIG = """
[documents]
skip_max = 10000000
max_reads = 10000
query_timeout = "1h"
"""  # a scan of everything is what is measured: no limit may end it
_AT_ONCE = 500  # items of a batch
_PATIENCE = 600.0


class OpenCollection:
    """The collection through the door, on an event loop of its own."""

    def __init__(self, runner: asyncio.Runner, hw: Headwater, items: int) -> None:
        self._runner, self._hw, self.items = runner, hw, items
        self._built = 0

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, items: int) -> Iterator[OpenCollection]:
        """A collection with so many items and an index of their prices."""
        config = folder / "headwater.toml"
        config.write_text(_CONFIG)
        with asyncio.Runner() as runner:
            hw = headwater.open(folder / "data", create=True, config=config)
            runner.run(hw.__aenter__())
            try:
                made = cls(runner, hw, items)
                runner.run(made._fill())
                runner.run(made._index("price"))
                yield made
            finally:
                runner.run(hw.__aexit__(None, None, None))

    def pages(self, count: int, sort: str | None) -> Sample:
        """The first page, so many times. Errors: `Differs` where it is not the right one."""
        return self._runner.run(self._pages(count, sort))

    def build(self) -> Sample:
        """One more index of the cost, from the request to the record that it is ready."""
        self._built += 1
        return self._runner.run(self._index("cost", f"-{self._built}"))

    async def _fill(self) -> None:
        items = self._hw.documents[PATH]
        for first in range(0, self.items, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, self.items))
            await items.batch([("put", f"{PATH}/{number:08}", body_of(number, self.items)) for number in numbers])

    async def _pages(self, count: int, sort: str | None) -> Sample:
        items, page = self._hw.documents[PATH], list[Any]()
        cpu, begun = time.process_time(), time.perf_counter()
        for _ in range(count):
            page = [item async for item in items.query(sort=sort, size=PAGE)]
        sample = Sample(count, time.perf_counter() - begun, time.process_time() - cpu)
        expected = list(range(min(PAGE, self.items)))
        if [item["price"] if sort else int(item["id"]) for item in page] != expected:
            raise Differs(f"A page sorted by {sort} is not the right one: {page[:3]}.", hint="Keep the folder.")
        return sample

    async def _index(self, field: str, more: str = "") -> Sample:
        indexes, name = self._hw.documents[PATH].indexes, f"by-{field}{more}"
        cpu, begun = time.process_time(), time.perf_counter()
        # Each has a filter of its own, which everything fulfils: two indexes of one definition would be one.
        await indexes.create(name, sort=f"{field}:decimal", filter=f"{field} > {-1 - self._built}" if more else None)
        while (status := await indexes.status(name)).status == "building":
            if time.perf_counter() - begun > _PATIENCE:
                raise Differs(f"The index {name} is still being built.", hint="See its status.")
            await asyncio.sleep(0.002)
        sample = Sample(self.items, time.perf_counter() - begun, time.process_time() - cpu)
        if status.status != "ready" or status.rows != self.items:
            raise Differs(f"The index {name} is {status.status} with {status.rows} rows.", hint="Keep the folder.")
        return sample


def body_of(number: int, items: int) -> dict[str, Any]:
    """The body of an item: its price is a permutation of the numbers."""
    price = number * 7919 % items if items % 7919 else number
    return {"price": price, "cost": price, "name": f"item {number}", "about": "x" * 60}
