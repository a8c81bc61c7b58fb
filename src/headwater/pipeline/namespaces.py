"""Which namespaces a source, transform or sink takes: a regular expression."""

from __future__ import annotations

import re

from headwater.core.errors import BadConfig


class Namespaces:
    """A choice of namespaces. Python's `re`, searched anywhere in the name; slashes around the expression are stripped.

    Errors: `BadConfig` for text that is no regular expression.
    """

    def __init__(self, expression: str = ".*") -> None:
        self.expression = expression.strip("/") if expression.strip("/") else ".*"
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

    def __reduce__(self) -> tuple[type[Namespaces], tuple[str]]:
        return Namespaces, (self.expression,)
