"""The tree of a filter: frozen nodes, and the visitor that walks them. Two filters with equal trees mean the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from headwater.core import bytekeys

T = TypeVar("T")
Arithmetic = Literal["+", "-", "*", "/", "%", "++", "--"]
Relation = Literal["=", "!=", "<", "<=", ">", ">=", "has", "has not", "like", "not like"]
Connective = Literal["and", "or", "xor"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: null, boolean, number, text, or a list or object of literals. Constants are equal where their keys are: 1 and 1.0, not
    1 and true."""

    key: bytes
    value: Any = field(compare=False)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A field of an item, by the names that lead to it."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """`!x` and `not x`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Minus:
    """`-x`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class BinaryOperation:
    """`x + y`, and the other operators that make a value of two."""

    operator: Arithmetic
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Comparison:
    """`x = y`, and the other operators that make a boolean of two values. `x is null` is `x = null`."""

    operator: Relation
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Junction:
    """`x and y and z`: two or more operands, so that a long chain is no deep tree."""

    connective: Connective
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`length(x)`."""

    name: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Constant | FieldPath | Negation | Minus | BinaryOperation | Comparison | Junction | FunctionCall


def constant(value: Any) -> Constant:
    """The node of a value."""
    return Constant(bytekeys.encode((value,)), value)


class Visitor(ABC, Generic[T]):
    """Makes something of a tree: one method for each kind of node. It walks into a node's parts by `visit`, or not."""

    def visit(self, tree: Expression) -> T:
        """What this visitor makes of a node."""
        match tree:
            case Comparison():
                return self.comparison(tree)
            case Junction():
                return self.connection(tree)
            case FieldPath():
                return self.field_path(tree)
            case Constant():
                return self.constant(tree)
            case Negation():
                return self.negation(tree)
            case Minus():
                return self.minus(tree)
            case BinaryOperation():
                return self.operation(tree)
            case FunctionCall():
                return self.call(tree)

    @abstractmethod
    def constant(self, node: Constant) -> T: ...

    @abstractmethod
    def field_path(self, node: FieldPath) -> T: ...

    @abstractmethod
    def negation(self, node: Negation) -> T: ...

    @abstractmethod
    def minus(self, node: Minus) -> T: ...

    @abstractmethod
    def operation(self, node: BinaryOperation) -> T: ...

    @abstractmethod
    def comparison(self, node: Comparison) -> T: ...

    @abstractmethod
    def connection(self, node: Junction) -> T: ...

    @abstractmethod
    def call(self, node: FunctionCall) -> T: ...
