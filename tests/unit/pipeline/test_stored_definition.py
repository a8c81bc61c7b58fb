"""The stored definition: it knows a change, and no secret."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headwater.pipeline import Pipeline, omit, python
from headwater.pipeline.adaptors import file, kafka, postgres
from headwater.pipeline.message import Message
from headwater.pipeline.stored_definition import StoredDefinition


def test_no_secret_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_URI", "postgresql://me:hidden@db/shop")
    pipeline = Pipeline("p")
    pipeline.source("s", postgres("${PG_URI}")).save("k", kafka("broker:9092", client={"sasl.password": "hidden"}))
    source, sink = StoredDefinition.of_source(pipeline), StoredDefinition.of_sink(pipeline.sinks["k"])
    assert b"hidden" not in msgspec.json.encode([source, sink])
    assert source.adaptor == "postgres(postgresql://db/shop)"


def test_another_password_is_no_other_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for password in ("one", "two"):
        monkeypatch.setenv("PG_URI", f"postgresql://me:{password}@db/shop")
        pipeline = Pipeline("p")
        pipeline.source("s", postgres("${PG_URI}")).save("k", file(str(tmp_path / "o.jsonl")))
        found.append(StoredDefinition.of_source(pipeline))
    assert found[0] == found[1]


def same(message: Message) -> Message:
    return message


def test_a_definition_is_the_same_each_time_it_is_loaded(tmp_path: Path) -> None:
    def made() -> StoredDefinition:
        pipeline = Pipeline("p")
        rows = pipeline.source("s", file(str(tmp_path / "a.jsonl")))
        rows.transform(omit("card"), python(same)).save("o", file(str(tmp_path / "o.jsonl")))
        return StoredDefinition.of_sink(pipeline.sinks["o"])

    assert made() == made()
    assert not list(made().changes_since(made()))
