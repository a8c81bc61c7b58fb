"""Definitions of indexes are checked before they are recorded."""

from __future__ import annotations

import pytest

from headwater.core.document_errors import BadFilter
from headwater.core.errors import BadInput
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.definition import IndexAdvice, checked_index, is_alike
from headwater.wire import json


def index(name: str = "i", *fields: str, filter_by: str = "") -> IndexDefinition:
    return IndexDefinition(id=name, number=1, sort_by=tuple(SortField(field) for field in fields), filter_by=filter_by)


def test_a_definition_is_kept_as_it_is() -> None:
    assert checked_index(index("index1", "b", "o.x", filter_by=" b > 10 ")) == index("index1", "b", "o.x", filter_by="b > 10")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "x" * 129, "a\n", "%41"])
def test_an_id_is_one_segment_of_a_path(name: str) -> None:
    with pytest.raises(BadInput, match="No index can have the id"):
        checked_index(index(name))


@pytest.mark.parametrize("wrong", [index("i", "b", filter_by="b >"), index("i", "b c"), index("i", "")])
def test_what_cannot_be_read_is_refused(wrong: IndexDefinition) -> None:
    with pytest.raises(BadFilter):
        checked_index(wrong)


@pytest.mark.parametrize("wrong", [index("i", "a", "`a`"), index("i", *[f"f{number}" for number in range(17)])])
def test_fields_are_few_and_named_once(wrong: IndexDefinition) -> None:
    with pytest.raises(BadInput):
        checked_index(wrong)


def test_indexes_are_alike_whatever_their_state() -> None:
    ready = IndexDefinition(id="i", number=7, sort_by=(SortField("b"),), filter_by="b > 1", state="ready", rows=5)
    assert is_alike(ready, index("i", "b", filter_by="b > 1 "))
    assert not is_alike(ready, index("i", "c", filter_by="b > 1"))


def test_advice_is_the_body_of_a_request() -> None:
    advice = IndexAdvice(sort_by=(SortField("b", "desc", "decimal"),), filter_by="b > 10")
    assert json.encode(advice) == b'{"sortBy":[{"fieldName":"b","order":"desc","fieldType":"decimal"}],"filterBy":"b > 10"}'
