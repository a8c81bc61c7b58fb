"""The page of the filter language says what the language does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headwater.documents.filter import meter, parser, pattern_syntax, tokens
from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.filter.functions import FUNCTIONS
from headwater.documents.index.order import MOST_FIELDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "filters.md").read_text()
ITEM = json.loads(re.findall(r"for the item `(.*)`:", PAGE)[0])
TRUE = re.findall(r"^\| `(.+)` \|$", PAGE.partition("| true |")[2].partition("## Functions")[0], re.MULTILINE)


@pytest.mark.parametrize("text", TRUE)
def test_what_the_page_calls_true_is_true(text: str) -> None:
    assert compile_filter(text).accepts(ITEM)


def test_the_page_has_examples() -> None:
    assert len(TRUE) > 20


def test_every_function_is_documented() -> None:
    listed = PAGE.partition("## Functions")[2].partition("## Patterns")[0]
    assert [function.form for function in FUNCTIONS.values() if f"`{function.form}`" not in listed] == []


def test_the_limits_are_those_of_the_code() -> None:
    limits = re.sub(r"(?<=\d) (?=\d)", "", PAGE.partition("## Limits")[2])
    numbers = [int(number) for number in re.findall(r"\d+", limits)]
    assert numbers == [
        *(tokens.MOST_CHARACTERS, tokens.MOST_TOKENS, parser.DEEPEST, tokens.MOST_DIGITS, tokens.MOST_EXPONENT),
        *(pattern_syntax.MOST_LENGTH, pattern_syntax.MOST_STATES, meter.MOST_STEPS, MOST_FIELDS),
    ]


def test_the_readme_leads_to_the_page() -> None:
    assert "docs/reference/filters.md" in (Path(__file__).resolve().parents[2] / "README.md").read_text()
