"""Which messages of a copy one sink must get in the order of the log."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.adaptors.sqlite.adaptor import Sqlite
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline, arrow, omit, opfilter, pretty, python, remap, rename, skip, sql
from headwater.pipeline.adaptors import file, opensearch, sqlite
from headwater.pipeline.offsets.state import ReaderState
from headwater.pipeline.running.copy_order import CopyOrder, ids_within
from headwater.pipeline.running.work import IDS
from headwater.pipeline.source_adaptor import CopyPlan, Slice
from headwater.pipeline.transform import Transform

KEPT: list[list[Transform]] = [
    [],
    [omit("card"), rename({"a": "b"}), skip("a", "==", 1), opfilter(only=["insert"]), pretty()],
    [python(lambda message: message, keeps_id=True), arrow(lambda batch: batch, keeps_id=True), sql("*, a * 2 AS b")],
    [remap({"orders": "sold"})],
]
CHANGED: list[list[Transform]] = [
    [python(lambda message: message)],
    [arrow(lambda batch: batch)],
    [sql("_id % 10 AS _id, a")],
    [rename({"a": "_id"})],
    [omit("_id")],
    [remap({"orders": "all", "returns": "all"})],
    [remap({"orders": "returns"})],
]


def repeats(transforms: list[Transform], table: str | None = None, *, namespace: str = ".*", repeats: bool = False) -> bool:
    pipeline = Pipeline("p")
    pipeline.source("s", file("in/")).transform(*transforms).save("t", sqlite("t.db", table=table), namespace=namespace)
    slices = tuple(Slice(name, {}) for name in ("orders", "orders", "returns"))
    plan: dict[str, Any] = msgspec.to_builtins(CopyPlan(identity={}, slices=slices, repeats=repeats))
    order = CopyOrder(pipeline.sinks["t"])
    found = order.repeats(ReaderState(run="r", plan=plan, begun=0, upto=0), {})
    assert order.repeats(ReaderState(run="r", plan=plan, begun=0, upto=0), {}) is found
    assert order.repeats(None, {}) is False
    return found


@pytest.mark.parametrize("transforms", KEPT)
def test_documents_that_keep_their_ids_and_places_may_be_written_side_by_side(transforms: list[Transform]) -> None:
    assert not repeats(transforms)
    assert repeats(transforms, repeats=True)


@pytest.mark.parametrize("transforms", CHANGED)
def test_several_documents_may_become_one(transforms: list[Transform]) -> None:
    assert repeats(transforms)


def test_a_namespace_that_the_sink_has_no_place_for_is_left_to_its_messages() -> None:
    pipeline = Pipeline("p")
    pipeline.source("s", file("in/")).save("t", opensearch("http://localhost:9200"))
    plan: dict[str, Any] = msgspec.to_builtins(CopyPlan(identity={}, slices=(Slice("_ _", {}), Slice("x" * 300, {}))))
    assert not CopyOrder(pipeline.sinks["t"]).repeats(ReaderState(run="r", plan=plan, begun=0, upto=0), {})


def test_a_table_may_have_a_key_that_is_not_the_id(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, asked = {"orders": ("mail",), "sold": ("tenant", "_id")}, list[set[str]]()

    def keys_of(self: Sqlite, places: Collection[str]) -> dict[str, tuple[str, ...]]:
        asked.append({*places})
        return {place: keys[place] for place in places if place in keys}

    monkeypatch.setattr(Sqlite, "has_keys", lambda self: True)
    monkeypatch.setattr(Sqlite, "keys_of", keys_of)
    pipeline = Pipeline("p")
    rows = pipeline.source("s", file("in/"))
    rows.save("t", sqlite("t.db"))
    rows.transform(remap({"orders": "sold"})).save("u", sqlite("u.db"))
    slices = tuple(Slice(name, {}) for name in ("orders", "returns"))
    reader = ReaderState(run="r", plan=msgspec.to_builtins(CopyPlan(identity={}, slices=slices)), begun=0, upto=0)
    order = CopyOrder(pipeline.sinks["t"])
    assert not order.repeats(reader, {})
    assert asked == []
    assert order.repeats(reader, {}, tables=True)
    assert not order.repeats(reader, {"orders": ("mail",)}, tables=True)
    assert asked == [{"orders", "returns"}]  # once
    assert order.other_keys({"orders": ("id",), "late": ("id",)}) == {"orders": ("mail",)}
    keys["late"] = ("mail",)
    order.forget_tables()
    assert order.other_keys({"late": ("id",)}) == {"late": ("mail",)}
    assert not CopyOrder(pipeline.sinks["u"]).repeats(reader, {}, tables=True)  # documents of one row have one id


def test_the_ids_of_the_messages_of_a_range(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t")
        marked = ((IDS, b'["k","l"]'),)
        log.append("t", 0, [Record(name, b"{}", headers) for name in (b"a", b"b") for headers in (marked, ())])
        log.append("t", 0, [Record(b"c", b"{}"), Record(None, b"{}")])
        found = ids_within(log, "t", 0, 6, {"a": ("id",)})
    assert found == {"a": ("id",), "b": ("k", "l"), "c": ("_id",)}


def test_several_namespaces_may_share_a_table() -> None:
    assert repeats([], "everything")
    assert not repeats([], "everything", namespace="^orders$")
