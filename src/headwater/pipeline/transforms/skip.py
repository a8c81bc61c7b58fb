"""`skip` and `keep`: messages by what one of their fields holds."""

from __future__ import annotations

from typing import Any

from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Transform, one_by_one
from headwater.pipeline.transforms.conditions import condition, operator_of
from headwater.pipeline.transforms.paths import Path, find, parsed


class DocumentFilter(Transform):
    """Made by `skip` and `keep`."""

    keeps_id = True

    def __init__(self, word: str, field: Path, sign: str, match: Any, *, name: str) -> None:
        self.word, self.field, self.sign, self.match, self.name = word, field, sign, match, name

    def opened(self) -> Apply:
        fits, field, kept = condition(self.sign, self.match), self.field, self.word == "keep"
        return one_by_one(self, lambda message: message if fits(find(message.data, field)) is kept else None)


@strict
def skip(field: str, operator: str, match: Any) -> Transform:
    """Drop the messages whose field fits: `skip("status", "==", "draft")` drops the drafts. What is dropped counts as taken.

    CAREFUL when coming from transporter: its function of this name did the opposite, and KEPT what fitted. That one is `keep` here.

    `operator` is == != =~ > >= < <=, or a word for one: eq ne gt gte lt lte, with or without `$`. `field` is a path, as for `omit`. A
    missing field is null: it equals None, differs from everything else, has no order and matches no expression. How values of different
    types compare is written in `headwater.pipeline.transforms.conditions`; no pair of values is an error.
    """
    return _made("skip", field, operator, match)


@strict
def keep(field: str, operator: str, match: Any) -> Transform:
    """Keep only the messages whose field fits: `keep("country", "=~", "^(DE|AT|CH)$")`. The others are dropped, and count as taken.

    The opposite of `skip`, with the same operators and rules: of each message exactly one of the two lets it pass. This is what
    transporter's function `skip` did.
    """
    return _made("keep", field, operator, match)


def _made(word: str, field: str, operator: str, match: Any) -> Transform:
    path, sign = parsed(field, word), operator_of(operator)
    condition(sign, match)  # a value that nothing can be compared with is an error of the pipeline's file, not of its first message
    return DocumentFilter(word, path, sign, match, name=f"{word}({field}{sign}{match!r})")
