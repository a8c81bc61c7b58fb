"""Checks values against a schema, and says which field does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, InvalidOperation
from typing import Any, Final, NamedTuple

from headwater.core.document_errors import UnfitBody
from headwater.documents.body import kind_of
from headwater.documents.filter.meter import StepMeter
from headwater.documents.filter.pattern import pattern
from headwater.documents.filter.values import (
    BOOLEAN,
    LIST,
    NULL,
    NUMBER,
    OBJECT,
    TEXT,
    EvaluationError,
    as_decimal,
    kind,
    number_order,
    same,
)
from headwater.documents.schema.keywords import checked_schema, target_of
from headwater.wire import json

_TYPES: Final = {NULL: "null", NUMBER: "number", TEXT: "string", BOOLEAN: "boolean", LIST: "array", OBJECT: "object"}
_MOST_STEPS: Final = 500_000
_DEEPEST: Final = 200  # schemas in each other while one value is checked
_DIGITS: Final = Context(prec=1000, traps=[InvalidOperation])
Faults = Iterator["SchemaFault"]


class SchemaFault(NamedTuple):
    """What does not fit: the place in the value as a JSON pointer, and why."""

    place: str
    says: str


class JsonSchema:
    """A schema, ready to check values. Immutable; safe to use from several threads. Errors: `BadInput` for what is no schema."""

    def __init__(self, schema: Any) -> None:
        checked_schema(schema)
        self._schema = schema

    def names(self, field: str) -> bool:
        """Whether the schema itself says something of a field."""
        schema = self._schema
        return isinstance(schema, dict) and (field in schema.get("properties", ()) or field in schema.get("required", ()))

    def check(self, value: Any, path: str) -> None:
        """Errors: `UnfitBody`, which names the field of the item at `path`."""
        try:
            fault = _Check(self._schema).fault(self._schema, value, "", 0)
        except EvaluationError:
            raise UnfitBody(
                f"The body of {path} takes too many steps to check.", hint="Send a smaller body, or simplify the schema."
            ) from None
        if fault is not None:
            field = f"The field {fault.place:.200} of {path}" if fault.place else f"The body of {path}"
            raise UnfitBody(f"{field} {fault.says}.", hint=f"See what fits: `headwater doc schema show {path.rpartition('/')[0] or path}`.")


class _Check:
    """One value that is checked."""

    def __init__(self, root: Any) -> None:
        self._root, self._meter = root, StepMeter(_MOST_STEPS)

    def fault(self, schema: Any, value: Any, place: str, depth: int) -> SchemaFault | None:
        """The first thing that does not fit. Errors: `EvaluationError` where it takes too long."""
        self._meter.take(1)
        if depth > _DEEPEST:
            raise EvaluationError("the schema is too deep for this value")
        if isinstance(schema, bool):
            return None if schema else SchemaFault(place, "is not allowed")
        faults = [self._any(schema, value, place), self._in_place(schema, value, place, depth)]
        value_kind = kind(value)
        if value_kind == OBJECT:
            faults.append(self._object(schema, value, place, depth))
        elif value_kind == LIST:
            faults.append(self._list(schema, value, place, depth))
        elif value_kind == TEXT:
            faults.append(self._text(schema, value, place))
        elif value_kind == NUMBER:
            faults.append(_number(schema, value, place))
        return next((fault for fault_group in faults for fault in fault_group), None)

    def _fits(self, schema: Any, value: Any, place: str, depth: int) -> bool:
        return self.fault(schema, value, place, depth + 1) is None

    def _inner(self, schema: Any, value: Any, place: str, depth: int) -> Faults:
        if (fault := self.fault(schema, value, place, depth + 1)) is not None:
            yield fault

    # -- keywords of every type -------------------------------------------------------------------------------

    def _any(self, schema: dict[str, Any], value: Any, place: str) -> Faults:
        if "type" in schema:
            names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            if not any(_is_of(value, name) for name in names):
                yield SchemaFault(place, f"is {kind_of(value)}, and the schema wants {' or '.join(names)}")
        if "const" in schema and not self._same(value, schema["const"]):
            yield SchemaFault(place, f"is not {_shown(schema['const'])}")
        if "enum" in schema and not any(self._same(value, enum_value) for enum_value in schema["enum"]):
            yield SchemaFault(place, f"is none of {', '.join(map(_shown, schema['enum'][:20]))}")

    def _in_place(self, schema: dict[str, Any], value: Any, place: str, depth: int) -> Faults:
        if "$ref" in schema:
            yield from self._inner(target_of(self._root, schema["$ref"]), value, place, depth)
        for required_schema in schema.get("allOf", ()):
            yield from self._inner(required_schema, value, place, depth)
        if "anyOf" in schema and not any(self._fits(subschema, value, place, depth) for subschema in schema["anyOf"]):
            yield SchemaFault(place, "fits none of the schemas of anyOf")
        if "oneOf" in schema and (fitting := sum(self._fits(subschema, value, place, depth) for subschema in schema["oneOf"])) != 1:
            yield SchemaFault(place, f"fits {fitting} of the schemas of oneOf, and has to fit one")
        if "not" in schema and self._fits(schema["not"], value, place, depth):
            yield SchemaFault(place, "fits the schema of not")
        if "if" in schema:
            branch = schema.get("then" if self._fits(schema["if"], value, place, depth) else "else", True)
            yield from self._inner(branch, value, place, depth)

    # -- keywords of one type ---------------------------------------------------------------------------------

    def _object(self, schema: dict[str, Any], value: dict[str, Any], place: str, depth: int) -> Faults:
        for name in schema.get("required", ()):
            if name not in value:
                yield SchemaFault(f"{place}/{_escaped(name)}", "is missing")
        yield from _counted(len(value), schema, place, least="minProperties", most="maxProperties", unit="fields")
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        additional, names = schema.get("additionalProperties", True), schema.get("propertyNames", True)
        for name, inner in value.items():
            inner_place, is_known = f"{place}/{_escaped(name)}", name in properties
            if is_known:
                yield from self._inner(properties[name], inner, inner_place, depth)
            for text, subschema in patterns.items():
                if pattern(text).found(name, self._meter):
                    is_known = True
                    yield from self._inner(subschema, inner, inner_place, depth)
            if not is_known and additional is not True:
                yield from self._inner(additional, inner, inner_place, depth)
            if names is not True and not self._fits(names, name, inner_place, depth):
                yield SchemaFault(inner_place, "has a name that does not fit propertyNames")
        for name, needed in schema.get("dependentRequired", {}).items():
            yield from (
                SchemaFault(f"{place}/{_escaped(needed_name)}", "is missing")
                for needed_name in needed
                if name in value and needed_name not in value
            )
        for name, subschema in schema.get("dependentSchemas", {}).items():
            if name in value:
                yield from self._inner(subschema, value, place, depth)

    def _list(self, schema: dict[str, Any], value: list[Any], place: str, depth: int) -> Faults:
        yield from _counted(len(value), schema, place, least="minItems", most="maxItems", unit="elements")
        first, rest = schema.get("prefixItems", ()), schema.get("items", True)
        for number, inner in enumerate(value):
            wanted = first[number] if number < len(first) else rest
            if wanted is not True:
                yield from self._inner(wanted, inner, f"{place}/{number}", depth)
        if "contains" in schema:
            least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
            if not least <= sum(self._fits(schema["contains"], inner, place, depth) for inner in value) <= most:
                yield SchemaFault(place, "has too few or too many elements that fit contains")
        if schema.get("uniqueItems"):
            self._meter.take(len(value))
            if len(set(map(_hashable, value))) < len(value):
                yield SchemaFault(place, "has an element twice")

    def _text(self, schema: dict[str, Any], value: str, place: str) -> Faults:
        yield from _counted(len(value), schema, place, least="minLength", most="maxLength", unit="characters")
        if "pattern" in schema and not pattern(schema["pattern"]).found(value, self._meter):
            yield SchemaFault(place, f"does not fit the pattern {schema['pattern']!r:.100}")

    def _same(self, left: Any, right: Any) -> bool:
        self._meter.take(1)
        return same(left, right)


def _number(schema: dict[str, Any], value: Any, place: str) -> Faults:
    if "minimum" in schema and number_order(value, schema["minimum"]) < 0:
        yield SchemaFault(place, f"is less than {schema['minimum']}")
    if "maximum" in schema and number_order(value, schema["maximum"]) > 0:
        yield SchemaFault(place, f"is greater than {schema['maximum']}")
    if "exclusiveMinimum" in schema and number_order(value, schema["exclusiveMinimum"]) <= 0:
        yield SchemaFault(place, f"is not greater than {schema['exclusiveMinimum']}")
    if "exclusiveMaximum" in schema and number_order(value, schema["exclusiveMaximum"]) >= 0:
        yield SchemaFault(place, f"is not less than {schema['exclusiveMaximum']}")
    if "multipleOf" in schema and not _is_multiple(value, schema["multipleOf"]):
        yield SchemaFault(place, f"is no multiple of {schema['multipleOf']}")


def _counted(count: int, schema: dict[str, Any], place: str, *, least: str, most: str, unit: str) -> Faults:
    if count < schema.get(least, 0):
        yield SchemaFault(place, f"has {count} {unit}, and needs at least {schema[least]}")
    if most in schema and count > schema[most]:
        yield SchemaFault(place, f"has {count} {unit}, and may have at most {schema[most]}")


def _is_of(value: Any, name: str) -> bool:
    type_name = _TYPES[kind(value)]
    return type_name == name or (name == "integer" and type_name == "number" and _is_multiple(value, 1))


def _is_multiple(value: Any, of: Any) -> bool:
    number, unit = as_decimal(value), as_decimal(of)
    if number.is_zero():
        return True
    if unit == 1 and number.as_tuple().exponent >= 0:  # type: ignore[operator]
        return True  # such as 1e300, whose digits nobody writes
    try:
        return _DIGITS.remainder(number, unit) == 0
    except InvalidOperation:  # more digits than anybody means
        return False


def _hashable(value: Any) -> Any:
    """Equal for values that are the same, and unlike for others."""
    value_kind = kind(value)
    if value_kind == OBJECT:
        return OBJECT, frozenset((name, _hashable(inner)) for name, inner in value.items())
    if value_kind == LIST:
        return LIST, tuple(map(_hashable, value))
    return value_kind, as_decimal(value) if value_kind == NUMBER else value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _shown(value: Any) -> str:
    text = json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}…"
