"""Trying a pipeline out: what fails is a check that failed, and the others are tried all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.adaptors.file.adaptor import File
from headwater.core.errors import Unreachable
from headwater.core.settings import Settings, SparkSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import python, sql
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.operating.preflight import preflight
from headwater.pipeline.running.run import Run
from headwater.pipeline.source_adaptor import Piece, Slice
from headwater.spark import session


class Broken(File, frozen=True, kw_only=True):
    """A source that can be connected to, and breaks when it is read."""

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        raise Unreachable("The connection is gone.", hint="Try again.")
        yield


def test_a_source_that_breaks_when_it_is_read_is_a_check_that_failed(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id": 1}\n')
    pipeline = Pipeline("p")
    pipeline.source("in", Broken(uri=str(tmp_path / "in.jsonl"))).save("out", File(uri=str(tmp_path / "out.jsonl")))
    found = preflight(pipeline)
    assert found["message"] is None
    assert [(one["name"], one["ok"], one["exit_code"]) for one in found["checks"]] == [
        ("in", True, 0),
        ("out", True, 0),
        ("in's first message", False, 6),
    ]
    assert not (tmp_path / "out.jsonl").exists()


def test_a_sample_tells_the_types_of_fields_and_warns_of_mixtures(tmp_path: Path) -> None:
    rows = [f'{{"_id": {n}, "price": {n}.50}}\n' for n in range(412)] + ['{"_id": 500, "price": "N/A"}\n'] * 3 + ["no JSON\n"]
    (tmp_path / "orders.jsonl").write_text("".join(rows))
    pipeline = Pipeline("p")
    pipeline.source("in", File(uri=str(tmp_path / "orders.jsonl"))).save("out", File(uri=str(tmp_path / "out.jsonl")))
    found = preflight(pipeline)
    assert found["warnings"] == ['orders: price: decimal in 412 documents, text in 3: "N/A"']
    assert [(one["namespace"], one["documents"], [field["name"] for field in one["fields"]]) for one in found["types"]] == [
        ("orders", 415, ["_id", "price"])
    ]
    assert not (tmp_path / "out.jsonl").exists()


def test_a_sink_whose_copy_one_task_writes_is_told_how_all_may(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id": 1}\n')
    pipeline = Pipeline("p")
    rows = pipeline.source("in", File(uri=str(tmp_path / "in.jsonl")))
    rows.transform(python(lambda message: message)).save("one", sqlite(str(tmp_path / "one.db")))
    rows.transform(python(lambda message: message, keeps_id=True)).save("all", sqlite(str(tmp_path / "all.db")))
    rows.transform(python(lambda message: message)).save("lines", File(uri=str(tmp_path / "out.jsonl")))
    said = {one["name"]: one["said"] for one in preflight(pipeline)["checks"]}
    assert "keeps_id=True" in said["one's transforms"]
    assert said["all's transforms"] == said["lines's transforms"] == 'make of it {"_id":1}'


def test_a_document_that_cannot_be_decoded_is_no_failed_check(tmp_path: Path) -> None:
    """A run makes a poison record of it, whether the source has noticed it, or only whoever reads its number."""
    numbers = "9" * 5000
    (tmp_path / "in.jsonl").write_text(f'{{"_id": 1, "n": {numbers}}}\nno JSON\n{{"_id": 2, "n": {"[" * 900 + "]" * 900}}}\n')
    pipeline = Pipeline("p")
    pipeline.source("in", File(uri=str(tmp_path / "in.jsonl"))).save("out", File(uri=str(tmp_path / "out.jsonl")))
    found = preflight(pipeline)
    assert all(one["ok"] for one in found["checks"])
    assert found["message"]["data"]["_id"] == 2


def test_a_sample_takes_some_documents_of_every_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"_id": 1, "n": 1.0}\n' * 2000)
    pipeline = Pipeline("p")
    pipeline.source("in", File(uri=f"{tmp_path}/", decimals="float")).save("out", File(uri="-"))
    found = preflight(pipeline)
    assert [(one["namespace"], one["documents"]) for one in found["types"]] == [("a", 500), ("b", 500)]
    assert found["types"][0]["fields"][1]["types"] == [{"type": "float", "documents": 500, "example": "1.0"}]


@pytest.mark.spark
def test_a_column_that_no_document_has_is_an_error_in_a_test_and_a_notice_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id":1,"price":2}\n{"_id":2,"price":2,"late":1}\n')
    settings = SparkSettings(master="local[2]")
    session(settings, archive="use")

    def pipeline(expression: str) -> Pipeline:
        made = Pipeline("p")
        rows = made.source("s", file(str(tmp_path / "in.jsonl")))
        rows.transform(sql(expression)).save("db", sqlite(str(tmp_path / "o.db")))
        return made

    failed = [one for one in preflight(pipeline("_id, prce * 2 AS twice"))["checks"] if not one["ok"]]
    assert [one["said"] for one in failed] == ["sql(_id, prce * 2 AS twice) names prce, which no document has had. It is null everywhere."]
    assert all(one["ok"] for one in preflight(pipeline("_id, price + late AS sum"))["checks"])
    with EmbeddedLog(tmp_path / "data") as log:
        result = Run(pipeline("_id, prce * 2 AS twice"), log, Settings(data=tmp_path / "data", spark=settings)).go()
    assert "names prce" in " ".join(result.notices)
