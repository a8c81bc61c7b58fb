"""Reads filters: a Pratt parser.

Operators from the loosest to the tightest, those of one line from left to right:

    or
    xor
    and
    =  !=  is null  is not null
    <  <=  >  >=
    has  has not  like  not like
    +  -  ++  --
    *  /  %
    !  not  -                      of one operand: `!a and b` is `(!a) and b`
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, cast

from headwater.core.spelling import nearest
from headwater.documents.filter.functions import FUNCTIONS
from headwater.documents.filter.pattern import pattern
from headwater.documents.filter.tokens import Token, bad_filter, tokens
from headwater.documents.filter.tree import (
    Arithmetic,
    BinaryOperation,
    Comparison,
    Connective,
    Constant,
    Expression,
    FieldPath,
    FunctionCall,
    Junction,
    Minus,
    Negation,
    Relation,
    constant,
)
from headwater.documents.filter.values import NUMBER, EvaluationError, kind

DEEPEST = 50
_UNARY = 9
_LEVELS: Final = ("or", "xor", "and", "= != is", "< <= > >=", "has like not", "+ - ++ --", "* / %")
_BINDING: Final = {operator: level for level, operators in enumerate(_LEVELS, 1) for operator in operators.split()}
_NAMED: Final = {"true": True, "false": False, "null": None}


def parse_filter(text: str) -> Expression:
    """The tree of a filter. Errors: `BadFilter`, which names the character and shows it."""
    return _Parser(text).whole()


def parse_field(text: str) -> FieldPath:
    """The path of a field that is named in an order or an index: `a.b` or in back-ticks. Errors: `BadFilter`."""
    return _Parser(text).field()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> Expression:
        if self._peek().kind == "end":
            self._fail(self._peek(), "The filter is empty", "Write one, such as price > 10, or leave it out.")
        tree = self._expression(0)
        if self._peek().kind != "end":
            self._fail(self._peek(), f"An operator is expected before {self._peek().text!r:.40}")
        return tree

    def field(self) -> FieldPath:
        token = self._next()
        if token.kind not in ("name", "word"):
            self._fail(token, "The name of a field is expected", "Write a or a.b; put odd names into back-ticks.")
        path = self._path(token)
        if self._peek().kind != "end":
            self._fail(self._peek(), "The name of the field ends here", "Put odd names into back-ticks.")
        return path

    # -- expressions --------------------------------------------------------------------------------------------

    def _expression(self, binding: int) -> Expression:
        self._deeper()
        left = self._operand()
        links = 0
        while (bound := self._binding()) > binding:
            operator = self._next()
            before = left
            left = self._infix(left, operator, bound)
            if not isinstance(left, Junction) or left.operands[0] is before:
                links += 1  # a chain such as 1+1+1 is a tree as deep as it is long
                self._deeper()
        self._depth -= 1 + links
        return left

    def _binding(self) -> int:
        token = self._peek()
        return _BINDING.get(token.text, 0) if token.kind in ("sign", "word") else 0

    def _infix(self, left: Expression, token: Token, bound: int) -> Expression:
        operator = token.text
        if operator == "is":
            negated = self._take("not")
            if not self._take("null"):
                self._fail(self._peek(), "`null` or `not null` is expected after `is`", "Compare other values with = and !=.")
            return Comparison("!=" if negated else "=", left, constant(None))
        if operator == "not":
            if not self._take("like"):
                self._fail(self._peek(), "`like` is expected after `not`", "Write `not like`, `has not`, or `not` before one operand.")
            operator = "not like"
        elif operator == "has" and self._take("not"):
            operator = "has not"
        behind = self._peek()
        right = self._expression(bound)
        if operator in ("like", "not like"):
            self._check_pattern(right, behind)
        if bound <= 3:
            operands = left.operands if isinstance(left, Junction) and left.connective == operator else (left,)
            return Junction(cast(Connective, operator), (*operands, right))
        if bound <= 6:
            return Comparison(cast(Relation, operator), left, right)
        return BinaryOperation(cast(Arithmetic, operator), left, right)

    def _operand(self) -> Expression:
        token = self._next()
        match token.kind, token.text:
            case (("number" | "text"), _):
                return constant(token.value)
            case "word", ("true" | "false" | "null"):
                return constant(_NAMED[token.text])
            case ("word", "not") | ("sign", "!"):
                return Negation(self._expression(_UNARY))
            case "sign", "-":
                operand = self._expression(_UNARY)
                if isinstance(operand, Constant) and kind(operand.value) == NUMBER:
                    return constant(-operand.value)
                return Minus(operand)
            case "sign", "(":
                inner = self._expression(0)
                self._expect(")", "The bracket is not closed")
                return inner
            case "sign", ("[" | "{"):
                return constant(self._collection(token))
            case "name", _:
                if self._peek().text == "(" and not token.text.startswith("`"):
                    return self._call(token)
                return self._path(token)
            case "end", _:
                return self._fail(token, "The filter ends where a value is expected")
            case "word", name:
                return self._fail(
                    token, f"`{name}` stands where a value is expected", f"Put a field of this name into back-ticks: `{name}`."
                )
            case _:
                return self._fail(token, f"{token.text!r:.40} stands where a value is expected")

    def _path(self, first: Token) -> FieldPath:
        names = [str(first.value)]
        while self._peek().text == "." and self._peek().kind == "sign":
            self._next()
            token = self._next()
            if token.kind not in ("name", "word"):
                self._fail(token, "The name of a field is expected after the dot", "Put odd names into back-ticks.")
            names.append(str(token.value))
        return FieldPath(tuple(names))

    def _call(self, token: Token) -> FunctionCall:
        function = FUNCTIONS.get(token.text)
        if function is None:
            self._fail(token, f"There is no function {token.text!r:.40}", nearest(token.text, list(FUNCTIONS)))
        self._next()
        arguments: list[Expression] = []
        while not self._take(")"):
            if arguments:
                self._expect(",", "A comma or a closing bracket is expected")
            arguments.append(self._expression(0))
        if not function.least <= len(arguments) <= function.most:
            self._fail(token, f"`{token.text}` has {len(arguments)} arguments", f"Write {function.form}.")
        if token.text == "split":
            self._check_pattern(arguments[1], token)
        return FunctionCall(token.text, tuple(arguments))

    def _check_pattern(self, tree: Expression, token: Token) -> None:
        """Refuse a constant pattern that cannot be read: each row would be rejected for it, without a word."""
        if isinstance(tree, Constant):
            try:
                pattern(tree.value if isinstance(tree.value, str) else "")
            except EvaluationError as error:
                self._fail(token, f"The pattern cannot be read: {error}")
            if not isinstance(tree.value, str):
                self._fail(token, "A pattern is a text")

    # -- lists and objects of literals --------------------------------------------------------------------------

    def _collection(self, opening: Token) -> Any:
        self._deeper()
        value = self._list() if opening.text == "[" else self._object()
        self._depth -= 1
        return value

    def _list(self) -> tuple[Any, ...]:
        values: list[Any] = []
        while not self._take("]"):
            if values:
                self._expect(",", "A comma or ] is expected")
            values.append(self._literal())
        return tuple(values)

    def _object(self) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        while not self._take("}"):
            if pairs:
                self._expect(",", "A comma or } is expected")
            token = self._next()
            if token.kind not in ("text", "name", "word"):
                self._fail(token, "A name is expected in an object")
            self._expect(":", "A colon is expected after a name in an object")
            pairs[token.value] = self._literal()
        return pairs

    def _literal(self) -> Any:
        token = self._peek()
        if token.text in ("[", "{") and token.kind == "sign":
            return self._collection(self._next())
        tree = self._expression(_BINDING["%"])
        if not isinstance(tree, Constant):
            self._fail(token, "Lists and objects hold literals only")
        return tree.value

    # -- tokens -------------------------------------------------------------------------------------------------

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _take(self, text: str) -> bool:
        """Pass over a sign or word, where it comes next."""
        token = self._peek()
        if token.text == text and token.kind in ("sign", "word"):
            self._at += 1
            return True
        return False

    def _expect(self, text: str, problem: str) -> None:
        if not self._take(text):
            self._fail(self._peek(), problem)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(self._peek(), f"The filter is nested more than {DEEPEST} deep", "Chains of `and` and `or` may be long.")

    def _fail(self, token: Token, problem: str, hint: str = "") -> NoReturn:
        raise bad_filter(self._text, token.at, problem, hint)
