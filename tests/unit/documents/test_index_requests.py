"""What cannot be asked of indexes and views."""

from __future__ import annotations

import pytest

from headwater.core.document_errors import BadFilter, BadPath
from headwater.core.errors import BadInput
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index_operations import INDEX_GET
from headwater.documents.index_requests import (
    CollectionRequest,
    HyperStorageIndexNew,
    HyperStorageIndexPost,
    HyperStorageIndexPut,
    HyperStorageIndexSortItem,
    IndexRequest,
    collection_of,
)
from headwater.wire.operation import Request
from headwater.wire.request import shape_of


@pytest.mark.parametrize(("path", "collection"), [("abc", "abc~"), ("abc~", "abc~"), ("abc/xyz", "abc/xyz~")])
def test_the_tilde_of_a_collection_may_be_left_out(path: str, collection: str) -> None:
    assert collection_of(path) == collection


def test_an_item_has_no_indexes() -> None:
    with pytest.raises(BadPath, match="below a collection"):
        collection_of("a~/b~/c")
    with pytest.raises(BadInput, match="is an item"):
        collection_of("a~/b")


@pytest.mark.parametrize(
    "refused",
    [
        CollectionRequest(path="a~/b"),
        IndexRequest(path="a~", index="x/y"),
        IndexRequest(path="a~", index="x~"),
        HyperStorageIndexPost(path="a~", new=HyperStorageIndexNew(index_id="x y")),
        HyperStorageIndexPut(path="a~", index="one", new=HyperStorageIndexNew(index_id="two")),
    ],
)
def test_what_cannot_be_asked_is_refused(refused: Request) -> None:
    with pytest.raises(BadInput):
        refused.check()


def test_an_index_is_asked_for_as_the_older_clients_do() -> None:
    asked = HyperStorageIndexNew(
        index_id="index1", sort_by=(HyperStorageIndexSortItem("b", order="asc", field_type="decimal"),), filter_by=" b > 10 "
    )
    assert asked.definition("index1") == IndexDefinition(
        id="index1", number=0, sort_by=(SortField("b", "asc", "decimal"),), filter_by="b > 10"
    )
    with pytest.raises(BadFilter):
        HyperStorageIndexNew(filter_by="b >").definition("i")


@pytest.mark.parametrize(("path", "address"), [("shop/x~", "shop/x~"), ("shop/x", "shop%2Fx"), ("x", "x")])
def test_a_collection_without_its_tilde_travels_as_one_segment(path: str, address: str) -> None:
    assert shape_of(INDEX_GET).write(IndexRequest(path=path, index="i")).path == f"/hyper-storage/indexes/{address}/i"
