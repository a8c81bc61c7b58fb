"""What fits a schema, and which field is named where it does not. A peer decides the same for random schemas and values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.document_errors import UnfitBody
from headwater.documents.schema.validation import JsonSchema
from headwater.wire import json

_decode = json.decoder(object)
NAMES = st.sampled_from("abc")
LEAVES = st.one_of(
    st.none(), st.booleans(), st.sampled_from([0, 1, 2, -1, 1.5, 2.0, 0.1, 10]), st.sampled_from(["", "a", "ab", "abc", "x1"])
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8)
TYPES = st.sampled_from(["null", "boolean", "number", "integer", "string", "array", "object"])
COUNTS = st.integers(0, 3)
NUMBERS = st.sampled_from([0, 1, 1.5, -1, 2])


def _keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    by_name = st.dictionaries(NAMES, inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=2)
    names = st.lists(NAMES, min_size=1, max_size=2, unique=True)
    values: dict[str, st.SearchStrategy[Any]] = {
        "type": st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(LEAVES, min_size=1, max_size=3),
        "const": VALUES,
        "required": names,
        "dependentRequired": st.dictionaries(NAMES, names, max_size=2),
        "uniqueItems": st.booleans(),
        "pattern": st.sampled_from(["^a", "b$", "[0-9]", "^$"]),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b", "[bc]"]), inner, max_size=2),
        "multipleOf": st.sampled_from([1, 2, 0.5, 0.1]),
        "$ref": st.sampled_from(["#/$defs/d", "#/$defs/e"]),
        **dict.fromkeys(("properties", "dependentSchemas"), by_name),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
        **dict.fromkeys(("additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else"), inner),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains"), COUNTS),
    }
    return st.fixed_dictionaries({}, optional=values)


SCHEMAS = st.recursive(st.booleans() | TYPES.map(lambda name: {"type": name}), _keywords, max_leaves=6)


def fits(schema: Any, value: Any) -> bool:
    try:
        JsonSchema(_decode(json.encode(schema))).check(_decode(json.encode(value)), "c~/1")
    except UnfitBody:
        return False
    return True


@given(SCHEMAS, SCHEMAS, VALUES)
def test_a_peer_says_the_same(schema: Any, other: Any, value: Any) -> None:
    whole = {"allOf": [schema], "$defs": {"d": {"type": ["number", "string"]}, "e": {"items": other, "maxProperties": 2}}}
    if "$ref" in json.encode(other).decode():
        whole["$defs"]["e"] = {"items": {"type": "number"}}  # a circle is refused
    assert fits(whole, value) == jsonschema_rs.Draft202012Validator(whole).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"type": "object"}, [], "The body of c~/1 is an array, and the schema wants object"),
        ({"required": ["price"]}, {}, "The field /price of c~/1 is missing"),
        ({"properties": {"a": {"items": {"minimum": 2}}}}, {"a": [3, 1]}, "/a/1 of c~/1 is less than 2"),
        ({"properties": {"a/b~": {"type": "null"}}}, {"a/b~": 1}, "/a~1b~0 of c~/1 is a number"),
        ({"additionalProperties": False}, {"b": 1}, "/b of c~/1 is not allowed"),
        ({"properties": {"a": {"enum": ["x", 1]}}}, {"a": "y"}, '/a of c~/1 is none of "x", 1'),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "y"}, "does not fit the pattern '^x'"),
    ],
)
def test_the_field_is_named(schema: Any, value: Any, says: str) -> None:
    with pytest.raises(UnfitBody) as caught:
        JsonSchema(schema).check(value, "c~/1")
    assert says in caught.value.message
    assert "headwater doc schema show c~" in caught.value.hint


def test_numbers_are_compared_by_their_digits() -> None:
    assert fits({"multipleOf": 0.1}, 0.3)
    JsonSchema({"multipleOf": Decimal("0.01")}).check(Decimal("12345678901234567890.12"), "c~/1")
    JsonSchema({"type": "integer"}).check(Decimal("1e4000"), "c~/1")
    with pytest.raises(UnfitBody):
        JsonSchema({"type": "integer"}).check(Decimal("1e-4000"), "c~/1")
    with pytest.raises(UnfitBody):
        JsonSchema({"multipleOf": 7}).check(Decimal("1e4000"), "c~/1")  # in time, too


def test_nothing_takes_long() -> None:
    twice = {"$defs": {f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(40)}, "$ref": "#/$defs/d0"}
    twice["$defs"]["d40"] = {"type": "null"}
    with pytest.raises(UnfitBody, match="too many steps"):
        JsonSchema(twice).check(1, "c~/1")
    long = {"$defs": {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(500)}, "$ref": "#/$defs/d0"}
    long["$defs"]["d500"] = True
    with pytest.raises(UnfitBody, match="too many steps"):
        JsonSchema(long).check(1, "c~/1")


def test_it_says_which_fields_it_names() -> None:
    assert JsonSchema({"properties": {"id": {}}}).names("id")
    assert JsonSchema({"required": ["id"]}).names("id")
    assert not JsonSchema(True).names("id")
