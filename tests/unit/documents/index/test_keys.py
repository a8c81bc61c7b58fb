"""Keys of index rows."""

from __future__ import annotations

import pytest

from headwater.core import bytekeys
from headwater.core.document_errors import BadFilter
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.keys import index_keys


def index(*fields: SortField, filter_by: str = "") -> IndexDefinition:
    return IndexDefinition(id="i", number=1, sort_by=fields, filter_by=filter_by)


def test_a_key_is_the_fields_then_the_id() -> None:
    keys = index_keys(index(SortField("b", "desc", "decimal"), SortField("o.x")))
    expected = bytekeys.encode((5, "y", "k"), (True, False, False))
    assert keys.key("k", {"id": "k", "b": 5, "o": {"x": "y"}}) == expected
    assert keys.key("k", {"id": "k"}) == bytekeys.encode((None, None, "k"), (True, False, False))


def test_without_fields_the_key_is_the_id() -> None:
    assert index_keys(index()).key("k", {"id": "k"}) == bytekeys.encode(("k",))


def test_the_filter_decides_who_has_a_row() -> None:
    keys = index_keys(index(SortField("b"), filter_by="b > 10"))
    assert keys.key("k", {"b": 11}) is not None
    for body in ({"b": 10}, {"b": "11"}, {}):
        assert keys.key("k", body) is None


def test_an_item_for_which_the_filter_has_no_value_has_no_row() -> None:
    assert index_keys(index(filter_by="b + 1 > 2")).key("k", {"b": "x"}) is None


def test_an_item_for_which_the_filter_is_too_costly_has_a_row() -> None:
    assert index_keys(index(filter_by="t like 'a.*b'")).key("k", {"t": "a" * 500_000}) is not None


def test_items_of_another_type_are_told() -> None:
    keys = index_keys(index(SortField("b", "asc", "decimal"), SortField("c")))
    assert not keys.unlike({"b": 1, "c": "x"})
    assert not keys.unlike({})
    assert keys.unlike({"b": "1"})
    assert keys.unlike({"c": 1})


def test_keys_are_compiled_once_for_all_states() -> None:
    one = IndexDefinition(id="i", number=1, sort_by=(SortField("b"),))
    two = IndexDefinition(id="i", number=1, sort_by=(SortField("b"),), state="ready", built="x")
    assert index_keys(one) is index_keys(two)


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(BadFilter):
        index_keys(index(filter_by="b >"))
    with pytest.raises(BadFilter):
        index_keys(index(SortField("b c")))
