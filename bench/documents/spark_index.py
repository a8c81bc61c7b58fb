"""How fast an index is built whose rows Spark's tasks make: by the code of a large build, without a server, in a session that runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.documents.collection import body_of
from bench.documents.pages import BareKeys
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.errors import Differs, HeadwaterError
from headwater.core.settings import Settings
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.shard import add_shard
from headwater.documents.index.shard_jobs import StorePlace, shard_rows
from headwater.documents.store import DocumentStore
from headwater.documents.store_address import open_stores
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.document_history import RecordedDocuments

if TYPE_CHECKING:
    from headwater.spark.ranges import Runner

_URI = "bench/items~"
_AT_ONCE = 2000  # records


def spark_index(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Rows made by tasks and inserted here, beside inserts of ready keys."""
    from pyspark.sql import SparkSession

    from headwater.spark import session

    was_running, name = SparkSession.getActiveSession() is not None, f"documents index build on Spark, {sizes.items:,} items"
    try:
        started = session(archive="use")
    except HeadwaterError as problem:
        yield Skipped(name, str(problem))
        return
    try:
        with place.sub("spark-index") as folder, BareKeys.opened(folder, sizes.items) as bare, ExitStack() as opened:
            from headwater.spark.ranges import Runner

            log = opened.enter_context(EmbeddedLog(folder / "data"))
            runner = opened.enter_context(Runner(started, log.address))
            items = opened.enter_context(SparkItems.opened(folder / "data", sizes.items, runner))
            ours, floor = Side("until it is complete", items.build), Side("inserts of ready keys", bare.round)
            yield Case(name, "item", ours, floor, mark.ratio(0.5), rounds=sizes.few)
    finally:
        if not was_running:
            started.stop()


class SparkItems:
    """A collection in a store, whose cost has one index more after each round."""

    def __init__(self, store: DocumentStore, history: RecordedDocuments, where: StorePlace, runner: Runner) -> None:
        self._store, self._history, self._where, self._runner, self._number = store, history, where, runner, 0

    @classmethod
    @contextmanager
    def opened(cls, data: Path, items: int, runner: Runner) -> Iterator[SparkItems]:
        """A collection with so many items."""
        where, history = StorePlace(settings=Settings(), data=data, partition=0, generation="bench"), RecordedDocuments()
        for number in range(items):
            history.put(_URI, f"{number:08}", **body_of(number, items))
        with open_stores(where.settings, where.data) as stores:
            store = stores.partition(where.partition, where.generation)
            for at in range(0, items, _AT_ONCE):
                records = history.records[at : at + _AT_ONCE]
                store.apply(records, records[-1].offset + 1)
            yield cls(store, history, where, runner)

    def build(self) -> Sample:
        """One more index. Errors: `Differs` where it has not every row."""
        self._number += 1
        index = IndexDefinition(id=f"i{self._number}", number=self._number, sort_by=(SortField("cost", "asc", "decimal"),))
        self._store.apply([self._history.set_index(_URI, index)], self._history.end)
        rows, tasks = 0, self._runner.session.sparkContext.defaultParallelism
        cpu, begun = time.process_time(), time.perf_counter()
        for made in shard_rows(self._where, self._runner, _URI, self._number, after="", tasks=tasks):
            built = add_shard(self._store, _URI, self._number, made)
            rows += 0 if built is None else built.rows
        sample = Sample(rows, time.perf_counter() - begun, time.process_time() - cpu)
        items = len(self._history.rows[_URI])
        if rows != items:
            raise Differs(f"The index has {rows} rows, not {items}.", hint="Keep the folder.")
        return sample
