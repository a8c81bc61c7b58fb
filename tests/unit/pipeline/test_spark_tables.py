"""Pipelines as tables of Spark, read as a task reads them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from tests.unit.pipeline.running.ground import gone, piped

from headwater.core.errors import BadInput, Conflict, NotFound
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode
from headwater.pipeline.adaptors import file
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.control import log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.spark_tables import OPTIONS, PipelineTable, pipeline_table
from headwater.spark.tables import find_any_table

SCHEMA = """\
root
 |-- offset: long (nullable = false)
 |-- timestamp: timestamp (nullable = false)
 |-- op: string (nullable = false)
 |-- namespace: string (nullable = false)
 |-- id: string (nullable = true)
 |-- data: string (nullable = true)
 |-- phase: string (nullable = false)
 |-- unreadable: string (nullable = true)
"""
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "spark.md").read_text("utf-8")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """The log of a pipeline that has copied two files, one line of which is no JSON, and followed three changes."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"shop": "x", "nr": 1, "n": {"$numberDouble": "1.0"}}\nno JSON\n')
    (tmp_path / "in" / "b.jsonl").write_text('{"shop": "y", "nr": 2}\n')
    source = file(f"{tmp_path}/in/", id=("shop", "nr"))
    with EmbeddedLog(tmp_path / "data") as log:
        gone(log, tmp_path, piped(tmp_path, {"out": file(f"{tmp_path}/out/")}, source=source))
        changes = [
            Record(b"a", b'{"shop":"x","nr":1}', mode=Mode.SYNC, op=Op.DELETE),
            Record(b"c", b'{"_id":"k"}', mode=Mode.SYNC, op=Op.UPDATE, headers=[("ids", b'["_id"]')]),
            Record(b"c", b'{"n":1}', mode=Mode.SYNC),
            Record(b"c", b"{}", mode=Mode.SYNC, op=Op.NOOP),
        ]
        topic = log_topic("p")
        log.writer(topic, 0, log.epoch(topic, 0), part=PART).append(changes)
        yield log


def read(log: Log, split: int = 1000, **options: str) -> list[dict[str, Any]]:
    table = pipeline_table("p", options)
    table.check(log)
    made: PipelineTable = pickle.loads(pickle.dumps(table))  # as tasks get it
    found = []
    for part in pickle.loads(pickle.dumps(table.plan(log, split))):
        for columns in made.rows(log, part, made.schema.names):
            cells = [columns[name].cast(made.schema.field(name).type).to_pylist() for name in made.schema.names]
            found += [dict(zip(made.schema.names, row, strict=True)) for row in zip(*cells, strict=True)]
    return found


def test_its_messages_are_rows(log: Log) -> None:
    rows = read(log)
    assert [(one["op"], one["namespace"], one["id"], one["data"], one["phase"]) for one in rows] == [
        ("insert", "a", '["x",1]', '{"shop":"x","nr":1,"n":1.0}', "copy"),
        ("insert", "a", None, rows[1]["data"], "copy"),
        ("insert", "b", '["y",2]', '{"shop": "y", "nr": 2}', "copy"),
        ("delete", "a", '["x",1]', '{"shop":"x","nr":1}', "sync"),
        ("update", "c", "k", '{"_id":"k"}', "sync"),
        ("insert", "c", None, '{"n":1}', "sync"),
    ]
    assert [bool(one["unreadable"]) for one in rows] == [False, True, False, False, False, False]
    assert "no JSON" in rows[1]["data"]
    assert read(log, split=1) == rows


def test_options_choose(log: Log) -> None:
    rows = read(log)
    assert read(log, namespace="^b$") == [rows[2]]
    assert read(log, startingOffset=str(rows[2]["offset"])) == rows[2:]
    assert read(log, startingOffset="1", endingOffset=str(rows[2]["offset"])) == rows[1:2]
    assert read(log, startingOffset="99") == []
    with pytest.raises(BadInput, match="no offset"):
        pipeline_table("p", {"startingOffset": "-1"})
    with pytest.raises(NotFound, match="no pipeline q"):
        pipeline_table("q", {}).check(log)


def test_only_the_wanted_columns_are_made(log: Log) -> None:
    table = pipeline_table("p", {})
    [columns] = [columns for part in table.plan(log, 1000) for columns in table.rows(log, part, ["namespace"])]
    assert {name: column.to_pylist() for name, column in columns.items()} == {"namespace": ["a", "a", "b", "a", "c", "c"]}


def test_a_log_that_was_made_anew_is_no_fewer_rows(log: Log) -> None:
    table = pipeline_table("p", {})
    parts = table.plan(log, 1000)
    log.delete_topic(log_topic("p"), part=PART)
    log.create_topic(log_topic("p"), part=PART)
    with pytest.raises(Conflict, match="made anew"):
        list(table.rows(log, parts[0], ["offset"]))


def test_the_page_has_its_schema_and_options() -> None:
    schema = from_arrow_schema(find_any_table("pipeline:p", {}).schema)
    assert schema.treeString() == SCHEMA
    section = PAGE.split("### `pipeline:NAME`\n", 1)[1].split("\n### ", 1)[0]
    columns = re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.MULTILINE)
    assert columns == [(field.name, field.dataType.simpleString()) for field in schema]
    assert set(re.findall(r"^\| `(\w+)` \| [^|]+ \|$", section, re.MULTILINE)) == set(OPTIONS)
