"""Evaluates filters: a visitor makes a function of the tree, once for each filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache, reduce
from typing import Any, Final

from headwater.documents.filter.functions import FUNCTIONS
from headwater.documents.filter.meter import StepMeter, TooManySteps, metered_same
from headwater.documents.filter.parser import parse_filter
from headwater.documents.filter.pattern import pattern
from headwater.documents.filter.tree import (
    BinaryOperation,
    Comparison,
    Constant,
    Expression,
    FieldPath,
    FunctionCall,
    Junction,
    Minus,
    Negation,
    Visitor,
)
from headwater.documents.filter.values import (
    KIND_NAMES,
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    EvaluationError,
    at_path,
    calculate,
    kind,
    order,
    truth,
    whole,
)

Evaluator = Callable[[Mapping[str, Any], StepMeter], Any]


class Verdict(IntEnum):
    """What a filter says of an item. FAILED: it has no value for it. TOO_COSTLY: it takes too many steps. Queries reject and count both."""

    REJECTED = 0
    ACCEPTED = 1
    FAILED = 2
    TOO_COSTLY = 3


class Filter:
    """A filter, ready to judge items. Immutable; safe to use from several threads."""

    __slots__ = ("_evaluate", "text", "tree")

    def __init__(self, text: str, tree: Expression) -> None:
        self.text = text
        self.tree = tree
        self._evaluate = _Compiler().visit(tree)

    def verdict(self, body: Mapping[str, Any]) -> Verdict:
        """Whether an item is accepted. Never raises for a body of JSON; takes at most `meter.MOST_STEPS` steps."""
        try:
            return Verdict.ACCEPTED if truth(self._evaluate(body, StepMeter())) else Verdict.REJECTED
        except (TooManySteps, RecursionError):
            return Verdict.TOO_COSTLY
        except EvaluationError:
            return Verdict.FAILED

    def accepts(self, body: Mapping[str, Any]) -> bool:
        """Whether an item is accepted."""
        return self.verdict(body) is Verdict.ACCEPTED

    def value(self, body: Mapping[str, Any]) -> Any:
        """What the expression gives for an item. Errors: `EvaluationError`."""
        return self._evaluate(body, StepMeter())


@lru_cache(maxsize=1024)  # the same query comes again and again; a filter holds at most a few kilobytes
def compile_filter(text: str) -> Filter:
    """The filter of a text. Errors: `BadFilter`."""
    return Filter(text, parse_filter(text))


class _Compiler(Visitor[Evaluator]):
    """Makes a function of a node by those of its parts. Steps are counted for what grows with an item's values; the nodes are few."""

    def constant(self, node: Constant) -> Evaluator:
        value = node.value
        return lambda body, meter: value

    def field_path(self, node: FieldPath) -> Evaluator:
        names = node.names
        if len(names) == 1:
            [name] = names
            return lambda body, meter: body.get(name)
        return lambda body, meter: at_path(body, names)

    def negation(self, node: Negation) -> Evaluator:
        operand = self.visit(node.operand)

        def negate(body: Mapping[str, Any], meter: StepMeter) -> bool | None:
            value = operand(body, meter)
            return None if value is None else not truth(value)

        return negate

    def minus(self, node: Minus) -> Evaluator:
        operand = self.visit(node.operand)
        return lambda body, meter: calculate("-", 0, operand(body, meter))

    def operation(self, node: BinaryOperation) -> Evaluator:
        left, right, operator = self.visit(node.left), self.visit(node.right), node.operator

        def operate(body: Mapping[str, Any], meter: StepMeter) -> Any:
            left_value, right_value = left(body, meter), right(body, meter)
            meter.take(1)
            if operator == "++":
                return _joined(left_value, right_value, meter)
            if operator == "--":
                return _without(left_value, right_value, meter)
            if operator == "+" and kind(left_value) == kind(right_value) == TEXT:
                meter.read(len(left_value) + len(right_value))
                return left_value + right_value
            return calculate(operator, left_value, right_value)

        return operate

    def comparison(self, node: Comparison) -> Evaluator:
        left, right = self.visit(node.left), self.visit(node.right)
        compare = _COMPARISONS[node.operator]

        def evaluate(body: Mapping[str, Any], meter: StepMeter) -> bool:
            return compare(left(body, meter), right(body, meter), meter)

        return evaluate

    def connection(self, node: Junction) -> Evaluator:
        operands = tuple(self.visit(operand) for operand in node.operands)
        match node.connective:
            case "and":
                return lambda body, meter: _conjunction(operands, body, meter)
            case "or":
                return lambda body, meter: _disjunction(operands, body, meter)
            case "xor":
                return lambda body, meter: reduce(_exclusive, (operand(body, meter) for operand in operands))

    def call(self, node: FunctionCall) -> Evaluator:
        perform = FUNCTIONS[node.name].perform
        arguments = tuple(self.visit(argument) for argument in node.arguments)
        if node.name == "isExists":
            return lambda body, meter: _exists(arguments, body, meter)

        def evaluate(body: Mapping[str, Any], meter: StepMeter) -> Any:
            meter.take(1 + len(arguments))
            return perform([argument(body, meter) for argument in arguments], meter)

        return evaluate


# -- connectives: logical, and bitwise where both sides are numbers -----------------------------------------------


def _conjunction(operands: tuple[Evaluator, ...], body: Mapping[str, Any], meter: StepMeter) -> Any:
    value = operands[0](body, meter)
    for operand in operands[1:]:
        if not truth(value):
            return False
        operand_value = operand(body, meter)
        value = whole(value) & whole(operand_value) if kind(value) == kind(operand_value) == NUMBER else truth(operand_value)
    return value if kind(value) == NUMBER else truth(value)


def _disjunction(operands: tuple[Evaluator, ...], body: Mapping[str, Any], meter: StepMeter) -> Any:
    value = operands[0](body, meter)
    for operand in operands[1:]:
        if kind(value) != NUMBER and truth(value):
            return True
        operand_value = operand(body, meter)
        value = (
            whole(value) | whole(operand_value) if kind(value) == kind(operand_value) == NUMBER else truth(value) or truth(operand_value)
        )
    return value if kind(value) == NUMBER else truth(value)


def _exclusive(left: Any, right: Any) -> Any:
    return whole(left) ^ whole(right) if kind(left) == kind(right) == NUMBER else truth(left) != truth(right)


def _exists(arguments: tuple[Evaluator, ...], body: Mapping[str, Any], meter: StepMeter) -> bool:
    try:
        return all(argument(body, meter) is not None for argument in arguments)
    except TooManySteps:
        raise
    except EvaluationError:
        return False


# -- comparisons ------------------------------------------------------------------------------------------------


def _equal(left: Any, right: Any, meter: StepMeter) -> bool:
    return metered_same(left, right, meter)


def _unequal(left: Any, right: Any, meter: StepMeter) -> bool:
    return not _equal(left, right, meter)


def _below(left: Any, right: Any, meter: StepMeter) -> bool:
    result = order(left, right)
    return result is not None and result < 0


def _at_most(left: Any, right: Any, meter: StepMeter) -> bool:
    result = order(left, right)
    return result is not None and result <= 0


def _above(left: Any, right: Any, meter: StepMeter) -> bool:
    result = order(left, right)
    return result is not None and result > 0


def _at_least(left: Any, right: Any, meter: StepMeter) -> bool:
    result = order(left, right)
    return result is not None and result >= 0


def _has(left: Any, right: Any, meter: StepMeter) -> bool:
    if kind(right) == LIST:
        return all(_contains(left, element, meter) for element in right)
    return _contains(left, right, meter)


def _has_not(left: Any, right: Any, meter: StepMeter) -> bool:
    return not _has(left, right, meter)


def _contains(left: Any, element: Any, meter: StepMeter) -> bool:
    match kind(left):
        case 4:  # a list
            return any(metered_same(value, element, meter) for value in left)
        case 2 if kind(element) == TEXT:
            meter.read(len(left) + len(element))
            return element in left
        case 5 if kind(element) == TEXT:
            meter.take(1)
            return element in left
    meter.take(1)
    return False


def _like(left: Any, right: Any, meter: StepMeter) -> bool:
    if kind(right) != TEXT:
        raise EvaluationError(f"{KIND_NAMES[kind(right)]} is no pattern")
    return kind(left) == TEXT and pattern(right).found(left, meter)


def _not_like(left: Any, right: Any, meter: StepMeter) -> bool:
    return not _like(left, right, meter)


_COMPARISONS: Final[dict[str, Callable[[Any, Any, StepMeter], bool]]] = {
    "=": _equal,
    "!=": _unequal,
    "<": _below,
    "<=": _at_most,
    ">": _above,
    ">=": _at_least,
    "has": _has,
    "has not": _has_not,
    "like": _like,
    "not like": _not_like,
}


# -- lists ------------------------------------------------------------------------------------------------------


def _joined(left: Any, right: Any, meter: StepMeter) -> Any:
    """Lists one after the other; a value that is no list is added as an element."""
    if kind(left) != LIST:
        raise EvaluationError(f"{KIND_NAMES[kind(left)]} is no list")
    added = right if kind(right) == LIST else (right,)
    meter.take(1 + len(left) + len(added))
    return [*left, *added]


def _without(left: Any, right: Any, meter: StepMeter) -> Any:
    """The elements of a list that are not in another, or are not one value; an object without names."""
    removed = right if kind(right) == LIST else (right,)
    if kind(left) == OBJECT:
        meter.take(1 + len(left))
        names = {name for name in removed if kind(name) == TEXT}
        return {name: value for name, value in left.items() if name not in names}
    if kind(left) != LIST:
        raise EvaluationError(f"{KIND_NAMES[kind(left)]} is no list")
    return [value for value in left if not _contains(removed, value, meter)]
