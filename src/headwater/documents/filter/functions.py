"""The functions of filters. Each takes values and the meter of the row, and returns a value. Errors: `EvaluationError`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from headwater.documents.filter.meter import StepMeter
from headwater.documents.filter.pattern import pattern
from headwater.documents.filter.values import KIND_NAMES, LIST, NULL, OBJECT, TEXT, EvaluationError, kind, whole

_MANY = 255


class FilterFunction(NamedTuple):
    """A function, how many arguments it takes, and how it is written."""

    form: str
    least: int
    most: int
    perform: Callable[[Sequence[Any], StepMeter], Any]


def _case(values: Sequence[Any], meter: StepMeter) -> Any:
    index = whole(values[0])
    if not 1 <= index < len(values):
        raise EvaluationError(f"case has no value {index}")
    return values[index]


def _is_empty(values: Sequence[Any], meter: StepMeter) -> bool:
    return all(kind(value) == NULL or (kind(value) in (TEXT, LIST, OBJECT) and not value) for value in values)


def _is_exists(values: Sequence[Any], meter: StepMeter) -> bool:
    return all(value is not None for value in values)


def _length(values: Sequence[Any], meter: StepMeter) -> int:
    total = 0
    for value in values:
        if kind(value) not in (NULL, TEXT, LIST, OBJECT):
            raise EvaluationError(f"{KIND_NAMES[kind(value)]} has no length")
        total += 0 if value is None else len(value)
    return total


def _upper(values: Sequence[Any], meter: StepMeter) -> str:
    return _text(values[0], meter).upper()


def _lower(values: Sequence[Any], meter: StepMeter) -> str:
    return _text(values[0], meter).lower()


def _split(values: Sequence[Any], meter: StepMeter) -> list[str]:
    return pattern(_text(values[1], meter)).split(_text(values[0], meter), meter)


def _index_of(values: Sequence[Any], meter: StepMeter) -> int:
    return _text(values[0], meter).find(_text(values[1], meter))


def _substr(values: Sequence[Any], meter: StepMeter) -> str:
    text = _text(values[0], meter)
    begin = whole(values[1])
    end = len(text) if len(values) == 2 else whole(values[2])
    if not 0 <= begin <= end <= len(text):
        raise EvaluationError(f"a text of {len(text)} characters has none from {begin} to {end}")
    return text[begin:end]


def _compare_ignore_case(values: Sequence[Any], meter: StepMeter) -> int:
    left, right = _text(values[0], meter).casefold(), _text(values[1], meter).casefold()
    return (left > right) - (left < right)


def _apply(values: Sequence[Any], meter: StepMeter) -> Any:
    container, index = values[0], whole(values[1])
    if kind(container) not in (LIST, TEXT) or not 0 <= index < len(container):
        raise EvaluationError(f"{KIND_NAMES[kind(container)]} has no element {index}")
    return container[index]


def _text(value: Any, meter: StepMeter) -> str:
    if kind(value) != TEXT:
        raise EvaluationError(f"{KIND_NAMES[kind(value)]} is no text")
    meter.read(len(value))
    text: str = value
    return text


FUNCTIONS: Final[Mapping[str, FilterFunction]] = MappingProxyType(
    {
        "case": FilterFunction("case(index, first, second, …)", 2, _MANY, _case),
        "isEmpty": FilterFunction("isEmpty(value, …)", 1, _MANY, _is_empty),
        "isExists": FilterFunction("isExists(value, …)", 1, _MANY, _is_exists),
        "length": FilterFunction("length(value, …)", 1, _MANY, _length),
        "upper": FilterFunction("upper(text)", 1, 1, _upper),
        "lower": FilterFunction("lower(text)", 1, 1, _lower),
        "split": FilterFunction("split(text, pattern)", 2, 2, _split),
        "indexOf": FilterFunction("indexOf(text, part)", 2, 2, _index_of),
        "substr": FilterFunction("substr(text, from, to)", 2, 3, _substr),
        "compareIgnoreCase": FilterFunction("compareIgnoreCase(text, text)", 2, 2, _compare_ignore_case),
        "apply": FilterFunction("apply(list or text, index)", 2, 2, _apply),
    }
)
