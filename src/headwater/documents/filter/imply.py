"""Whether one filter implies another: every item that a query accepts has a row in an index that the other filter makes.

Sound, not complete: "yes" is always right; "no" may mean that no proof was found. Neither errors nor nulls are assumed away:
a part of the index's filter that might fail for an item is proved by the same part of the query's filter or not at all.

A query's filter becomes facts, an index's filter becomes a goal. Facts are split into cases by their `or`s; the goal must follow in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from headwater.documents.filter.ranges import ALL, ALL_LISTS, ALL_TEXTS, CONTAINERS, NONE, KeyRanges, compared, point, united
from headwater.documents.filter.tree import Comparison, Constant, Expression, FieldPath, FunctionCall, Junction, Negation, constant
from headwater.documents.filter.values import LIST, NUMBER, TEXT, EvaluationError, kind, truth

MOST_CASES = 64
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_POSITIVE: Final = {"has not": "has", "not like": "like", "!=": "="}


class ValueFact(NamedTuple):
    """The value of a field is one of these."""

    names: tuple[str, ...]
    values: KeyRanges


class TreeFact(NamedTuple):
    """A part of a filter is true (or, not null and false) without an error."""

    tree: Expression
    holds: bool


class AllOf(NamedTuple):
    parts: tuple[Formula, ...]


class AnyOf(NamedTuple):
    parts: tuple[Formula, ...]


Formula: TypeAlias = ValueFact | TreeFact | AllOf | AnyOf
TRUE: Final = AllOf(())
FALSE: Final = AnyOf(())


class Case(NamedTuple):
    """What is known in one case: the values that fields may have, and the parts that hold."""

    values: Mapping[tuple[str, ...], KeyRanges]
    facts: frozenset[TreeFact]


def implies(query: Expression | None, index: Expression | None) -> bool:
    """Whether every item that `query` accepts is accepted by `index`, or takes it too many steps. None accepts everything."""
    if index is None or query == index:
        return True
    goal = _Reading(goal=True).true(index)
    return all(_proved(goal, case) for case in cases(query))


def cases(query: Expression | None) -> list[Case]:
    """The cases of a filter: in each item that it accepts, one of them holds."""
    facts = _Reading(goal=False).true(query) if query is not None else TRUE
    return [case for alternative in _alternatives(facts) if _possible(case := _case(alternative))]


def known_values(query: Expression | None) -> dict[tuple[str, ...], KeyRanges]:
    """The values that fields have in every item that a filter accepts. A field that is not named may have any."""
    all_cases = cases(query)
    if not all_cases:
        return {("id",): NONE}
    names = set(all_cases[0].values).intersection(*(case.values for case in all_cases[1:]))
    return {name: united(case.values[name] for case in all_cases) for name in names}


# -- proofs -----------------------------------------------------------------------------------------------------


def _proved(goal: Formula, case: Case) -> bool:
    match goal:
        case ValueFact(names, values):
            return case.values.get(names, ALL).within(values)
        case TreeFact():
            return goal in case.facts
        case AllOf(parts):
            return all(_proved(part, case) for part in parts)
        case AnyOf(parts):
            return any(_proved(part, case) for part in parts) or _united(parts, case)


def _united(parts: tuple[Formula, ...], case: Case) -> bool:
    """Whether alternatives about the values of one field hold together: `a < 5 or a > 3`."""
    return any(isinstance(part, ValueFact) and _proved(part, case) for part in _joined(parts))


def _joined(parts: tuple[Formula, ...]) -> list[Formula]:
    """Alternatives, those about the values of one field as one: `a = 1 or a = 2 or …` is no long list of cases."""
    values: dict[tuple[str, ...], list[KeyRanges]] = {}
    for part in parts:
        if isinstance(part, ValueFact):
            values.setdefault(part.names, []).append(part.values)
    return [
        *(ValueFact(names, united(sets)) for names, sets in values.items()),
        *(part for part in parts if not isinstance(part, ValueFact)),
    ]


def _alternatives(facts: Formula) -> Iterator[tuple[ValueFact | TreeFact, ...]]:
    """The facts of each case. Where they would be too many, what divides them is left unknown."""
    match facts:
        case AnyOf(parts):
            all_cases = [each for part in _joined(parts) for each in _alternatives(part)]
            yield from all_cases if len(all_cases) <= MOST_CASES else [()]
        case AllOf(parts):
            divided: list[list[tuple[ValueFact | TreeFact, ...]]] = []
            total = 1
            for part in parts:
                choices = list(_alternatives(part))
                if total * len(choices) <= MOST_CASES:
                    divided.append(choices)
                    total *= len(choices)
            for chosen in product(*divided):
                yield tuple(fact for choice in chosen for fact in choice)
        case _:
            yield (facts,)


def _case(facts: tuple[ValueFact | TreeFact, ...]) -> Case:
    values: dict[tuple[str, ...], KeyRanges] = {("id",): ALL_TEXTS}
    for fact in facts:
        if isinstance(fact, ValueFact):
            values[fact.names] = values.get(fact.names, ALL).intersection(fact.values)
    return Case(values, frozenset(fact for fact in facts if isinstance(fact, TreeFact)))


def _possible(case: Case) -> bool:
    return NONE not in case.values.values() and not any(TreeFact(fact.tree, not fact.holds) in case.facts for fact in case.facts)


# -- formulas of trees --------------------------------------------------------------------------------------------


class _Reading:
    """Reads a filter as facts (what follows from it) or as a goal (what it follows from)."""

    def __init__(self, *, goal: bool) -> None:
        self._goal = goal

    def true(self, tree: Expression) -> Formula:
        """The tree is true, without an error."""
        match tree:
            case Constant():
                return self._constant(tree, holds=True)
            case Comparison() if _total(tree):
                return self._comparison(tree, holds=True)
            case Junction("and", operands) if _logical(operands):
                return AllOf(tuple(self.true(operand) for operand in operands))
            case Junction("or", operands) if _logical(operands) and not (self._goal and _maybe_number(operands[0])):
                return self._some(operands, holds=True)  # a number decides nothing before its bits meet those of the next operand
            case Negation(operand) if _boolean(operand):
                return self.false(operand)
        return TreeFact(tree, holds=True)

    def false(self, tree: Expression) -> Formula:
        """The tree is false, or null, without an error."""
        match tree:
            case Constant():
                return self._constant(tree, holds=False)
            case Comparison() if _total(tree):
                return self._comparison(tree, holds=False)
            case Junction("or", operands) if _logical(operands):
                return AllOf(tuple(self.false(operand) for operand in operands))
            case Junction("and", operands) if _logical(operands):
                return self._some(operands, holds=False)
            case Negation(operand) if _boolean(operand):
                return self.true(operand)
        return TreeFact(tree, holds=False)

    def _some(self, operands: tuple[Expression, ...], *, holds: bool) -> Formula:
        """One of the operands decides. For a goal, none before it may fail."""
        parts: list[Formula] = []
        for operand in operands:
            parts.append(self.true(operand) if holds else self.false(operand))
            if self._goal and not _never_fails(operand):
                break
        return AnyOf(tuple(parts))

    def _constant(self, node: Constant, *, holds: bool) -> Formula:
        try:
            return TRUE if truth(node.value) == holds else FALSE
        except EvaluationError:
            return FALSE

    def _comparison(self, node: Comparison, *, holds: bool) -> Formula:
        positive = _POSITIVE.get(node.operator)
        if positive is not None:
            return self._comparison(Comparison(positive, node.left, node.right), holds=not holds)  # type: ignore[arg-type]
        match node:
            case Comparison(("=" | "<" | "<=" | ">" | ">=") as operator, FieldPath(names), Constant() as value):
                values = compared(operator, value)
                return ValueFact(names, values if holds else values.complement())
            case Comparison(("=" | "<" | "<=" | ">" | ">=") as operator, Constant(), FieldPath()):
                return self._comparison(Comparison(_FLIPPED[operator], node.right, node.left), holds=holds)  # type: ignore[arg-type]
            case Comparison("has", FieldPath(names), Constant(_, value)) if kind(value) == LIST:
                parts = [self._comparison(Comparison("has", node.left, constant(element)), holds=holds) for element in value]
                return AllOf(tuple(parts)) if holds else AnyOf(tuple(parts))
            case Comparison("has", FieldPath(names), Constant(_, value)):
                return self._with(node, names, CONTAINERS if kind(value) == TEXT else ALL_LISTS, holds=holds)
            case Comparison("has", Constant(_, value), FieldPath(names)) if kind(value) == LIST:
                return self._among(node, names, value, holds=holds)
            case Comparison("like", FieldPath(names)):
                return self._with(node, names, ALL_TEXTS, holds=holds)
        return TreeFact(node, holds)

    def _with(self, node: Comparison, names: tuple[str, ...], values: KeyRanges, *, holds: bool) -> Formula:
        """A comparison that is true for some of these values only."""
        fact = TreeFact(node, holds)
        if self._goal:
            return fact if holds else AnyOf((fact, ValueFact(names, values.complement())))
        return AllOf((fact, ValueFact(names, values))) if holds else fact

    def _among(self, node: Comparison, names: tuple[str, ...], listed: tuple[object, ...], *, holds: bool) -> Formula:
        """`["x", "y"] has a`: a is one of them, or a list of some of them."""
        values = united(point(constant(element).key) for element in listed)
        alone, fact = values.intersection(ALL_LISTS.complement()), TreeFact(node, holds)
        if self._goal:
            return AnyOf((fact, ValueFact(names, alone if holds else values.union(ALL_LISTS).complement())))
        return AllOf((fact, ValueFact(names, alone.union(ALL_LISTS) if holds else alone.complement())))


def _total(node: Comparison) -> bool:
    """Whether a comparison has a value for every item."""
    fields_and_constants = isinstance(node.left, FieldPath | Constant) and isinstance(node.right, FieldPath | Constant)
    return fields_and_constants and (node.operator not in ("like", "not like") or isinstance(node.right, Constant))


def _boolean(tree: Expression) -> bool:
    """Whether a tree is true or false, never null or a number."""
    match tree:
        case Comparison():
            return True
        case Constant(_, value):
            return type(value) is bool
        case Negation(operand):
            return _boolean(operand)
        case Junction(_, operands):
            return not _maybe_number(operands[0]) or not _maybe_number(operands[1])
        case FunctionCall(name):
            return name in ("isEmpty", "isExists")
    return False


def _maybe_number(tree: Expression) -> bool:
    match tree:
        case Constant(_, value):
            return kind(value) == NUMBER
        case Negation():
            return False
    return not _boolean(tree)


def _logical(operands: tuple[Expression, ...]) -> bool:
    """Whether `and` and `or` connect truths: bits are connected where both sides are numbers."""
    return not (_maybe_number(operands[0]) and _maybe_number(operands[1]))


def _never_fails(tree: Expression) -> bool:
    match tree:
        case Comparison():
            return _total(tree)
        case Junction("and" | "or", operands):
            return _logical(operands) and all(_never_fails(operand) for operand in operands)
        case Negation(operand):
            return _boolean(operand) and _never_fails(operand)
        case Constant(_, value):
            return type(value) is bool
    return False
