"""A pipeline from a CSV file of orders to Parquet and SQLite. One order has no price: the tour shows, corrects and sends it."""

from __future__ import annotations

import shutil
import time
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.core.errors import NotFound
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.server.tour.report import TourReport, rate
from headwater.store.sqlite.library import connect

if TYPE_CHECKING:
    from headwater.pipeline import Message, Pipeline

NAME, FOLDER = "demo-shop", "demo-pipeline"
_ORDERS, _BAD = 20_000, 14


def total(message: Message) -> Message:
    """The transform: computes the price of an order. Runs inside Spark's tasks."""
    message.data["total"] = message.data["price"] * message.data["qty"]
    return message


def pipeline_chapter(log: Log, settings: Settings, report: TourReport) -> None:
    """Run, show, correct, run again; checks every step against the files."""
    from headwater.pipeline.offsets.control import log_topic, offsets_topic
    from headwater.pipeline.offsets.ownership import PART
    from headwater.pipeline.operating.operations import PipelineOperations
    from headwater.pipeline.operating.verification import compare
    from headwater.pipeline.running.run import Run

    report.part("pipeline")
    folder = settings.data / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    for topic in (log_topic(NAME), offsets_topic(NAME)):
        with suppress(NotFound):
            log.delete_topic(topic, part=PART)
    pipeline = _defined(folder)
    began = time.perf_counter()
    first = Run(pipeline, log, settings).go()
    seconds = time.perf_counter() - began
    report.fact(f"{_ORDERS:,} orders of a CSV file to Parquet and, with a total each, to SQLite: {rate(_ORDERS, seconds)}")
    archive, sink_report = first.sinks
    report.claim(
        f"SQLite stands at message {_BAD}, which has no total", sink_report.failure is not None and sink_report.failure.offset == _BAD
    )
    report.claim(f"Parquet has all {_ORDERS:,} and has not waited", archive.lag == 0 and _in_parquet(folder) == _ORDERS)
    operator = PipelineOperations(log, NAME, who="the tour")
    message = next(operator.show(_BAD))
    report.fact(f"message {_BAD} is {message.data}: {sink_report.failure.message if sink_report.failure else ''}")
    operator.edit(_BAD, {**message.data, "price": Decimal("14.25")}, why="the price was missing")
    second = Run(_defined(folder, write=False), log, settings).go()
    report.claim(f"corrected and sent, SQLite has all {_ORDERS:,}", second.state == "done" and _in_sqlite(folder) == _ORDERS)
    report.claim("verify: equal", compare(operator, pipeline, "report").equal)


def _defined(folder: Path, *, write: bool = True) -> Pipeline:
    from headwater.pipeline import Pipeline, python
    from headwater.pipeline.adaptors import file, sqlite

    if write:
        folder.mkdir(parents=True)
        with (folder / "orders.csv").open("w") as out:
            out.write("_id,customer,qty,price\n")
            for number in range(_ORDERS):
                price = "" if number == _BAD else f"{number % 1000}.25"
                out.write(f"{number},customer {number % 100},{number % 5 + 1},{price}\n")
    pipeline = Pipeline(NAME)
    rows = pipeline.source("orders", file(str(folder / "orders.csv")))
    rows.save("archive", file(f"{folder}/archive/", format="parquet"))
    rows.transform(python(total, keeps_id=True)).save("report", sqlite(str(folder / "report.db"), table="orders"))
    return pipeline


def _in_parquet(folder: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(part).num_rows for part in (folder / "archive").glob("part-*"))


def _in_sqlite(folder: Path) -> int:
    with closing(connect(folder / "report.db", timeout=30, read_only=True)) as db:
        count: int = db.execute("select count(total) from orders").get
    return count
