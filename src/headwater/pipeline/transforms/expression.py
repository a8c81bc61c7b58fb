"""The text of an `sql` transform: which fields of a document it may name, and what it does with the others. Found without Spark."""

from __future__ import annotations

import re
from typing import Literal

Stay = Literal["none", "others", "all"]  # of the fields that no column was made of: none, those that were not given, all of them

_NAME = r"(?:[A-Za-z0-9_]+|`[^`]+`)"
_STAR = re.compile(rf"(\*\s*(EXCEPT\s*\(\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\))?)\s*(?:,(.*))?", re.DOTALL | re.IGNORECASE)
_OTHER_STAR = re.compile(r"(?:^|[(,.])\s*\*|--|/\*")  # a star that is no multiplication, or a comment that may hide one

_GENERATORS = re.compile(r"inline|explode|stack|json_tuple")  # functions whose columns have names of their own


class Expression:
    """What stands between SELECT and FROM, and behind WHERE.

    `prunes`: columns that the text does not name need not travel to Spark and back. What begins with a star keeps them, what is a list of
    fields drops them, and neither looks at them.
    """

    def __init__(self, text: str, where: str | None) -> None:
        match = _STAR.fullmatch(text)
        rest = (match[3] or "") if match else text
        self.text, self.where = text, where
        self.prunes = not _OTHER_STAR.search(f"{rest}\n{where or ''}") and "identifier" not in _fold(f"{rest}\n{where or ''}")
        self.excepts = bool(match and match[2])
        self.stay: Stay = "none" if not (match and self.prunes) else "others" if self.excepts else "all"
        self._outputs = _fold(rest)
        self._named = _fold(f"{rest}\n{where or ''}")
        self._gone = _fold((match[2] or "").partition("(")[2]) if match else ""
        # A star that leaves nothing out would give back every column that was sent.
        self.selected = rest.strip() if self.stay == "all" else text

    def named(self, column: str) -> bool:
        """Whether the values of this column may matter to the expression; true for some that do not."""
        return not self.prunes or _quoted(column) in self._named

    def keeps(self, column: str) -> bool:
        """Whether a document's field of this name surely stays as it is: a star gives it, and nothing else may have its name."""
        return self.stay != "none" and not (_quoted(column) in self._outputs or self.left_out(column) or _GENERATORS.search(self._outputs))

    def left_out(self, column: str) -> bool:
        """Whether EXCEPT may mean this column, so that Spark has to know that it is there; true for some that it does not mean."""
        return self.excepts and _quoted(column) in self._gone

    def means(self, column: str) -> bool:
        """Whether it matters to the expression that there is such a column."""
        return self.named(column) or self.left_out(column)


def _quoted(column: str) -> str:
    return _fold(column.replace("`", "``"))


def _fold(text: str) -> str:
    """The text in one form for all names that Spark takes for the same: it compares letters in upper and in lower case."""
    if text.isascii():
        return text.lower()
    return "".join((upper if len(upper := letter.upper()) == 1 else letter).lower()[0] for letter in text)
