from __future__ import annotations

import pickle

import pytest

from headwater.adaptors.documents.adaptor import documents
from headwater.core.errors import BadConfig, BadInput


@pytest.mark.parametrize(
    ("path", "why", "hint"),
    [
        ("shop/settings", "neither a collection nor a prefix", "ends with ~"),
        ("", "empty segment", "single slashes"),
        ("shop//", "empty segment", "single slashes"),
        ("shop/a b~", "' '", "letters, digits"),
        ("shop/catalogue~/hat", "is an item", "shop/catalogue~."),
        ("shop/catalogue~/", "is an item", "shop/catalogue~."),
        ("a~/b~", "is an item", "Name the collection: a~"),
    ],
)
def test_a_path_that_is_neither_is_refused(path: str, why: str, hint: str) -> None:
    with pytest.raises(BadConfig, match=r"path|neither|is an item") as refused:
        documents(path)
    assert why in refused.value.message
    assert hint in refused.value.hint


def test_options_and_addresses_that_are_none_are_refused() -> None:
    with pytest.raises(BadConfig, match="through their server"):
        documents("a~", address="kafka://broker:9092")
    with pytest.raises(BadConfig, match="user or a password"):
        documents("a~", address="http://me:secret@host:8420")
    with pytest.raises(BadConfig, match="collection"):
        documents("a~", collection="b~")


def test_a_sink_has_a_place_for_each_namespace() -> None:
    assert documents("a~").target("things") == "a~"
    assert documents("a/").target("things") == "a/"
    made = documents("copy/{namespace}")
    assert [made.target(one) for one in ("things", "b/c~", "b/", "/")] == ["copy/things~", "copy/b/c~", "copy/b/", "copy/"]
    everywhere = documents("{namespace}")
    assert [everywhere.target(one) for one in ("things", "b/c~", "b/", "/")] == ["things~", "b/c~", "b/", "/"]
    assert documents("x-{namespace}~").target("public.orders") == "x-public.orders~"
    with pytest.raises(BadInput, match="may have"):
        made.target("a b")


def test_it_is_a_value_that_says_where_it_is() -> None:
    made = documents("shop/", address="data", tail=False)
    assert str(made) == "documents(shop/, data)"
    assert pickle.loads(pickle.dumps(made)) == made
    assert (made.is_collection, made.prefix, documents("/").prefix, documents("a~").is_collection) == (False, "shop/", "", True)
    made.check_read()
    with pytest.raises(BadConfig, match="for sinks"):
        documents("{namespace}").check_read()
