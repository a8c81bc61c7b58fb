"""Documents as Arrow columns and back, for `arrow` and `sql`. What is not changed comes back exactly as it was.

A batch has the column `_offset` (int64) and one column for each top-level field that a document of the batch has, null where it is missing.
Types are found from the values of the batch, exactly:

  - truth values bool, texts string, integers int64, floats float64, `{"$date": ...}` timestamp[us, UTC], `{"$binary": ...}` binary,
    `{"$numberLong": ...}` and its kin as numbers, `{"$oid": ...}` and `{"$uuid": ...}` as string;
  - `Decimal`, integers beyond int64, and mixes of them with other numbers: decimal128, with room for more digits than the batch needs
    (`1.25` and `12` are decimal128(12, 2)), or decimal256; integers among floats become float64 where none loses a digit;
  - objects struct and lists list, where their elements have one type each;
  - anything else (a field that is text here and a number there, empty objects): string, holding the value as JSON text. Such a column's
    field has the metadata `headwater.json`; while it does, its text is read as JSON on the way back.

So a column's type can differ from batch to batch. A schema given for some columns fixes theirs: they are always there, and a value that
does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation, Overflow, Rounded
from functools import reduce
from itertools import pairwise
from typing import Any
from uuid import UUID

import pyarrow as pa
from msgspec.structs import replace

from headwater.core.errors import Rejected
from headwater.pipeline.long_integer import Long
from headwater.pipeline.message import Message
from headwater.pipeline.transforms.expression import Stay
from headwater.pipeline.values import decode_any, encode, extended, native, natives

OFFSET = "_offset"
JSON = {b"headwater.json": b"1"}
NAMESPACE = b"headwater.namespace"
SAME: Any = object()  # in place of a value: the field stays as it is, there or not
_NONE = type(None)
UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)
_FAMILIES = (
    pa.types.is_timestamp,
    lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind),
)
_WHOLE, _PLACES = (10, 20, 28), (0, 2, 4, 6, 10, 18, 28)  # digits before and behind the point that decimals have room for
_DIGITS, _MOST_DIGITS = 38, 76  # of decimal128 and decimal256
_EXACT_SUM = Context(prec=1000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Rounded, InvalidOperation, Overflow])
EXACT = 1 << 53  # integers up to here are floats without losing a digit


def batch_of(
    messages: Sequence[Message],
    *,
    schema: pa.Schema | None = None,
    digits: int = 76,
    wanted: Callable[[str], bool] | None = None,
    named: Callable[[str], bool] | None = None,
) -> pa.RecordBatch:
    """The documents of messages of one namespace as columns, all or the `wanted` ones. `digits`: of the longest decimal that is taken.

    Of columns that are only to be `named`, and not wanted, no value is told.

    Errors: `Rejected` for a document that has a field `_offset` of its own, or a value that does not fit `schema`.
    """
    names: dict[str, None] = dict.fromkeys(schema.names) if schema is not None else {}
    for message in messages:
        if not message.data.keys() <= names.keys():
            names.update(dict.fromkeys(message.data))
        if OFFSET in message.data:
            raise Rejected(
                f"The document has a field {OFFSET}, which is the name of a column.", offset=message.offset, hint="Rename it before."
            )
    fields, arrays = [pa.field(OFFSET, pa.int64(), nullable=False)], [pa.array([row.offset for row in messages], pa.int64())]
    for name in names:
        fixed = schema is not None and name in schema.names
        if wanted is not None and not fixed and not wanted(name):
            if named is not None and named(name):
                fields.append(pa.field(name, pa.null()))
                arrays.append(pa.nulls(len(messages)))
            continue
        values = [row.data.get(name) for row in messages]
        if schema is not None and fixed:
            fields.append(schema.field(name))
            arrays.append(_fitted(values, schema.field(name), messages))
            continue
        array = array_of(values, digits)
        fields.append(pa.field(name, pa.string(), metadata=JSON) if array is None else pa.field(name, array.type))
        arrays.append(texts_of(values) if array is None else array)
    about = {NAMESPACE: messages[0].namespace.encode()} if messages else {}
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=about))


def messages_of(
    messages: Sequence[Message], batch: pa.RecordBatch, made: pa.RecordBatch | pa.Table, *, stay: Stay = "none", anew: bool = True
) -> list[Message | None]:
    """The messages with what a function made of their columns; None for rows that it left out.

    Fields that it made no column of are gone, but for those that `stay`. `anew`: the given messages stay what they are; else they are
    changed themselves, once nothing can fail any more, which is quicker.

    Errors: `ValueError` for rows that were not given, are there twice, or changed places.
    """
    if not isinstance(made, pa.RecordBatch | pa.Table):
        raise ValueError(f"It returned {type(made).__name__}, not a RecordBatch or Table.")
    rows = _rows(batch, made)
    last = {field.name: i for i, field in enumerate(made.schema)}  # of columns with one name the last counts
    names = frozenset(batch.schema.names)
    at = None if isinstance(rows, range) else pa.array(rows, pa.int64())
    new: dict[str, list[Any] | None] = {}
    for name, i in last.items():
        if name == OFFSET:
            continue
        before = batch.column(name) if name in names else None
        new[name] = changes(made.schema.field(i), _whole(made.column(i)), before if before is None or at is None else before.take(at))
    remaining = [messages[row] for row in rows]
    if anew:
        remaining = [replace(message, data=message.data.copy()) for message in remaining]
    documents = [message.data for message in remaining]
    staying = Staying(lambda name: name in last or stay == "all" or (stay == "others" and name not in names))
    for data in documents:
        staying(data)
    for name, column in new.items():
        for data, value in zip(documents, column or (), strict=column is not None):
            if value is not SAME:
                data[name] = value
    if at is None:
        return list(remaining)
    result: list[Message | None] = [None] * len(messages)
    for row, changed in zip(rows, remaining, strict=True):
        result[row] = changed
    return result


class Staying:
    """Takes the fields out of documents that do not stay. Asks once for each name; what the question raises, it raises."""

    def __init__(self, stays: Callable[[str], bool]) -> None:
        self._stays = stays
        self._seen: set[str] = set()
        self._gone: set[str] = set()

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        if not self._seen.issuperset(data):
            new = data.keys() - self._seen
            self._gone |= {name for name in new if not self._stays(name)}
            self._seen |= new
        if self._gone:
            for name in self._gone if len(self._gone) <= len(data) else self._gone & data.keys():
                data.pop(name, None)
        return data


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _rows(batch: pa.RecordBatch, made: pa.RecordBatch | pa.Table) -> Sequence[int]:
    """The given row of each made one: a range, where all are there."""
    if made.schema.names.count(OFFSET) != 1:
        raise ValueError(f"What it returned has no column {OFFSET}, by which rows are known.")
    if _whole(made.column(OFFSET)).equals(batch.column(OFFSET)):
        return range(len(batch))
    where = {offset: row for row, offset in enumerate(batch.column(OFFSET).to_pylist())}
    try:
        rows = [where[offset] for offset in made.column(OFFSET).to_pylist()]
    except KeyError as error:
        raise ValueError(f"It returned a row with {OFFSET} {error}, which it was not given.") from None
    if any(b <= a for a, b in pairwise(rows)):
        raise ValueError("It returned a row twice, or rows in another order than they were given in.")
    return rows


def changes(field: pa.Field, column: pa.Array, before: pa.Array | None) -> list[Any] | None:
    """What the documents get in one field, `SAME` where a function did not change it; None where it changed nothing."""
    if before is not None:
        column = _alike(column, before.type)
        if column.equals(before):
            return None
    json = JSON.keys() <= (field.metadata or {}).keys()
    same_type = before is not None and column.type.equals(before.type)
    new: list[Any] = column.to_pylist()
    if before is not None:
        new = [  # NaN, at any depth, equals nothing: so the texts are compared as well
            SAME if (value is None if old is None else same_type and (value == old or repr(value) == repr(old))) else value
            for value, old in zip(new, before.to_pylist(), strict=True)
        ]
    if not json and _plain(column):
        return new
    return [value if value is SAME else decode_any(value) if json and isinstance(value, str) else extended(value) for value in new]


def _plain(column: pa.Array) -> bool:
    """Whether all values are such that `extended` gives them back."""
    kind, types = column.type, pa.types
    plain = (types.is_integer, types.is_floating, types.is_string, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in plain)


def _alike(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column in the type that it was given in, where the two are ways to say the same: another zone of a time, a longer string."""
    if column.type.equals(kind) or not any(test(column.type) and test(kind) for test in _FAMILIES):
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return column


def array_of(values: Sequence[Any], digits: int) -> pa.Array | None:
    """A column of one type, found from the values; None where they have none in common."""
    kinds = set(map(type, values)) - {_NONE}
    if dict in kinds or Long in kinds:
        values = [native(value) if type(value) in (dict, Long) else value for value in values]
        kinds = set(map(type, values)) - {_NONE}
    if not kinds:
        return pa.nulls(len(values))
    if kinds <= {int, float, Decimal}:
        return numbers_of(values, kinds, digits)
    if len(kinds) > 1:
        return None
    [kind] = kinds
    if kind is dict:
        return _struct(values, digits)
    if kind is list:
        return _list(values, digits)
    if kind is UUID:
        return pa.array([value and str(value) for value in values], pa.string())
    arrow_type = {bool: pa.bool_(), str: pa.string(), bytes: pa.binary(), datetime: pa.timestamp("us", "UTC")}.get(kind)
    return None if arrow_type is None else pa.array(values, arrow_type)


def numbers_of(values: Sequence[Any], kinds: set[type], digits: int) -> pa.Array | None:
    """A column of numbers of these Python types; of decimals where those are among them. None where it would need more digits."""
    if kinds == {float}:
        return pa.array(values, pa.float64())
    if kinds == {int}:
        try:
            return pa.array(values, pa.int64())
        except (pa.ArrowInvalid, OverflowError):
            pass
    if kinds == {int, float} and all(type(value) is not int or -EXACT <= value <= EXACT for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    exact = values
    if not {Decimal, _NONE}.issuperset(map(type, values)):
        exact = [Decimal(repr(value)) if type(value) is float else None if value is None else Decimal(value) for value in values]
    if float in kinds and not all(number is None or number.is_finite() for number in exact):
        return None
    if (decimal_type := _decimal_type(exact)) is not None:
        return pa.array(exact, _roomy(decimal_type, digits)) if decimal_type.precision <= digits else None
    try:
        array = pa.array(exact)
    except (pa.ArrowInvalid, OverflowError):  # more digits than Arrow's longest decimal has
        return None
    return array.cast(_roomy(array.type, digits)) if array.type.precision <= digits else None


def _decimal_type(numbers: Sequence[Decimal | None]) -> pa.DataType | None:
    """The type that Arrow finds for decimals, in a tenth of its time; None where it is to be asked.

    A sum has as many places as the number with the most, unless it is rounded.
    """
    some = [number for number in numbers if number is not None]
    try:
        places = reduce(_EXACT_SUM.add, some).as_tuple().exponent
    except ArithmeticError:
        return None
    if not isinstance(places, int):  # NaN, or infinite
        return None
    scale, whole = max(0, -places), max(0, max(map(Decimal.adjusted, some)) + 1)
    if scale + whole <= _DIGITS:
        return pa.decimal128(scale + whole, scale)
    return pa.decimal256(scale + whole, scale) if scale + whole <= _MOST_DIGITS else None


def _roomy(kind: pa.DataType, digits: int) -> pa.DataType:
    """The type with room for more: so that the types of a field's batches, and with them the places of Spark's quotients, seldom differ."""
    whole = next((room for room in _WHOLE if room >= kind.precision - kind.scale), digits)
    scale = next((room for room in _PLACES if room >= kind.scale), digits)
    return pa.decimal128(whole + scale, scale) if whole + scale <= min(digits, _DIGITS) else kind


def _struct(values: Sequence[Any], digits: int) -> pa.Array | None:
    names: dict[str, None] = {}
    for struct in values:
        names.update(dict.fromkeys(struct or ()))
    children = [array_of([(value or {}).get(name) for value in values], digits) for name in names]
    if not children or any(child is None for child in children):
        return None
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(children, names=list(names), mask=missing)


def _list(values: Sequence[Any], digits: int) -> pa.Array | None:
    inner = array_of([item for each in values for item in each or ()], digits)
    if inner is None:
        return None
    ends, end = [0], 0
    for each in values:
        end += len(each or ())
        ends.append(end)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner, mask=pa.array([each is None for each in values], pa.bool_()))


def texts_of(values: Sequence[Any]) -> pa.Array:
    """A column of JSON text."""
    return pa.array([None if value is None else encode(value).decode() for value in values], pa.string())


def _fitted(values: list[Any], field: pa.Field, messages: Sequence[Message]) -> pa.Array:
    try:
        return _cast(values, field.type)
    except UNFIT:
        for value, message in zip(values, messages, strict=True):
            try:
                _cast([value], field.type)
            except UNFIT as error:
                raise Rejected(
                    f"The field {field.name} is no {field.type}: {error}",
                    offset=message.offset,
                    hint="Correct it with `headwater pipeline edit`, or the schema of the transform.",
                ) from error
        raise


def _cast(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values in a type that was asked for, without losing any of one; text is read."""
    if pa.types.is_nested(kind):
        return pa.array([natives(value) for value in values], kind)
    array = array_of(values, 76)
    if array is not None and array.type.equals(kind):
        return array
    if array is None or pa.types.is_nested(array.type):
        if pa.types.is_string(kind):
            return pa.array([value if isinstance(value, str) or value is None else encode(value).decode() for value in values], kind)
        if len(values) == 1:
            raise ValueError(f"it is {encode(values[0]).decode()}")
        return pa.concat_arrays([_cast([value], kind) for value in values])  # of several types, each of which may fit
    if pa.types.is_boolean(array.type) and not pa.types.is_string(kind):
        raise ValueError("it is a truth value")  # Arrow would make it 1
    if pa.types.is_decimal(kind) and (pa.types.is_floating(array.type) or pa.types.is_integer(array.type)):
        # Arrow makes a decimal of a float's binary digits, and of an integer only where every integer would fit.
        return pa.array([None if value is None else Decimal(repr(value)) for value in array.to_pylist()], kind)
    return array.cast(kind)
