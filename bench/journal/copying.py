"""Replication on Spark, against bare `executemany` of ready rows by as many processes, and against a stream of Spark's `foreachBatch`."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.journal.filled import copy, fill, store_file
from bench.journal.foreach_batch import ForeachBatch
from bench.journal.opened import JOURNALS, PARTITIONS
from bench.machine import processor_time
from bench.place import Place
from bench.queue.team import Team, serve
from bench.sizes import Sizes
from headwater.core.clock import SystemClock
from headwater.core.errors import Differs, HeadwaterError
from headwater.core.settings import SparkSettings
from headwater.journal.discovery import Discovery
from headwater.journal.loop import ReplicatorLoop
from headwater.journal.replicate import Rounds
from headwater.journal.replication_task import RECORDS
from headwater.journal.store_address import StoreAddress, open_store
from headwater.log.embedded.log import EmbeddedLog
from headwater.store.sqlite.database import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK = SparkSettings(master=f"local[{PARTITIONS}]")
_EVENTS = 10  # of a journal
_LEAST = {1: mark.ratio(0.3), 10: mark.both(mark.ratio(0.6), mark.rate(200_000, "≥ 200 k events/s"))}  # events of an Append
_ROWS = Path(__file__).with_name("all_rows.sql").read_text()
_INSERT = Path(__file__).with_name("insert_row.sql").read_text()
_TABLE = "select sql from sqlite_master where tbl_name = 'journal' and sql is not null"


def copying(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """A full log into a new store, each round. Spark runs, and is warm."""
    from headwater.spark import session

    try:
        running = session(_SPARK, archive="use")
    except HeadwaterError as problem:
        yield Skipped("journal replication", str(problem))
        return
    for per_append, least in _LEAST.items():
        with place.sub("copying") as folder:
            data = folder / "data"
            fill(data, journals=sizes.copied // _EVENTS, events=_EVENTS, per_append=per_append)
            copy(data)
            with Team.started(PARTITIONS, _member, data) as team:
                ours = partial(_replicated, data, sizes.copied)
                bare = partial(team.round, "insert", sizes.copied, lambda: 0.0)
                name = f"journal replication, {per_append} per Append"
                floor = "executemany of ready rows"
                yield Case(name, "event", Side("Spark", ours), Side(floor, bare), least, rounds=sizes.few)
                yield Case(
                    f"{name}, processor time",
                    "event",
                    Side("Spark", partial(_by_processor, ours)),
                    Side(floor, partial(_by_processor, bare)),
                    mark.ratio(0.3 if per_append == 1 else 0.6),
                    rounds=sizes.few,
                )
            if per_append == 1:
                yield from _beside_foreach_batch(running, data, folder, sizes)


def _beside_foreach_batch(running: SparkSession, data: Path, folder: Path, sizes: Sizes) -> Iterator[Case]:
    peer = ForeachBatch(running, data, folder)
    name = "journal replication beside foreachBatch"
    ours, other = partial(_replicated, data, sizes.copied), partial(peer.round, sizes.copied)
    yield Case(name, "event", Side("Spark", ours), Side("foreachBatch", other), mark.ratio(2), rounds=sizes.rare)
    yield Case(
        f"{name}, processor time",
        "event",
        Side("Spark", partial(_by_processor, ours)),
        Side("foreachBatch", partial(_by_processor, other)),
        mark.ratio(2),
        rounds=sizes.rare,
    )


def _by_processor(work: Callable[[], Sample]) -> Sample:
    sample = work()
    return Sample(sample.amount, sample.cpu, sample.cpu)


def _replicated(data: Path, expected: int) -> Sample:
    """Copy the whole log into a new store, every round of it a Spark job."""
    folder = data / "anew"
    address = StoreAddress(folder=folder)
    clock, stopping = SystemClock(), threading.Event()
    try:
        with EmbeddedLog(data) as log, open_store(address) as store:
            rounds = Rounds(log, store, address=address, spark=_SPARK, small=0, clock=clock, stopping=stopping)
            loop = ReplicatorLoop(log, store, rounds, Discovery(log, ("journal",)), clock=clock, random=Random(), stopping=stopping)
            used, begun = processor_time(), time.perf_counter()
            done = loop.catch_up()
            seconds, used = time.perf_counter() - begun, processor_time() - used
            loop.close()
        rows = sum(_count(folder / JOURNALS / f"{number}.db") for number in range(PARTITIONS))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not done or rows != expected:
        raise Differs(f"{rows} events were copied, not {expected}.", hint="Keep the folder.")
    return Sample(rows, seconds, used)


def _count(path: Path) -> int:
    import apsw

    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.execute("select count(*) from journal").fetchall()[0][0])
    finally:
        connection.close()


# -- bare ---------------------------------------------------------------------------------------------------------


def _member(pipe: Connection, data: Path) -> None:
    """One process for each partition: whoever is ready first takes the next file."""
    number = _taken(data)
    rows, tables = _ready(store_file(data, number))
    serve(pipe, lambda _: _inserted(data / f"bare-{number}", tables, rows))


def _taken(data: Path) -> int:
    for number in range(PARTITIONS):
        try:
            (data / f"taken-{number}").mkdir()
            return number
        except FileExistsError:
            continue
    raise AssertionError("more members than partitions")


def _ready(path: Path) -> tuple[list[tuple[object, ...]], list[str]]:
    import apsw

    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(_ROWS)), [text for (text,) in connection.execute(_TABLE)]
    finally:
        connection.close()


def _inserted(folder: Path, tables: list[str], rows: list[tuple[object, ...]]) -> int:
    """Into a new file with the same table, index and settings, in transactions of as many rows as a change of ours has records."""
    folder.mkdir()
    try:
        database = Database(folder / "rows.db", synced=False)
        try:
            with database.transaction() as transaction:
                for text in tables:
                    transaction.rows(text)
            for at in range(0, len(rows), RECORDS):
                with database.transaction() as transaction:
                    transaction.many(_INSERT, rows[at : at + RECORDS])
        finally:
            database.close()
        return len(rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
