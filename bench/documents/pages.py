"""Pages of a large collection by an index, by a scan and by id; and how fast an index is built."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import mark
from bench.case import Case, Sample, Side
from bench.documents.bare_routes import SQL
from bench.documents.collection import PAGE, OpenCollection, body_of
from bench.place import Place
from bench.sizes import Sizes
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.build import SLICE
from headwater.documents.index.keys import index_keys

if TYPE_CHECKING:
    import apsw


def pages(place: Place, sizes: Sizes) -> Iterator[Case]:
    """In one process. The scan sorts by a field that no index has and whose values are those of the one that an index has."""
    count = sizes.items
    with place.sub("pages") as folder, OpenCollection.opened(folder, count) as items, BareKeys.opened(folder, count) as bare:
        by_index = Side("by index", partial(items.pages, 20, "price"))
        name = f"documents page of {PAGE} of {count:,} by index"
        scan = Side("scan", partial(items.pages, 1, "cost"))
        yield Case(name, "page", by_index, scan, mark.ratio(100), shown="time", rounds=sizes.rare)
        by_id = Side("by id", partial(items.pages, 20, None))
        yield Case(f"{name}, beside a page by id", "page", by_index, by_id, mark.slowdown(10), shown="time")
        yield Case(
            f"documents index build, {count:,} items",
            "item",
            Side("until it is ready", items.build),
            Side("inserts of ready keys", bare.round),
            mark.ratio(0.5),
            rounds=sizes.rare,
        )


class BareKeys:
    """The keys of an index, ready in the order of the ids, inserted into a table as the store has it."""

    def __init__(self, file: apsw.Connection, rows: list[tuple[bytes, str]]) -> None:
        self._file, self._rows, self._round = file, rows, 0
        self._insert = (SQL / "put_key.sql").read_text()

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, items: int) -> Iterator[BareKeys]:
        import apsw

        keys = index_keys(IndexDefinition(id="bench", number=1, sort_by=(SortField("cost", "asc", "decimal"),)))
        rows = [(keys.key(item, body_of(number, items)) or b"", item) for number in range(items) for item in [f"{number:08}"]]
        file = apsw.Connection(str(folder / "bare.db"))
        try:
            for setting in ("journal_mode = wal", "synchronous = normal"):
                file.execute(f"pragma {setting}").fetchall()
            file.execute((SQL / "create_keys.sql").read_text())
            yield cls(file, rows)
        finally:
            file.close()

    def round(self) -> Sample:
        self._round += 1
        cpu, begun = time.process_time(), time.perf_counter()
        for at in range(0, len(self._rows), SLICE):
            with self._file:
                self._file.executemany(self._insert, [(1, 1, self._round, key, item) for key, item in self._rows[at : at + SLICE]])
        return Sample(len(self._rows), time.perf_counter() - begun, time.process_time() - cpu)
