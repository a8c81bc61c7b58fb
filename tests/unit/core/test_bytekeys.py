from __future__ import annotations

from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.core.bytekeys import decode, encode
from headwater.core.errors import BadInput

# -- values, with the ones that break naive codecs among them ---------------------------------------------------

exponents = st.one_of(
    st.integers(-10, 10), st.integers(-400, 400), st.sampled_from([-97, -96, -95, 94, 95, 96, 255, 256, -255, -256, 10**17, -(10**17)])
)
decimals = st.builds(
    lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=40).map(tuple),
    exponents,
)
numbers = st.one_of(
    decimals,
    st.decimals(allow_nan=False, allow_infinity=False),
    st.integers(),
    st.integers(-(1 << 200), 1 << 200),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [
            Decimal("-0"),
            Decimal("0E+50"),
            0,
            -0.0,
            Decimal("1.0"),
            Decimal("1.00"),
            1,
            Decimal("1E-400"),
            5e-324,
            10**4000,
            Decimal("9" * 60),
        ]
    ),
)
texts = st.one_of(st.text(), st.text(alphabet="a\0\x01\xff\uffff\U0001f600é"))
scalars = st.one_of(st.none(), numbers, texts, st.booleans(), st.binary(), st.binary().map(lambda b: b.replace(b"a", b"\0")))


def exact(number: int | float | Decimal) -> Decimal:
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


def compare(a: Any, b: Any) -> int:
    """The order that is promised, said without bytes: by type, then by value."""

    def place(value: Any) -> tuple[int, Any]:
        if value is None:
            return 0, 0
        if isinstance(value, bool):
            return 4, value
        if isinstance(value, str):
            return 2, [ord(c) for c in value]
        if isinstance(value, bytes):
            return 3, value
        return 1, exact(value)

    x, y = place(a), place(b)
    return (x > y) - (x < y)


def order_of(a: bytes, b: bytes) -> int:
    return (a > b) - (a < b)


# -- one field --------------------------------------------------------------------------------------------------


@given(numbers, numbers)
@example(1, Decimal("1.00"))
@example(Decimal("-0"), 0.0)
@example(0.1, Decimal("0.1"))
@example(1 << 64, (1 << 64) + 1)
@example(-(10**4000), Decimal("-1E+4000"))
@example(Decimal("1E+999999999999999999"), Decimal("9E+999999999999999998"))
@example(Decimal("1E-999999999999999999"), 0)
@example(Decimal("-1E-999999999999999999"), 0)
def test_numbers_keep_their_order(a: Any, b: Any) -> None:
    assert order_of(encode([a]), encode([b])) == compare(a, b)
    assert order_of(encode([a], [True]), encode([b], [True])) == -compare(a, b)


@given(texts, texts)
@example("a", "a\0")
@example("a", "a\0\0")
@example("a\0b", "a\x01")
@example("\uffff", "\U00010000")  # the other way round in UTF-16
@example("\ud800", "\ue000")
def test_texts_keep_their_order(a: str, b: str) -> None:
    assert order_of(encode([a]), encode([b])) == compare(a, b)
    assert order_of(encode([a], [True]), encode([b], [True])) == -compare(a, b)


@given(scalars, scalars)
def test_types_keep_their_order(a: Any, b: Any) -> None:
    assert order_of(encode([a]), encode([b])) == compare(a, b)


def test_null_number_text_other() -> None:
    values = [
        None,
        -(10**300),
        -1,
        0,
        Decimal("1E-9"),
        1.5,
        10**300,
        "",
        "10",
        "9",
        "a",
        b"",
        b"a",
        False,
        True,
        [],
        [None],
        [1],
        [1, 2],
        [2],
        {},
        {"a": 1},
        {"b": 0},
    ]
    keys = [encode([value]) for value in values]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@given(numbers)
def test_equal_numbers_have_one_key(a: Any) -> None:
    value = exact(a)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    assert encode([a]) == encode([value]) == encode([Decimal((sign, (*digits, 0), exponent - 1))])


# -- several fields ---------------------------------------------------------------------------------------------

rows = st.integers(1, 4).flatmap(
    lambda count: st.tuples(
        st.lists(st.booleans(), min_size=count, max_size=count),
        st.lists(scalars, min_size=count, max_size=count),
        st.lists(scalars, min_size=count, max_size=count),
    )
)


@given(rows)
@example(([True, False], ["a", 1], ["a\0", 0]))
@example(([False, True], ["", "b"], ["", "a"]))
def test_composite_keys_compare_field_by_field(row: tuple[list[bool], list[Any], list[Any]]) -> None:
    down, a, b = row
    fields = [-compare(x, y) if d else compare(x, y) for d, x, y in zip(down, a, b, strict=True)]
    assert order_of(encode(a, down), encode(b, down)) == next((field for field in fields if field), 0)


@given(st.lists(st.tuples(scalars, scalars), max_size=20))
def test_sorting_keys_sorts_rows(pairs: list[tuple[Any, Any]]) -> None:
    expected = sorted(pairs, key=cmp_to_key(lambda a, b: compare(a[0], b[0]) or -compare(a[1], b[1])))
    found = sorted(pairs, key=lambda row: encode(row, [False, True]))
    assert [encode(row) for row in found] == [encode(row) for row in expected]


nested = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)), max_leaves=12
)


def plain(value: Any) -> Any:
    """A value as it comes back: every number a Decimal. Booleans and text apart, since True == 1."""
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return exact(value)
    return (type(value).__name__, value)


@given(st.lists(st.tuples(nested, st.booleans()), min_size=1, max_size=4))
def test_keys_are_read_back(fields: list[tuple[Any, bool]]) -> None:
    values, down = [value for value, _ in fields], [d for _, d in fields]
    assert plain(decode(encode(values, down), down)) == plain(values)
    assert plain(decode(encode(values))) == plain(values)


@given(st.dictionaries(texts, scalars, max_size=5))
def test_the_order_of_names_does_not_matter(value: dict[str, Any]) -> None:
    assert encode([value]) == encode([dict(reversed(value.items()))])


# -- golden bytes, computed by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (None, "05"),
        (0, "11"),
        (1, "12 80 31 00"),
        (-1, "10 7f ce ff"),
        (Decimal("123.40"), "12 82 31 32 33 34 00"),
        (0.05, "12 7e 35 00"),
        (10**300, "12 e2 01 2c 31 00"),
        (Decimal("1E-300"), "12 1d fe d3 31 00"),
        (Decimal("-1E+300"), "10 1d fe d3 ce ff"),
        ("", "20 00 00"),
        ("a\0é", "20 61 00 ff c3 a9 00 00"),
        (b"\0", "30 00 ff 00 00"),
        (False, "38"),
        (True, "39"),
        ([None, "x"], "40 05 20 78 00 00 00"),
        ({"n": 0}, "41 20 6e 00 00 11 00"),
    ],
)
def test_golden_bytes(value: Any, key: str) -> None:
    assert encode([value]) == bytes.fromhex(key)
    assert encode([value], [True]) == bytes(255 - byte for byte in bytes.fromhex(key))


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), Decimal("-Infinity"), Decimal("NaN"), Decimal("sNaN"), {1, 2}, object(), {1: 2}, 1j]
)
def test_a_value_without_a_place_is_refused(value: Any) -> None:
    with pytest.raises(BadInput, match="no place"):
        encode([value])


def test_too_deep_is_refused_both_ways() -> None:
    value: Any = 1
    for _ in range(100):
        value = [value]
    with pytest.raises(BadInput, match="deep"):
        encode([value])
    with pytest.raises(BadInput, match="no key"):
        decode(b"\x40" * 100_000)


def test_a_direction_for_each_field() -> None:
    with pytest.raises(ValueError, match="zip"):
        encode([1, 2], [True])


key_like = st.lists(
    st.one_of(
        st.binary(max_size=6),
        st.sampled_from([bytes.fromhex(h) for h in ("12e9", "12e8ffffffffffffffff31", "1280", "121f", "4120", "20ff", "ce")]),
    ),
    max_size=6,
).map(b"".join)


@given(key_like, st.lists(st.booleans(), max_size=3))
def test_bytes_from_outside_are_read_or_refused(key: bytes, down: list[bool]) -> None:
    try:
        values = decode(key, down)
    except BadInput:
        return
    assert encode(values, down) == key


@given(st.lists(scalars, min_size=1, max_size=3), st.data())
def test_a_key_that_was_cut_is_refused(values: list[Any], data: st.DataObject) -> None:
    key, down = encode(values), [False] * len(values)
    with pytest.raises(BadInput):
        decode(key[: data.draw(st.integers(0, len(key) - 1))], down)
    with pytest.raises(BadInput):
        decode(key + b"\x05", down)


def test_an_integer_longer_than_python_prints_has_a_key() -> None:
    assert encode([10**5000]) == encode([Decimal("1E+5000")]) < encode([10**5000 + 1])
    assert int(decode(encode([10**5000 + 1]))[0]) == 10**5000 + 1
