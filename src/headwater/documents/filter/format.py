"""Writes a tree as the text of a filter, which reads as the same tree."""

from __future__ import annotations

import re
from typing import Any

from headwater.documents.filter.tokens import WORDS
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
from headwater.wire import json

_SIMPLE = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")


def format_filter(tree: Expression) -> str:
    """The text of a tree."""
    return _Formatter().visit(tree)


def format_field(names: tuple[str, ...]) -> str:
    """The text of a field's path; odd names in back-ticks."""
    return ".".join(name if _SIMPLE.match(name) and name not in WORDS else f"`{name.replace('`', '``')}`" for name in names)


class _Formatter(Visitor[str]):
    """Puts every operand that is no value into brackets."""

    def constant(self, node: Constant) -> str:
        return _literal(node.value)

    def field_path(self, node: FieldPath) -> str:
        return format_field(node.names)

    def negation(self, node: Negation) -> str:
        return f"!{self._operand(node.operand)}"

    def minus(self, node: Minus) -> str:
        return f"-{self._operand(node.operand)}"

    def operation(self, node: BinaryOperation) -> str:
        return f"{self._operand(node.left)} {node.operator} {self._operand(node.right)}"

    def comparison(self, node: Comparison) -> str:
        return f"{self._operand(node.left)} {node.operator} {self._operand(node.right)}"

    def connection(self, node: Junction) -> str:
        parts = [self.visit(each) if isinstance(each, Comparison) else self._operand(each) for each in node.operands]
        return f" {node.connective} ".join(parts)

    def call(self, node: FunctionCall) -> str:
        return f"{node.name}({', '.join(self.visit(argument) for argument in node.arguments)})"

    def _operand(self, tree: Expression) -> str:
        text = self.visit(tree)
        return text if isinstance(tree, Constant | FieldPath | FunctionCall) else f"({text})"


def _literal(value: Any) -> str:
    return json.encode(value).decode()
