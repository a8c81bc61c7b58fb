"""What is no pattern, and what is too large for one."""

from __future__ import annotations

import random

import pytest

from headwater.documents.filter.pattern_syntax import MOST_STATES, plain_text, read_pattern
from headwater.documents.filter.values import EvaluationError


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *[
            ("(", "too early|not closed"),
            (")", "was not opened"),
            ("[a", "not closed"),
            ("[b-a]", "from the lesser"),
            ("*", "nothing stands"),
        ],
        *[
            ("a**", "follows another"),
            ("a{", "begins a count"),
            ("a{2,1}", "greater one"),
            ("a{x}", "begins a count"),
            ("a{1000}", "begins a count"),
        ],
        *[
            ("\\", "a backslash ends"),
            (r"\q", "no meaning"),
            (r"(a)\1", "no meaning"),
            ("(?=a)", "goes on with a colon"),
            ("(?P<n>a)", "goes on with a colon"),
        ],
        *[
            ("a{300}b{300}", "too large"),
            ("((a{30}){30})", "too large"),
            ("(" * 30 + ")" * 30, "nested"),
            ("a" * 501, "at most 500"),
            ("{2}", "nothing stands"),
        ],
    ],
)
def test_what_cannot_be_read_says_why(text: str, problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        read_pattern(text)


def test_patterns_have_a_bound() -> None:
    assert len(read_pattern("a" * 60).states) <= MOST_STATES
    assert plain_text("a-b c") == "a-b c"
    assert plain_text("a.b") is None


def test_no_text_breaks_the_reader() -> None:
    generator = random.Random(4)
    for _ in range(3000):
        text = "".join(generator.choices(r"ab[](){}|*+?^$\.,-0129wdsb:<i", k=generator.randrange(15)))
        try:
            assert len(read_pattern(text).states) <= MOST_STATES
        except EvaluationError:
            continue
