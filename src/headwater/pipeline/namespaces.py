"""Which namespaces a source, transform or sink takes: a regular expression."""

from __future__ import annotations

import re

from headwater.core.errors import BadConfig


class Namespaces:
    """A choice of namespaces. Python's `re`, searched anywhere in the name; slashes around the expression are stripped.

    Errors: `BadConfig` for text that is no regular expression.
    """

    def __init__(self, expression: str = ".*") -> None:
        if not isinstance(expression, str):
            raise BadConfig(f"The namespace {expression!r} is no text.", hint=r"Give a regular expression, such as ^public\.orders$.")
        self.expression = expression.strip("/") or ".*"
        try:
            self._search = re.compile(self.expression).search
        except re.error as error:
            raise BadConfig(
                f"The namespace {expression!r} is no regular expression: {error}.",
                hint=r"Namespaces are Python regular expressions, such as ^public\.orders$.",
            ) from error
        self.everything = self.expression == ".*"

    def __contains__(self, namespace: str) -> bool:
        return self.everything or self._search(namespace) is not None

    def __str__(self) -> str:
        return self.expression

    def __repr__(self) -> str:
        return f"Namespaces({self.expression!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespaces) and other.expression == self.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __reduce__(self) -> tuple[type[Namespaces], tuple[str]]:
        return Namespaces, (self.expression,)
