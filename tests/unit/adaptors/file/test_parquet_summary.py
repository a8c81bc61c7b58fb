"""Folders of Parquet parts in a real Spark: read whole, whatever the parts were written by and whenever."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from quick_spark import quick

from headwater.adaptors.file.parquet_columns import RULES
from headwater.adaptors.file.parquet_summary import NAME, write_summary
from headwater.adaptors.file.store import FolderStore
from headwater.core.clock import SystemClock
from headwater.core.files import Files
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record, TopicSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline, sql
from headwater.pipeline.adaptors import file
from headwater.pipeline.columns import ColumnType, TableColumns, observed
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.running import sql_delivery
from headwater.pipeline.running.column_deciding import ColumnDeciding
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.run import Run
from headwater.pipeline.running.sql_delivery import SqlDelivery
from headwater.pipeline.running.work import SinkWork
from headwater.pipeline.transform import Transform
from headwater.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = msgspec.structs.replace(quick(), start="eager")
COLUMNS = Path(__file__).parents[4] / "docs" / "reference" / "columns.md"
TUTORIAL = Path(__file__).parents[4] / "docs" / "tutorial" / "pipelines.md"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    started = session(MASTER, archive="use")
    yield started
    started.stop()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened


def test_the_summary_has_the_columns_of_the_decision_and_is_written_where_they_change(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, Files())
    write_summary(store, TableColumns())
    assert not (tmp_path / NAME).exists()
    write_summary(store, TableColumns(columns=observed([{"a": 1}], RULES)))
    first = (tmp_path / NAME).stat()
    write_summary(store, TableColumns(columns=observed([{"a": 1}], RULES)))
    assert (tmp_path / NAME).stat().st_mtime_ns == first.st_mtime_ns
    write_summary(store, TableColumns(columns={"a": ColumnType("text"), "b": ColumnType("bool")}))
    assert pq.read_schema(tmp_path / NAME).names == ["a", "b"]


def test_pyarrow_reads_later_and_wider_columns_by_the_line_of_the_page(log: Log, tmp_path: Path) -> None:
    [line] = re.findall(r"^dataset = (.*)$", COLUMNS.read_text(), re.MULTILINE)
    pipeline = Pipeline("p")
    pipeline.source("s", file(str(tmp_path / "in.jsonl"))).save("out", file(f"{tmp_path}/out/", format="parquet"))
    for again, text in enumerate(['{"_id":1,"n":1}', '{"_id":2,"n":2.50,"late":"x"}']):
        (tmp_path / "in.jsonl").write_text(f"{text}\n")
        gone(log, tmp_path, pipeline, again=bool(again))
    assert "late" not in ds.dataset(tmp_path / "out").schema.names
    read = eval(line, {"ds": ds, "pq": pq, "folder": tmp_path / "out"})
    assert sorted(read.to_table().to_pylist(), key=lambda row: row["_id"]) == [
        {"_id": 1, "n": Decimal(1), "late": None},
        {"_id": 2, "n": Decimal("2.50"), "late": "x"},
    ]


def gone(log: Log, folder: Path, pipeline: Pipeline, *, again: bool = False) -> None:
    settings = Settings(data=folder / "data", spark=SparkSettings(start="never"))
    assert Run(pipeline, log, settings, again=again).go().state == "done"


@pytest.mark.spark
def test_spark_reads_the_folder_of_the_tutorial(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    """Its orders, a part for each few of them, and a later file in which the quantity has a fraction and a column is new."""
    [orders] = re.findall(r"<<'END'\n(.*?)> END", TUTORIAL.read_text(), re.DOTALL)
    lines = [line.removeprefix("> ") for line in orders.splitlines()]
    pipeline = Pipeline("p")
    pipeline.source("csv", file(str(tmp_path / "orders.csv"))).save("archive", file(f"{tmp_path}/archive/", format="parquet"))
    for number in range(1, len(lines)):
        (tmp_path / "orders.csv").write_text(f"{lines[0]}\n{lines[number]}\n")
        gone(log, tmp_path, pipeline, again=number > 1)
    assert len(list((tmp_path / "archive").glob("part-*"))) == 6
    read = spark.read.parquet(f"{tmp_path}/archive")
    prices = [Decimal(line.split(",")[2]) for line in lines[1:] if line.split(",")[2]]
    assert read.selectExpr("count(*)", "max(price)", "sum(price)").first() == (6, max(prices), sum(prices))
    (tmp_path / "orders.csv").write_text("_id,item,price,qty,note\n7,rope,0.5,2.50,by the metre\n")
    gone(log, tmp_path, pipeline, again=True)
    read = spark.read.parquet(f"{tmp_path}/archive")
    assert read.selectExpr("count(*)", "sum(qty)", "max(note)").first() == (7, Decimal("25.50"), "by the metre")
    assert [str(one.field("qty").type) for one in schemas(tmp_path / "archive")][-2:] == ["int64", "decimal128(38, 18)"]


def schemas(folder: Path) -> list[object]:
    return [pq.read_schema(one) for one in sorted(folder.glob("part-*"))]


@pytest.mark.spark
@pytest.mark.parametrize(("transforms", "odd"), [((), b""), ((sql("*, v + 1 AS w"),), b',"late":"x"')], ids=["as they are", "sql"])
def test_tasks_use_one_decision(
    spark: SparkSession, log: Log, tmp_path: Path, transforms: tuple[Transform, ...], odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second part has decimals where the first one has integers, or a further field: each by itself would have other columns."""
    monkeypatch.setattr(sql_delivery, "_LEAST", 1)
    topic = log_topic("p")
    log.create_topic(topic, settings=TopicSettings(), part=PART)
    writer = log.claim(topic, 0, part=PART)
    decimals = b".50" if not odd else b""
    writer.append([Record(b"t", b'{"_id":%d,"v":%d%s}' % (n, n, b"" if n < 50 else decimals + odd)) for n in range(100)])
    control = Control.create(log, "p", SystemClock())
    pipeline = Pipeline("p")
    (tmp_path / "in.jsonl").touch()
    pipeline.source("s", file(str(tmp_path / "in.jsonl"))).transform(*transforms).save("out", file(f"{tmp_path}/out/", format="parquet"))
    sink = pipeline.complete().sinks["out"]
    sink.adaptor.begin("p", "out", writer.epoch)
    work = ColumnDeciding(control, sink, log).work(SinkWork.of(control, sink, writer.epoch), 0, 100)
    parts = [work.part("p", start, start + 50) for start in (0, 50)]
    engine = Engine(log, MASTER, stopping=threading.Event())
    if transforms:
        outcomes = SqlDelivery(sink, log, engine).deliver_in_tasks(work, parts, batch=20)
    else:
        outcomes = engine.deliver_parts(work, parts, batch=20)
    assert outcomes is not None
    for one in outcomes:
        assert (one.acked, one.failure, one.needs) == (one.end, None, None)
        sink.adaptor.publish(work.part("p", one.start, one.end), one.receipt)
    [first, second] = schemas(tmp_path / "out")
    assert first == second
    total = sum(range(100)) + Decimal(decimals.decode() or "0") * 50
    assert spark.read.parquet(f"{tmp_path}/out").selectExpr("count(*)", "sum(v)").first() == (100, total)
