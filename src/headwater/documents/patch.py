"""Patches of documents and items: merge patches (RFC 7386), increments, and the merge patch that equals another change.

JSON Patch is in `headwater.documents.json_patch`. None of the functions changes the values that it is given.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Rounded, Underflow
from typing import Any

from headwater.core.document_errors import UnfitBody
from headwater.documents.body import kind_of

_MOST_DIGITS = 1000
_EXACT = Context(prec=_MOST_DIGITS, traps=[Inexact, InvalidOperation, Overflow, Rounded, Underflow])


class NoMergePatch(Exception):
    """No merge patch has the effect of the change."""


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes a field, an object is merged, and every other value replaces what is there."""
    if type(patch) is not dict:
        return patch
    merged = dict(target) if type(target) is dict else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif type(value) is dict:
            merged[name] = merge_patch(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def increment(target: Any, amounts: Any, place: str = "") -> Any:
    """The value with numbers added to its own, exactly. A missing number counts as 0.

    Errors: `UnfitBody`, which names the field, for what is no number, and for a sum of more than 1000 digits.
    """
    if type(amounts) is dict:
        if target is not None and type(target) is not dict:
            raise UnfitBody(f"{_field(place)} is {kind_of(target)}, and the patch has an object there.", hint="Give a number to add.")
        sums = dict(target or {})
        for name, amount in amounts.items():
            sums[name] = increment(sums.get(name), amount, f"{place}.{name}" if place else name)
        return sums
    if not is_number(amounts):
        raise UnfitBody(f"The patch has {kind_of(amounts)} for {_field(place, 'the body')}.", hint="An increment has numbers alone.")
    if target is None:
        return amounts
    if not is_number(target):
        raise UnfitBody(f"{_field(place)} is {kind_of(target)}: no number can be added to it.", hint="Set it with PUT or a merge patch.")
    if isinstance(target, int) and isinstance(amounts, int):
        return target + amounts
    try:
        return _EXACT.add(as_decimal(target), as_decimal(amounts))
    except ArithmeticError as error:
        raise UnfitBody(f"The sum for {_field(place, 'the body')} has more than {_MOST_DIGITS} digits.", hint="Add less.") from error


def merge_between(old: Any, new: Any) -> Any:
    """The merge patch that turns one value into the other.

    Errors: `NoMergePatch` where the new value has a field that is null, which no merge patch can set.
    """
    if type(new) is not dict:
        return new
    patch: dict[str, Any] = {}
    before = old if type(old) is dict else {}
    for name in before:
        if name not in new:
            patch[name] = None
    for name, value in new.items():
        if value is None:
            raise NoMergePatch
        if name not in before:
            patch[name] = merge_between(None, value)
        elif not same_value(before[name], value):
            if type(before[name]) is dict and type(value) is not dict:
                patch[name] = value
            else:
                patch[name] = merge_between(before[name], value)
    return patch


def same_value(first: Any, second: Any) -> bool:
    """Whether two values of JSON are equal: numbers by value, true is not 1, the order of fields does not count."""
    if first is second:  # what a patch leaves as it is
        return True
    if is_number(first) and is_number(second):
        return as_decimal(first) == as_decimal(second)
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same_value(value, second[name]) for name, value in first.items())
    if isinstance(first, list):
        return len(first) == len(second) and all(
            left is right or same_value(left, right) for left, right in zip(first, second, strict=True)
        )
    return bool(first == second)


def is_number(value: Any) -> bool:
    """Whether it is a number of JSON."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def as_decimal(number: float | Decimal) -> Decimal:
    """The number with the digits that it is written with."""
    return number if isinstance(number, Decimal) else Decimal(repr(number) if isinstance(number, float) else number)


def _field(place: str, whole: str = "The body") -> str:
    return f"{'the' if whole[0] == 't' else 'The'} field {place!r:.60}" if place else whole
