"""The keywords of JSON Schema (draft 2020-12) that schemas of collections have, and what may stand behind each.

A keyword that is not known here is refused: a schema must not promise what nobody checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote

from headwater.core.errors import BadInput
from headwater.documents.filter.pattern import pattern
from headwater.documents.filter.values import NUMBER, EvaluationError, kind

TYPES: Final = ("null", "boolean", "number", "integer", "string", "array", "object")
IN_PLACE: Final = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$ref"))
"""They look at the same value again: a circle of them would have no end."""
_ONE: Final = frozenset(("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else"))
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains")
_NOTES: Final = frozenset(
    ("$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format")
)
_MOST: Final = 1000  # schemas in one schema


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(name in TYPES for name in names if isinstance(name, str)) and all(isinstance(name, str) for name in names)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_number(value: Any) -> bool:
    return kind(value) == NUMBER


def _is_pattern(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        pattern(value)
    except EvaluationError as error:
        raise BadInput(f"The pattern {value!r:.80} of the schema cannot be read: {error}.", hint="Write it as for `like`.") from None
    return True


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


_VALUES: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "type": (_is_type, f"one of {', '.join(TYPES)}, or a list of them"),
    "enum": (lambda value: isinstance(value, list), "a list of values"),
    "const": (lambda value: True, "a value"),
    "required": (_is_names, "a list of names"),
    "dependentRequired": (lambda value: isinstance(value, dict) and all(map(_is_names, value.values())), "lists of names by name"),
    "pattern": (_is_pattern, "a pattern"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "$ref": (lambda value: isinstance(value, str) and value.startswith("#"), "a place in this schema, such as #/$defs/price"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_is_number, "a number")),
    **dict.fromkeys(_COUNTS, (_is_count, "a whole number from 0 on")),
}


def checked_schema(schema: Any) -> None:
    """See that a schema can be applied to every value. Errors: `BadInput`, which names the place."""
    waiting, seen_ids = [("#", schema)], set[int]()
    while waiting:
        place, subschema = waiting.pop()
        if isinstance(subschema, bool) or id(subschema) in seen_ids:
            continue
        if not isinstance(subschema, dict):
            raise _bad(place, "is no schema", "A schema is an object, true or false.")
        seen_ids.add(id(subschema))
        if len(seen_ids) > _MOST:
            raise _bad(place, f"is one schema too many: there are more than {_MOST}", "Divide the collection.")
        for keyword, value in subschema.items():
            _check_keyword(place, keyword, value)
        waiting += [(f"{place}/{where}", inner) for where, inner in _inner(subschema)]
        if "$ref" in subschema:
            waiting.append((subschema["$ref"], target_of(schema, subschema["$ref"])))
    _check_circles(schema)


def target_of(schema: Any, reference: str) -> Any:
    """The schema that a `$ref` names. Errors: `BadInput`."""
    subschema = schema
    for step in reference[1:].split("/")[1:] if reference != "#" else ():
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(subschema, dict) and name in subschema:
            subschema = subschema[name]
        elif isinstance(subschema, list) and name.isdecimal() and int(name) < len(subschema):
            subschema = subschema[int(name)]
        else:
            raise BadInput(f"The schema has nothing at {reference!r:.80}.", hint="A $ref names a place such as #/$defs/price.")
    return subschema


def _check_keyword(place: str, keyword: str, value: Any) -> None:
    if keyword in _NOTES or (keyword in _ONE and isinstance(value, bool | dict)):
        return
    if keyword in _LISTS and isinstance(value, list) and value:
        return
    if keyword in _MAPS and isinstance(value, dict):
        if keyword == "patternProperties":
            all(map(_is_pattern, value))
        return
    if keyword in _VALUES:
        fits, wanted = _VALUES[keyword]
        if not fits(value):
            raise _bad(f"{place}/{keyword}", "cannot be this", f"It is {wanted}.")
        return
    if keyword in _ONE | _LISTS | _MAPS:
        wanted = "a schema" if keyword in _ONE else "a list of schemas" if keyword in _LISTS else "schemas by name"
        raise _bad(f"{place}/{keyword}", "cannot be this", f"It is {wanted}.")
    known_keywords = sorted((*_VALUES, *_ONE, *_LISTS, *_MAPS, *_NOTES))
    raise _bad(place, f"has the keyword {keyword!r:.60}, which is not known here", f"Known are {', '.join(known_keywords)}.")


def _inner(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas inside of one, each with its place."""
    for keyword, value in schema.items():
        if keyword in _ONE:
            yield keyword, value
        elif keyword in _LISTS:
            yield from ((f"{keyword}/{number}", subschema) for number, subschema in enumerate(value))
        elif keyword in _MAPS:
            yield from ((f"{keyword}/{name}", subschema) for name, subschema in value.items())


def _check_circles(schema: Any) -> None:
    """Errors: `BadInput` for a schema that asks for itself without a step into the value."""
    done, within = set[int](), set[int]()
    waiting: list[tuple[Any, bool]] = [(each_schema, False) for each_schema in _all(schema)]
    while waiting:
        subschema, left = waiting.pop()
        if left:
            within.discard(id(subschema))
            done.add(id(subschema))
        elif id(subschema) in within:
            raise BadInput("A $ref of the schema leads back to itself.", hint="Let it go one step into the value first, as by properties.")
        elif isinstance(subschema, dict) and id(subschema) not in done:
            within.add(id(subschema))
            waiting.append((subschema, True))
            waiting += [(inner, False) for where, inner in _inner(subschema) if where.partition("/")[0] in IN_PLACE]
            if "$ref" in subschema:
                waiting.append((target_of(schema, subschema["$ref"]), False))


def _all(schema: Any) -> Iterator[Any]:
    """Every schema in a schema."""
    waiting, seen_ids = [schema], set[int]()
    while waiting:
        subschema = waiting.pop()
        if isinstance(subschema, dict) and id(subschema) not in seen_ids:
            seen_ids.add(id(subschema))
            yield subschema
            waiting += [inner for _, inner in _inner(subschema)]


def _bad(place: str, says: str, hint: str) -> BadInput:
    return BadInput(f"The schema at {place[:200]} {says}.", hint=hint)
