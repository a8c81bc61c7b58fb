"""What tells documents of a collection apart."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.pipeline.adaptors import mongodb
from headwater.pipeline.message import Message


@pytest.mark.parametrize(
    ("data", "fields", "expected"),
    [
        ({"_id": 1}, ("_id",), ([1], {"_id": 1})),
        ({"_id": None, "v": 1}, ("_id",), ([None], {"_id": None, "v": 1})),  # null is an id in MongoDB
        ({"v": 1}, ("_id",), (["p-7"], {"_id": "p-7", "v": 1})),
        ({"a": 1}, ("a", "b"), (["p-7"], {"_id": "p-7", "a": 1})),
        ({"a": 1, "b": 2}, ("a", "b"), ([['{"_id":[1,2]}']], {"a": 1, "b": 2})),
        ({"_id": {"b": 1, "a": 2}}, ("_id",), ([['{"_id":{"b":1,"a":2}}']], {"_id": {"b": 1, "a": 2}})),  # in this order
    ],
)
def test_a_document_without_an_id_gets_one_and_null_is_an_id(data: dict[str, Any], fields: tuple[str, ...], expected: Any) -> None:
    sink = mongodb("mongodb://127.0.0.1/d")
    assert sink.identified(Message("t", data, offset=7, id_fields=fields), "p") == expected
