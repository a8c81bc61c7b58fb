"""Column types: the type of a value, the type that holds two types, and what the columns of a sink's tables can hold. Pure.

A sink that makes tables decides the type of each column once. The decision is kept in the offset log, so that every part, every task and
every restart uses the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation, Overflow, Subnormal
from functools import reduce
from itertools import repeat
from typing import Any, ClassVar, Literal
from uuid import UUID

import msgspec

from headwater.pipeline import values

# null: objects without fields, and nothing else; any: values of several types.
ColumnKind = Literal["null", "bool", "int", "float", "decimal", "text", "oid", "moment", "bytes", "uuid", "object", "list", "any"]
_NUMBERS = frozenset({"int", "float", "decimal"})
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_SAFE = 15  # digits of an integer that a float holds for certain
_FLOAT = 600  # digits that hold every float of at most 15 digits, before the point and behind it
_SHORT = Context(prec=_SAFE, Emax=290, Emin=-290, traps=[Inexact, InvalidOperation, Overflow, Subnormal])
_SHOWN = 80  # characters of a value in an error
_LEVELS = 64  # of objects and lists inside each other that a type tells apart: each takes some of the interpreter's few frames


class ColumnType(msgspec.Struct, frozen=True, omit_defaults=True):
    """The type of a column, or of a value. Of numbers it has the digits, so that a type for several of them can be found."""

    kind: ColumnKind
    whole: int = 0  # digits before the point
    scale: int = 0  # digits behind the point
    exact: bool = False  # a decimal among them that no float prints: 0.10000000000000000001
    nan: bool = False
    infinite: bool = False
    fields: dict[str, ColumnType] = {}  # of an object
    item: ColumnType | None = None  # of a list

    def __str__(self) -> str:
        match self.kind:
            case "object" if self.fields:
                return f"object({', '.join(f'{name}: {column}' for name, column in self.fields.items())})"
            case "list" if self.item is not None:
                return f"list of {self.item}"
        return self.kind


class TableColumns(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decided columns of one table. `key`: those that identify a row; empty where documents have no id."""

    columns: dict[str, ColumnType] = {}
    key: tuple[str, ...] = ()
    made: bool = False  # whether the table was there when the sink had taken messages: it must not be made a second time

    def shown(self) -> dict[str, str]:
        """The kind of each column, as people read it."""
        return {name: str(column) for name, column in self.columns.items()}


Tables = dict[str, TableColumns]  # by the place that the sink keeps a namespace's documents in


class NeedsColumns(Exception):
    """A batch needs columns that are not decided, or wider ones. Nothing of it is written; the run decides, and it comes again."""

    def __init__(self, table: str, types: Mapping[str, ColumnType], offsets: Mapping[str, int], key: tuple[str, ...] = ()) -> None:
        super().__init__(f"The table {table} needs the columns {', '.join(types)}.")
        self.needs = ColumnNeeds(table, dict(types), dict(offsets), key)


class ColumnNeeds(msgspec.Struct, frozen=True):
    """What `NeedsColumns` says: the types, for each column the first message that needs it, and the key of a table that is new."""

    table: str
    types: dict[str, ColumnType]
    offsets: dict[str, int]
    key: tuple[str, ...] = ()

    @property
    def offset(self) -> int:
        """The first message that needs one of the columns."""
        return min(self.offsets.values())


class ColumnRules(ABC):
    """What the tables of a kind of sink can hold."""

    keyed: ClassVar[bool] = True  # whether rows are identified by the documents' ids
    cased: ClassVar[bool] = True  # whether a table can have two columns whose names differ in nothing but case

    @abstractmethod
    def settled(self, wanted: ColumnType) -> ColumnType | None:
        """The type of the column that is made for values of a type; None where there is none. Settling a settled type returns it."""

    @abstractmethod
    def widens(self, before: ColumnType, after: ColumnType) -> bool:
        """Whether a column that holds rows can be changed to another settled type, and stays readable."""

    @abstractmethod
    def named(self, column: ColumnType) -> str:
        """The type as the sink calls it."""

    def twin(self, name: str, others: Iterable[str]) -> str | None:
        """The one of other columns that a table cannot have beside the column of this name."""
        if self.cased:
            return None
        folded = name.lower()
        return next((other for other in others if other != name and other.lower() == folded), None)

    def joined(self, before: ColumnType | None, value: ColumnType, *, key: bool) -> ColumnType | None:
        """The type, not settled, of a new column for values of both types; None where there is none.

        A key's column holds one kind: where 1, 1.0, true and "1" would be equal, documents would share a row.
        """
        if key and before is not None and before.kind != value.kind:
            return None
        wide = value if before is None else wider(before, value)
        settled = self.settled(wide)
        return None if settled is None or (key and settled.kind == "any") else wide

    def widened(self, column: ColumnType, value: ColumnType, *, key: bool) -> ColumnType | None:
        """The settled type that a column is changed to for a value that it does not hold; None where the value is refused."""
        after = self.settled(wider(column, value))
        if after is None or (key and after.kind != column.kind) or not holds_type(after, value) or not self.widens(column, after):
            return None
        return after


def type_of(value: Any, *, levels: int = _LEVELS) -> ColumnType | None:
    """The type of a document's value; None for null. What lies deeper than so many levels is of any type."""
    match values.native(value):
        case None:
            return None
        case bool():
            return ColumnType("bool")
        case int() as number:
            digits = Decimal(number).adjusted() + 1
            if _LEAST <= number <= _MOST:
                return ColumnType("int", whole=digits)
            return ColumnType("decimal", whole=digits, exact=not _printed(Decimal(number)))
        case float() as number:
            if not math.isfinite(number):
                return ColumnType("float", nan=number != number, infinite=number == number)
            whole, scale = _digits(Decimal(repr(number)))
            return ColumnType("float", whole=whole, scale=scale)
        case Decimal() as number:
            if not number.is_finite():
                return ColumnType("decimal", nan=number.is_nan(), infinite=number.is_infinite())
            whole, scale = _digits(number)
            return ColumnType("decimal", whole=whole, scale=scale, exact=not _printed(number))
        case str():
            return ColumnType("text" if isinstance(value, str) else "oid")
        case datetime():
            return ColumnType("moment")
        case bytes():
            return ColumnType("bytes")
        case UUID():
            return ColumnType("uuid")
        case dict() as fields if levels:
            columns = {name: column for name, each in fields.items() if (column := type_of(each, levels=levels - 1)) is not None}
            return ColumnType("object", fields=columns)
        case list() as items if levels:
            types = [column for each in items if (column := type_of(each, levels=levels - 1)) is not None]
            return ColumnType("list", item=reduce(wider, types) if types else None)
    return ColumnType("any")


def wider(left: ColumnType, right: ColumnType) -> ColumnType:
    """The type that holds the values of both: `any`, where no narrower one does."""
    if left == right or right.kind == "null":
        return left
    if left.kind == "null":
        return right
    if left.kind in _NUMBERS and right.kind in _NUMBERS:
        return _wider_number(left, right)
    if left.kind != right.kind or left.kind == "any":
        return ColumnType("any", exact=left.exact or right.exact)
    match left.kind:
        case "object":
            both = {name: wider(old, right.fields[name]) if name in right.fields else old for name, old in left.fields.items()}
            return ColumnType("object", fields={**both, **{name: new for name, new in right.fields.items() if name not in both}})
        case "list":
            items = [item for item in (left.item, right.item) if item is not None]
            return ColumnType("list", item=reduce(wider, items) if items else None)
    return left


def _wider_number(left: ColumnType, right: ColumnType) -> ColumnType:
    kinds = {left.kind, right.kind}
    kind: ColumnKind = left.kind
    if len(kinds) == 2:
        integer = left if left.kind == "int" else right
        kind = "float" if kinds == {"int", "float"} and integer.whole <= _SAFE else "decimal"
    return ColumnType(
        kind,
        whole=max(left.whole, right.whole),
        scale=max(left.scale, right.scale),
        exact=left.exact or right.exact,
        nan=left.nan or right.nan,
        infinite=left.infinite or right.infinite,
    )


def fits(column: ColumnType, cells: Sequence[Any], *, key: bool = False) -> bool:
    """Whether a column holds all of these values. Looking at their types first is quicker than at each."""
    kinds = set(map(type, cells))
    kinds.discard(type(None))
    match column.kind:
        case "any" if column.exact:
            return True
        case "text" | "bool":
            if kinds <= ({str} if column.kind == "text" else {bool}):
                return True
        case "int" if kinds == {int}:
            numbers = [cell for cell in cells if cell is not None]
            return bool(min(numbers) >= _LEAST and max(numbers) <= _MOST)
        case "float" if kinds == {float}:
            return all(cell is None or math.isfinite(cell) for cell in cells) or all(holds(column, cell, key=key) for cell in cells)
        case "decimal" if kinds == {Decimal}:
            numbers = [cell for cell in cells if cell is not None]
            if column.whole + column.scale >= _FLOAT:
                if short(numbers) or (column.exact and _within(numbers, column.whole, column.scale)):
                    return True
            elif (column.exact or short(numbers)) and _within(numbers, column.whole, column.scale):
                return True
    return all(holds(column, cell, key=key) for cell in cells)


def short(numbers: Iterable[Decimal]) -> bool:
    """Whether all have so few digits that floats print as they do. One call each, of the library in C."""
    try:
        for _ in map(_SHORT.plus, numbers):
            pass
    except ArithmeticError:
        return False
    return True


def _within(numbers: Sequence[Decimal], whole: int, scale: int) -> bool:
    """Whether all are finite and have so many digits at most before the point and behind it."""
    try:
        places = Decimal(1).scaleb(-scale)
        context = Context(prec=whole + scale, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact, InvalidOperation])
        for _ in map(context.quantize, numbers, repeat(places)):
            pass
    except ArithmeticError:
        return False
    return not any(map(Decimal.is_nan, numbers))


def holds(column: ColumnType, value: Any, *, key: bool = False) -> bool:
    """Whether a column holds a value without changing it; null always."""
    kind = type_of(value)
    return kind is None or holds_type(column, kind, key=key)


def holds_type(column: ColumnType, value: ColumnType, *, key: bool = False) -> bool:
    """Whether a column holds the values of a type."""
    if key and value.kind != column.kind:
        return False
    if value.kind in _NUMBERS and (value.nan > column.nan or value.infinite > column.infinite) and column.kind in _NUMBERS:
        return False
    match column.kind:
        case "any":
            return column.exact or not value.exact
        case "float":
            return value.kind == "float" or (value.kind == "decimal" and not value.exact) or (value.kind == "int" and value.whole <= _SAFE)
        case "decimal":
            if value.kind not in _NUMBERS or (value.exact and not column.exact):
                return False
            return value.whole <= column.whole and value.scale <= column.scale
        case "object":
            if value.kind != "object" or not column.fields:
                return value.kind == "object"
            return all(_empty(field) or _held(column.fields.get(name), field) for name, field in value.fields.items())
        case "list":
            if value.kind != "list":
                return False
            return value.item is None or column.item is None or _empty(value.item) or holds_type(column.item, value.item)
        case "null":
            return _empty(value)
    return value.kind == column.kind


def _held(column: ColumnType | None, value: ColumnType) -> bool:
    return column is not None and holds_type(column, value)


def _empty(value: ColumnType) -> bool:
    """Whether these are objects without fields: a table with a column for each field cannot tell them from null."""
    return value.kind == "object" and all(map(_empty, value.fields.values()))


def observed(documents: Iterable[Mapping[str, Any]], rules: ColumnRules, key: Sequence[str] = ()) -> dict[str, ColumnType]:
    """The settled type of each field of a sample. A value that fits with none before it, or a field whose name does not fit beside those
    before it, has no say: it is refused when it is written."""
    columns: dict[str, ColumnType] = {}
    for document in documents:
        for name, value in document.items():
            kind = type_of(value)
            if kind is None or (name in columns and kind == columns[name]):
                continue
            wide = rules.joined(columns.get(name), kind, key=name in key)
            if wide is not None and (name in columns or rules.twin(name, columns) is None):
                columns[name] = wide
    return {name: settled for name, wide in columns.items() if (settled := rules.settled(wide)) is not None}


def misfit(table: str, name: str, column: str | None, value: Any) -> str:
    """The sentence that refuses a value. `column`: the type of its column as the sink calls it; None where it can have none."""
    shown = _cut(values.encode(values.extended(value)).decode())
    where, column = _where(table, name), None if column is None else _cut(column)
    kind = "integer beyond 64 bits" if type(value) is int and not _LEAST <= value <= _MOST else _cut(str(type_of(value)))
    if column is None:
        return f"{where} can have no type that holds {shown} ({kind})."
    return f"{where} is {column}, and the message has {shown} ({kind}) there."


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def clash(table: str, name: str, twin: str) -> str:
    """The sentence that refuses a field of which the table can have no column because it has another."""
    return f"{_where(table, name)} cannot be beside the column {twin}: their names differ in nothing but case."


def _where(table: str, name: str) -> str:
    return f"The column {name} of {table}" if table else f"The column {name}"


def _digits(number: Decimal) -> tuple[int, int]:
    """The digits before the point and behind it. Trailing zeros behind the point do not count: a column has its own."""
    if not number:
        return 1, 0
    _, digits, exponent = number.as_tuple()  # `normalize` would round to 28 digits
    assert isinstance(exponent, int)
    zeros = 0
    while digits[-1 - zeros] == 0:
        zeros += 1
    return max(1, len(digits) + exponent), max(0, -exponent - zeros)


def _printed(number: Decimal) -> bool:
    """Whether a float prints as this number."""
    return bool(Decimal(repr(float(number))) == number)
