"""The parser: precedence, the repaired unary operators, errors, and no input that breaks it."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.document_errors import BadFilter
from headwater.documents.filter.evaluate import Filter, Verdict
from headwater.documents.filter.format import format_filter
from headwater.documents.filter.parser import DEEPEST, parse_field, parse_filter
from headwater.testing.filter_samples import random_filter, random_item


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a or b and c", "a or (b and c)"),
        ("a or b xor c", "a or (b xor c)"),
        ("a xor b and c", "a xor (b and c)"),
        ("a and b = c", "a and (b = c)"),
        ("a = b < c", "a = (b < c)"),
        ("a < b has c", "a < (b has c)"),
        ("a has b + c", "a has (b + c)"),
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a / b % c", "(a / b) % c"),
        ("a ++ b -- c", "(a ++ b) -- c"),
        ("!a and b", "(!a) and b"),
        ("not a and b", "(!a) and b"),
        ("!a = b", "(!a) = b"),
        ("-a + b", "(-a) + b"),
        ("- a * b", "(-a) * b"),
        ("a - -1", "a - (-1)"),
        ("!!a", "!(!a)"),
        ("a is null", "a = null"),
        ("a is not null and b", "(a != null) and b"),
        ("a not like 'x'", "a not like ('x')"),
        ("a has not b", "(a) has not (b)"),
        ("(a and b) and c", "a and b and c"),
        ("a.and.null", "a.`and`.`null`"),
        ("-5", "-(5)"),
        ("[1, -2, {a: 'x', \"b\": []}]", '[1,-2,{"a":"x","b":[]}]'),
        ("a = 10", "a = 10.0"),
        ("a = 0x10", "a = 16"),
    ],
)
def test_the_tree_is_the_same(text: str, same: str) -> None:
    assert parse_filter(text) == parse_filter(same)


def test_unlike_constants_make_unlike_trees() -> None:
    assert parse_filter("a = 1") != parse_filter("a = true")
    assert parse_filter("a = 1") != parse_filter("a = '1'")
    assert parse_filter("a and b or c") != parse_filter("a and (b or c)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "The filter is empty"),
        ("a >", "ends where a value is expected"),
        ("a > > b", "'>' stands where a value"),
        ("and", "`and` stands where a value"),
        ("(a", "bracket is not closed"),
        ("a)", "An operator is expected before '\\)'"),
        ("1 2", "An operator is expected"),
        ("a.1", "An operator is expected|name of a field"),
        ("a.", "name of a field is expected after the dot"),
        ("a is 3", "`null` or `not null` is expected"),
        ("a not b", "`like` is expected after `not`"),
        ("foo(1)", "There is no function 'foo'"),
        ("lenght(a)", "There is no function 'lenght'"),
        ("length()", "`length` has 0 arguments"),
        ("substr(a)", "`substr` has 1 arguments"),
        ("upper(a b)", "A comma or a closing bracket"),
        ("upper(a", "A comma or a closing bracket"),
        ("[a]", "hold literals only"),
        ("[1", "A comma or \\] is expected"),
        ("{1: 2}", "A name is expected in an object"),
        ("{a 2}", "A colon is expected"),
        ("{a: 1", "A comma or } is expected"),
        ("a like '('", "The pattern cannot be read"),
        ("a like 5", "A pattern is a text"),
        ("split(a, '[')", "The pattern cannot be read"),
        ("(" * 60 + "a" + ")" * 60, "nested more than 50 deep"),
        ("!" * 60 + "a", "nested more than 50 deep"),
        ("[" * 60 + "]" * 60, "nested more than 50 deep"),
        ("a" + " + 1" * 60, "nested more than 50 deep"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadFilter, match=problem):
        parse_filter(text)


def test_long_chains_are_no_deep_trees() -> None:
    tree = parse_filter(" or ".join(f"id = 'x{number}'" for number in range(400)))
    assert Filter("", tree).accepts({"id": "x399"})
    parse_filter("(" * (DEEPEST - 2) + "a" + ")" * (DEEPEST - 2))


def test_fields() -> None:
    assert parse_field("a.`b c`.like").names == ("a", "b c", "like")
    assert parse_field("null").names == ("null",)
    for wrong in ("", "a b", "1", "a.", "'a'", "a = 1"):
        with pytest.raises(BadFilter):
            parse_field(wrong)


# -- whatever is sent ---------------------------------------------------------------------------------------------

_PIECES = (
    *("a", "b.c", "`x`", "and", "or", "xor", "not", "has", "like", "is", "null", "true", "1", "0x1", "1e5", "'s'", '"t"', "(", ")", "["),
    *("]", "{", "}", ",", ":", ".", "+", "-", "++", "--", "*", "/", "%", "=", "!=", "<", "<=", ">", ">=", "!", "length", "split", "case"),
    *("'('", "'", '"', "`", "\\", "\x00", "é", "\n", "isExists", "apply", "substr", "0", "''"),
)


def check(text: str, item: dict[str, object]) -> None:
    """A filter is refused with a place, or judges an item and is written as itself."""
    tree = refused = None
    try:
        tree = parse_filter(text)
    except BadFilter as error:
        refused = error.message
    if tree is None:
        assert refused is not None
        assert "character" in refused
        return
    assert Filter(text, tree).verdict(item) in Verdict
    assert parse_filter(format_filter(tree)) == tree


def fuzz(seed: int, rounds: int) -> None:
    generator = random.Random(seed)
    item = random_item(generator)
    for number in range(rounds):
        if number % 3 == 0:
            text = " ".join(generator.choices(_PIECES, k=generator.randrange(1, 14)))
        elif number % 3 == 1:
            text = bytes(generator.choices(range(256), k=generator.randrange(1, 30))).decode("latin-1")
        else:
            text = random_filter(generator)
            at = generator.randrange(len(text) + 1)
            text = text[:at] + generator.choice(string.printable) * generator.randrange(3) + text[at + generator.randrange(3) :]
        check(text, item)


def test_no_input_breaks_the_parser() -> None:
    fuzz(1, 6000)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 14))
def test_no_input_breaks_the_parser_for_long(seed: int) -> None:
    fuzz(seed, 100_000)


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_no_text_breaks_the_parser(text: str) -> None:
    check(text, {"id": "a", "a": 1})
