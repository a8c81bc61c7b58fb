"""Shards of an index; the contract of stores tells how they go beside changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.documents.index.test_build import Ground

from headwater.core.document_errors import UnknownIndex
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.shard import IndexShard, add_shard, cut_shards, index_shard
from headwater.documents.sqlite import SqliteDocumentStores

INDEX = IndexDefinition(id="i", number=9, sort_by=(SortField("p", "asc", "decimal"),))


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with SqliteDocumentStores(tmp_path) as stores:
        yield Ground(stores.partition(0, "g"))


def test_rows_that_are_too_long_cut_a_shard(ground: Ground) -> None:
    for number in range(2500):
        ground.history.put("c~", f"{number:04}", p="x" * 100 if number < 1500 else number)
    ground.history.set_index("c~", INDEX)
    ground.apply()
    [shard] = cut_shards(ground.store, "c~", 9, after="", limit=3)
    assert shard == IndexShard("c~", 9, "", None)
    made, after = [], ""
    while not (made and made[-1].done):
        made.append(index_shard(ground.store, IndexShard("c~", 9, after), most=50_000))
        after = made[-1].last
    assert [(one.last, one.cut, one.count, one.unlike) for one in made] == [
        ("0999", True, 1000, 1000),
        ("1999", True, 1000, 500),
        ("2499", False, 500, 0),
    ]
    built = [add_shard(ground.store, "c~", 9, one) for one in made]
    assert [one.done for one in built if one] == [False, False, True]
    assert ground.rows() == ground.history.index_rows("c~", 9)


def test_an_empty_collection_is_one_shard(ground: Ground) -> None:
    ground.history.set_index("c~", INDEX)
    ground.apply()
    [shard] = cut_shards(ground.store, "c~", 9, after="", limit=3)
    built = add_shard(ground.store, "c~", 9, index_shard(ground.store, shard))
    assert built is not None
    assert tuple(built) == ("", 0, 0, True)


def test_an_index_that_the_store_does_not_have_is_told(ground: Ground) -> None:
    with pytest.raises(UnknownIndex):
        index_shard(ground.store, IndexShard("c~", 9))
