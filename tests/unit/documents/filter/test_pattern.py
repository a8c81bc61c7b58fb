"""Patterns: they find what Python's find, and no text or pattern makes them slow."""

from __future__ import annotations

import random
import re

import pytest

from headwater.documents.filter.meter import StepMeter, TooManySteps
from headwater.documents.filter.pattern import Pattern, pattern


def found(text: str, searched: str) -> bool:
    return Pattern(text).found(searched, StepMeter())


@pytest.mark.parametrize(
    ("text", "fits", "others"),
    [
        ("abc", ["abc", "xabcx"], ["ab", "ac"]),
        ("^abc$", ["abc"], ["abcd", "xabc"]),
        ("a.c", ["abc", "a.c"], ["ac", "a\nc"]),
        ("a*b+c?", ["b", "aab", "bc"], ["a", ""]),
        ("^(?:ab|cd){2}$", ["abcd", "cdcd"], ["ab", "ababab"]),
        ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
        ("^a{2,}$", ["aa", "aaaaa"], ["a"]),
        ("^a{0}b$", ["b"], ["ab"]),
        (r"^\d+\.\d{2}$", ["12.34"], ["12.3", "a.12"]),
        (r"^[a-c\d_-]+$", ["a-1_c"], ["d", ""]),
        ("^[^a-c]+$", ["xyz"], ["xa"]),
        ("[]a]", ["]", "a"], ["b"]),
        (r"\bcat\b", ["a cat.", "cat"], ["cats", "concat"]),
        (r"\Bcat", ["concat"], ["cat"]),
        ("(?i)HeLLo", ["hello", "HELLO"], ["hallo"]),
        ("(?i)^[A-C]+$", ["abC"], ["d"]),
        (r"\s\S\w\W\D", ["\tab! "], ["aaaa"]),
        ("a+?b", ["aab"], ["a"]),
        ("", ["", "x"], []),
        ("a|", ["", "b"], []),
        (r"\(\)\[\]\{\}\*", ["()[]{}*"], ["()"]),
        ("é+", ["éé"], ["e"]),
    ],
)
def test_what_fits(text: str, fits: list[str], others: list[str]) -> None:
    assert [each for each in fits if not found(text, each)] == []
    assert [each for each in others if found(text, each)] == []


def _random_pattern(generator: random.Random, depth: int = 3) -> str:
    choice = generator.random()
    if depth == 0 or choice < 0.4:
        return generator.choice(("a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\d", r"\b"))
    if choice < 0.6:
        return _random_pattern(generator, depth - 1) + _random_pattern(generator, depth - 1)
    if choice < 0.8:
        return f"(?:{_random_pattern(generator, depth - 1)}){generator.choice(('*', '+', '?', '{2}', '{1,2}', '{0,1}', '*?'))}"
    if choice < 0.95:
        return f"(?:{_random_pattern(generator, depth - 1)}|{_random_pattern(generator, depth - 1)})"
    return f"^{_random_pattern(generator, depth - 1)}$"


def test_patterns_find_what_those_of_python_find() -> None:
    generator = random.Random(9)
    for _ in range(1500):
        text = _random_pattern(generator)
        searched = "".join(generator.choices("abc1 ", k=generator.randrange(8)))
        assert found(text, searched) == (re.search(text, searched) is not None), (text, searched)


def test_texts_are_split_where_a_pattern_fits() -> None:
    split = lambda text, searched: Pattern(text).split(searched, StepMeter())  # noqa: E731
    assert split(r"\s*,\s*", "a , b,c") == ["a", "b", "c"]
    assert split(",", "a,b,,") == ["a", "b"]
    assert split("", "abc") == ["a", "b", "c"]
    assert split("x*", "axxb") == ["a", "b"]
    assert split("[ab]+", "aXbY") == ["", "X", "Y"]
    assert split(",", "") == [""]


@pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y", "(a*)*b"])
def test_hostile_patterns_take_the_steps_of_the_text(text: str) -> None:
    made = Pattern(text)
    meter = StepMeter()
    made.found("a" * 2000 + "!", meter)
    assert meter.left > 0


def test_a_text_that_is_too_long_ends_the_steps() -> None:
    with pytest.raises(TooManySteps):
        pattern("(a|b)*c").found("ab" * 200_000, StepMeter())
    with pytest.raises(TooManySteps):
        pattern("a+b").split("a" * 5000, StepMeter())


def test_what_is_remembered_has_a_bound() -> None:
    made = Pattern("(a|b|c).{20}[xyz]$")
    generator = random.Random(1)
    for _ in range(200):
        made.found("".join(generator.choices("abcxyz", k=100)), StepMeter())
    assert made.found("a" + "-" * 20 + "x", StepMeter())
