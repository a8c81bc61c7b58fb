"""Which messages of a copy one sink must get in the order of the log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.pipeline import Pipeline, arrow, omit, opfilter, pretty, python, remap, rename, skip, sql
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.offsets.state import ReaderState
from headwater.pipeline.running.copy_order import CopyOrder
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


def test_several_namespaces_may_share_a_table() -> None:
    assert repeats([], "everything")
    assert not repeats([], "everything", namespace="^orders$")
