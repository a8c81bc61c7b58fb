"""Which schemas are taken, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.documents.schema.keywords import checked_schema, target_of


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Item", "format": "email"},
        {"properties": {"parts": {"type": "array", "items": {"$ref": "#"}}}},
        {"$defs": {"a": {"type": "number"}}, "properties": {"x": {"$ref": "#/$defs/a"}}},
        {"$defs": {"a/b~c": {}}, "$ref": "#/$defs/a~1b~0c"},
        {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "null"}}},
    ],
)
def test_a_schema_is_taken(schema: Any) -> None:
    checked_schema(schema)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (1, "is no schema"),
        ([], "is no schema"),
        ({"tpye": "number"}, "the keyword 'tpye'"),
        ({"properties": {"a": {"typ": 1}}}, "#/properties/a"),
        ({"type": "text"}, "#/type"),
        ({"type": []}, "#/type"),
        ({"required": "a"}, "#/required"),
        ({"minimum": "1"}, "#/minimum"),
        ({"minLength": -1}, "#/minLength"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"items": [{}]}, "#/items"),
        ({"allOf": []}, "#/allOf"),
        ({"properties": []}, "#/properties"),
        ({"pattern": "("}, "cannot be read"),
        ({"patternProperties": {"(": {}}}, "cannot be read"),
        ({"$ref": "https://elsewhere.example/schema"}, r"#/\$ref"),
        ({"$ref": "#/$defs/none"}, "nothing at"),
        ({"$ref": "#"}, "back to itself"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}, "back to itself"),
        ({"$ref": "#/examples/0", "examples": [{"tpye": 1}]}, "tpye"),
        ({"properties": {str(number): {} for number in range(1001)}}, "more than 1000"),
    ],
)
def test_a_schema_that_nobody_could_check_is_refused(schema: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        checked_schema(schema)


def test_a_reference_names_a_place() -> None:
    schema = {"$defs": {"a": [{"type": "null"}]}}
    assert target_of(schema, "#") is schema
    assert target_of(schema, "#/$defs/a/0") == {"type": "null"}
