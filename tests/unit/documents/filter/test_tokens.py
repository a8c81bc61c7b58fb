"""Tokens of filters, and errors that point at a character."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.core.document_errors import BadFilter
from headwater.documents.filter.tokens import MOST_CHARACTERS, MOST_TOKENS, bad_filter, tokens


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokens(text)][:-1]


def test_tokens_have_kinds_and_places() -> None:
    assert kinds("a>=10 and not b") == [
        *(("name", "a"), ("sign", ">="), ("number", "10")),
        *(("word", "and"), ("word", "not"), ("name", "b")),
    ]
    assert [token.at for token in tokens(" a\n >  1")] == [1, 4, 7, 8]


@pytest.mark.parametrize("name", ["nullable", "trueish", "false1", "notes", "android", "$x", "_a$1", "größe", "island", "hash"])
def test_a_name_may_begin_with_a_word(name: str) -> None:
    assert kinds(name) == [("name", name)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("0", 0), ("12", 12), ("0x1F", 31), ("0Xff", 255), ("1.5", 1.5)],
        *[("1e3", Decimal("1E+3")), ("1.50", Decimal("1.50")), ("2E-2", Decimal("2E-2"))],
        *[
            ('"a"', "a"),
            ("'a'", "a"),
            (r'"\n\u0041\/"', "\nA/"),
            (r"'it\'s'", "it's"),
            (r'"\ud83d\ude00"', "😀"),
            ('"😀"', "😀"),
            ("''", ""),
        ],
        *[("`a b`", "a b"), ("`a``b`", "a`b")],
    ],
)
def test_values(text: str, value: Any) -> None:
    [token, _] = tokens(text)
    assert token.value == value
    assert str(token.value) == str(value)


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        ("a = 'x", "does not end", 5),
        ('a = "x', "does not end", 5),
        ("`a", "does not end", 1),
        ("``", "at least one character", 1),
        ("a && b", "no operator", 3),
        ("a | b", "no operator", 3),
        ("a # b", "no meaning", 3),
        ("12x", "does not go on with 'x'", 3),
        ("01", "does not go on with '1'", 2),
        ("0x", "does not go on with 'x'", 2),
        ("1" * 101, "at most 100 digits", 1),
        ("0x" + "f" * 100, "at most 100 digits", 1),
        ("1e6145", "an exponent of at most 6144", 1),
        ("1e" + "9" * 50, "an exponent of at most 6144", 1),
        (r"'\q'", "the escape", 2),
        (r"'a\ud800'", "half of a surrogate pair", 1),
        ("é = \x00", "no meaning", 5),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(text: str, problem: str, at: int) -> None:
    with pytest.raises(BadFilter, match=problem) as caught:
        tokens(text)
    assert f"at character {at}:" in caught.value.message


def test_filters_have_a_length() -> None:
    with pytest.raises(BadFilter, match="8193 characters"):
        tokens("a" * (MOST_CHARACTERS + 1))
    with pytest.raises(BadFilter, match="4096 are allowed"):
        tokens("+ " * (MOST_TOKENS // 2) + "-+" * (MOST_TOKENS // 2))


def test_the_error_shows_the_line_with_a_caret() -> None:
    error = bad_filter("a = 1 and\nb = = 2", 14, "Wrong")
    assert error.message == "Wrong, at character 15:\n  b = = 2\n      ^"
    long = bad_filter("x" * 200 + "!" + "y" * 200, 200, "Wrong").message.splitlines()
    assert long[1][len(long[2]) - 1] == "!"
    assert len(long[1]) < 80
    assert bad_filter("\x07a", 1, "Wrong").message.endswith("\n   a\n   ^")
