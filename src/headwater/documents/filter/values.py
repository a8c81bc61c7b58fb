"""Values of JSON as filters compare them. Nothing converts silently.

Equality: numbers by value (10 = 10.0 = 10.00), texts by their characters, lists and objects by what they hold; unlike types are never
equal. Order: numbers with numbers, texts with texts by code point; null <= null holds; every other pair is in no order, so that <, <=, >
and >= are false for it. Both agree with the byte keys of indexes.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Any, Final

NULL: Final = 0
NUMBER: Final = 1
TEXT: Final = 2
BOOLEAN: Final = 3
LIST: Final = 4
OBJECT: Final = 5
KIND_NAMES: Final = ("null", "a number", "a text", "a boolean", "a list", "an object")
_NUMBERS = dict.fromkeys((int, float, Decimal), NUMBER)
_KINDS: Final[dict[type, int]] = {type(None): NULL, str: TEXT, bool: BOOLEAN, list: LIST, tuple: LIST, dict: OBJECT, **_NUMBERS}
_EXACT = 1 << 53  # up to here floats and whole numbers compare as the decimals that they print as
_TRUE = frozenset(("true", "y", "yes", "on", "1"))
_FALSE = frozenset(("false", "n", "no", "off", "0"))
# Decimals of 100 digits; what does not fit is an error of the row, never an infinity.
_ARITHMETIC = Context(prec=100, Emax=9999, Emin=-9999, traps=[DivisionByZero, InvalidOperation, Overflow])


class EvaluationError(Exception):
    """A filter has no value for an item: the item is rejected. Never leaves the filters."""


def kind(value: Any) -> int:
    """The type of a value."""
    return _KINDS[type(value)]


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal. Deep in values that are themselves bounded by the size of a body."""
    left_kind = _KINDS[type(left)]
    if left_kind != _KINDS[type(right)]:
        return False
    if left_kind == NUMBER:
        return number_order(left, right) == 0
    if left_kind == LIST:
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if left_kind == OBJECT:
        return len(left) == len(right) and all(name in right and same(value, right[name]) for name, value in left.items())
    return bool(left == right)


def order(left: Any, right: Any) -> int | None:
    """Below zero, zero or above zero; None where the two have no order."""
    left_kind = _KINDS[type(left)]
    if left_kind != _KINDS[type(right)]:
        return None
    if left_kind == NUMBER:
        return number_order(left, right)
    if left_kind == TEXT:
        return int(left > right) - int(left < right)
    return 0 if left_kind == NULL else None


def number_order(left: Any, right: Any) -> int:
    """The order of two numbers by the decimals that they print as: 0.1 and Decimal("0.1") are one."""
    if type(left) is not type(right) and not (_small(left) and _small(right)):
        left, right = as_decimal(left), as_decimal(right)
    return int(left > right) - int(left < right)


def _small(value: Any) -> bool:
    return type(value) is float or (type(value) is int and -_EXACT < value < _EXACT)


def as_decimal(value: Any) -> Decimal:
    """A number as the decimal that it prints as. Errors: `EvaluationError` where it is no number."""
    match value:
        case Decimal():
            return value
        case float():
            return Decimal(repr(value))
        case int() if type(value) is int:
            return Decimal(value)
    raise EvaluationError(f"{KIND_NAMES[kind(value)]} is no number")


def truth(value: Any) -> bool:
    """Whether a value counts as true: numbers but 0, texts such as yes. Errors: `EvaluationError` for other texts, lists and objects."""
    if value is True or value is False:
        return value
    match _KINDS[type(value)]:
        case 0:
            return False
        case 1:
            return bool(value)
        case 2 if value.lower() in _TRUE:
            return True
        case 2 if value.lower() in _FALSE:
            return False
    raise EvaluationError(f"{KIND_NAMES[kind(value)]} is neither true nor false")


def calculate(operator: str, left: Any, right: Any) -> Decimal:
    """A calculation with decimals of 100 digits; the sign of a remainder is that of the left. Errors: `EvaluationError`."""
    left_number, right_number = as_decimal(left), as_decimal(right)
    try:
        match operator:
            case "+":
                return _ARITHMETIC.add(left_number, right_number)
            case "-":
                return _ARITHMETIC.subtract(left_number, right_number)
            case "*":
                return _ARITHMETIC.multiply(left_number, right_number)
            case "/":
                return _ARITHMETIC.divide(left_number, right_number)
            case _:
                return _ARITHMETIC.remainder(left_number, right_number)
    except ArithmeticError as error:
        raise EvaluationError(f"{left} {operator} {right} has no value") from error


def whole(value: Any) -> int:
    """A whole number for an index. Errors: `EvaluationError`."""
    number = as_decimal(value)
    if number.adjusted() > 18 or number != number.to_integral_value():
        raise EvaluationError(f"{number} is no whole number")
    return int(number)


def at_path(body: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The value of a field; null where it is missing, or where the path leads through something that is no object."""
    value: Any = body
    for name in names:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value
