"""Collections and feeds as tables of Spark, read as a task reads them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from quick_spark import quick

import headwater
from headwater.core.document_errors import BadFilter, BadPath, DocumentNotFound
from headwater.core.errors import BadBounds, BadInput, Conflict, OffsetGone
from headwater.core.settings import Settings
from headwater.documents.change import encode_record
from headwater.documents.store_address import open_stores
from headwater.documents.table import TOPIC, CollectionTable, FeedTable, collection_table, feed_table
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.document_history import BEGAN, RecordedDocuments


class Ground:
    """A topic of one partition, and the store beside its log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.history = folder, EmbeddedLog(folder), RecordedDocuments()
        self.topic = self.log.create_topic(TOPIC, partitions=1, part="documents")

    def write(self, applied: int | None = None) -> None:
        """Append all records; apply those below an offset, or all."""
        records = self.history.records
        found = [Record(record.uri.encode(), encode_record(record), timestamp=time) for _, time, record in records]
        self.log.append(TOPIC, 0, found, part="documents")
        end = self.history.end if applied is None else applied
        with open_stores(Settings(), self.folder) as stores:
            stores.partition(0, self.topic.generation).apply([record for record in records if record.offset < end], end)

    def read(self, table: Any, *, split: int = 1000) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        table.check(self.log)
        made = pickle.loads(pickle.dumps(table))  # as tasks get it
        for part in pickle.loads(pickle.dumps(table.plan(self.log, split))):
            for columns in made.rows(self.log, part, made.schema.names):
                assert list(columns) == made.schema.names
                cells = [columns[name].cast(made.schema.field(name).type).to_pylist() for name in made.schema.names]
                found += [dict(zip(made.schema.names, row, strict=True)) for row in zip(*cells, strict=True)]
        return found


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.log.close()


def at(offset: int) -> datetime:
    return datetime.fromtimestamp((BEGAN + offset * 10) / 1000, UTC)


ITEMS = """\
root
 |-- id: string (nullable = false)
 |-- body: string (nullable = false)
 |-- revision: long (nullable = false)
 |-- created: timestamp (nullable = false)
 |-- modified: timestamp (nullable = false)
 |-- expires: timestamp (nullable = true)
"""
CHANGES = """\
root
 |-- path: string (nullable = false)
 |-- method: string (nullable = false)
 |-- revision: long (nullable = false)
 |-- body: string (nullable = true)
 |-- state: string (nullable = true)
 |-- timestamp: timestamp (nullable = false)
 |-- partition: integer (nullable = false)
 |-- offset: long (nullable = false)
"""


def test_the_schemas_are_frozen() -> None:
    assert from_arrow_schema(CollectionTable.schema).treeString() == ITEMS
    assert from_arrow_schema(FeedTable.schema).treeString() == CHANGES


@pytest.mark.parametrize(("heading", "kind"), [("collection:PATH", CollectionTable), ("feed:PATH", FeedTable)])
def test_columns_and_options_are_documented(heading: str, kind: type[CollectionTable] | type[FeedTable]) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "spark.md").read_text("utf-8")
    section = page.split(f"### `{heading}`\n", 1)[1].split("\n### ", 1)[0]
    parts = re.split(r"^\| .*\|\n\|---", section, flags=re.MULTILINE)
    columns, options = [re.findall(r"^\| `(\w+)` \| (.+?) \|", part, re.MULTILINE) for part in parts[1:]]
    assert dict(columns) == {field.name: field.dataType.simpleString() for field in from_arrow_schema(kind.schema)}
    assert [name for name, _ in options] == list(kind.options)


def test_a_collection_is_its_items_by_id(ground: Ground) -> None:
    ground.history.put("c~", "2", p=2)
    ground.history.put("c~", "1", p=1, expires=BEGAN + 1000)
    ground.history.put("c~", "3", p=3)
    ground.history.put("d~", "1", p=3)
    ground.history.patch("c~", "2", q=1)
    ground.write()
    rows = ground.read(collection_table("c~", {}))
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert rows[1] == {"id": "2", "body": '{"p":2,"q":1}', "revision": 4, "created": at(0), "modified": at(4), "expires": None}
    assert rows[0]["expires"] == at(100)
    assert [row["id"] for row in ground.read(collection_table("c~", {"fromId": "2", "toId": "3"}))] == ["2"]
    assert [row["id"] for row in ground.read(collection_table("c~", {"FILTER": "p > 1 and q = null"}))] == ["3"]


def test_a_large_collection_comes_in_batches(ground: Ground) -> None:
    for number in range(5000):
        ground.history.put("c~", f"{number:05}", p=number)
    ground.write()
    assert [row["id"] for row in ground.read(collection_table("c~", {}))] == [f"{number:05}" for number in range(5000)]


def test_what_is_not_there_is_told_at_once(ground: Ground) -> None:
    ground.history.put("gone~", "1")
    ground.history.delete("gone~")
    ground.write()
    for name in ("c~", "gone~"):
        with pytest.raises(DocumentNotFound):
            collection_table(name, {}).check(ground.log)  # type: ignore[attr-defined]
    with pytest.raises(DocumentNotFound):
        feed_table("a", {}).check(ground.log)  # type: ignore[attr-defined]
    assert [row["method"] for row in ground.read(feed_table("gone~", {}))] == ["put", "delete"]


def test_a_log_without_documents_has_none(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path)
    for table in (collection_table("c~", {}), feed_table("a", {})):
        with pytest.raises(DocumentNotFound):
            table.check(log)  # type: ignore[attr-defined]
    log.close()


def test_a_task_that_opens_an_older_store_is_refused(ground: Ground) -> None:
    ground.history.put("c~", "1")
    ground.write()
    table: Any = collection_table("c~", {})
    [part] = table.plan(ground.log, 10)
    with open_stores(Settings(), ground.folder) as stores:
        stores.partition(0, ground.topic.generation).clear()
    with pytest.raises(Conflict, match="ends at offset 0"):
        list(table.rows(ground.log, part, ["id"]))


def test_a_feed_is_every_change_whether_the_store_has_it_or_not(ground: Ground) -> None:
    ground.history.put("c~", "1", p=1)
    ground.history.put("x", p=1)
    ground.history.patch("c~", "1", p=2)
    ground.history.write("c~", [("put", "2", {}), ("delete", "1", None)])
    ground.history.delete("c~")
    ground.write(applied=2)
    for split in (1, 1000):
        rows = ground.read(feed_table("c~", {}), split=split)
        assert [(row["path"], row["method"], row["revision"], row["offset"]) for row in rows] == [
            ("c~/1", "put", 1, 0),
            ("c~/1", "patch", 2, 2),
            ("c~/2", "put", 3, 3),
            ("c~/1", "delete", 4, 3),
            ("c~", "delete", 5, 4),
        ]
    assert rows[1] | {"partition": 0} == {
        "path": "c~/1",
        "method": "patch",
        "revision": 2,
        "body": '{"patched":true}',
        "state": '{"p":2}',
        "timestamp": at(2),
        "partition": 0,
        "offset": 2,
    }
    assert (rows[3]["body"], rows[3]["state"]) == (None, None)
    assert [row["revision"] for row in ground.read(feed_table("c~/2", {}))] == [3, 5]
    assert [row["revision"] for row in ground.read(feed_table("c~", {"fromRevision": "2", "toRevision": "3"}))] == [2, 3]
    assert [row["path"] for row in ground.read(feed_table("x", {}))] == ["x"]


def test_a_feed_whose_beginning_was_deleted_says_so(ground: Ground) -> None:
    for number in range(4):
        ground.history.put("a", p=number)
    ground.write()
    ground.log.delete_before(TOPIC, 0, 2, part="documents")
    with pytest.raises(OffsetGone, match="offset 0 of hyper-storage/0"):
        ground.read(feed_table("a", {}))
    assert [row["revision"] for row in ground.read(feed_table("a", {"fromRevision": "3"}))] == [3, 4]


def test_options_are_checked() -> None:
    with pytest.raises(BadInput, match="no collection"):
        collection_table("a/b", {})
    with pytest.raises(BadPath):
        collection_table("a//b~", {})
    with pytest.raises(BadFilter):
        collection_table("a~", {"filter": "p >"})
    with pytest.raises(BadInput, match="fromRevision"):
        feed_table("a", {"fromRevision": "0"})
    with pytest.raises(BadInput, match="toRevision"):
        feed_table("a", {"toRevision": "x"})
    with pytest.raises(BadBounds):
        feed_table("a", {"fromRevision": "3", "toRevision": "2"})


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    from headwater.spark import session

    started = session(quick(), archive="use")
    yield started
    started.stop()


@pytest.mark.spark
def test_a_session_of_spark_loads_both(tmp_path: Path, spark: SparkSession) -> None:
    with headwater.open_blocking(tmp_path, create=True) as hw:
        shop = hw.documents["shop/catalogue~"]
        shop.put("hat", {"price": 12})
        shop.put("scarf", {"price": 30})
        shop.patch("hat", {"price": 13})
        shop.delete("scarf")
        shop.put("coat", {"price": 90})
    load = spark.read.format("headwater").option("data", str(tmp_path))
    items = load.load("collection:shop/catalogue~").select("id", "body", "revision").collect()
    assert [tuple(row) for row in items] == [("coat", '{"id":"coat","price":90}', 5), ("hat", '{"id":"hat","price":13}', 3)]
    changes = load.option("fromRevision", "3").load("feed:shop/catalogue~").select("path", "method", "revision", "body").collect()
    assert sorted((tuple(row) for row in changes), key=lambda row: row[2]) == [
        ("shop/catalogue~/hat", "patch", 3, '{"price":13}'),
        ("shop/catalogue~/scarf", "delete", 4, None),
        ("shop/catalogue~/coat", "put", 5, '{"id":"coat","price":90}'),
    ]
    with pytest.raises(Exception, match="There is no"):
        load.load("collection:nothing~").collect()
