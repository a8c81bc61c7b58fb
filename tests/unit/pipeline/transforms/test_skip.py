"""skip and keep: every operator, every kind of value, never an error."""

from __future__ import annotations

import operator
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadConfig
from headwater.pipeline.message import Message
from headwater.pipeline.transform import chain
from headwater.pipeline.transforms import keep, skip
from headwater.pipeline.transforms.conditions import OPERATORS

UUID_TEXT = "3b241101-e2bb-4255-8caf-4136c566a962"


def fits(value: Any, sign: str, match: Any, field: str = "f") -> bool:
    """Whether `keep` keeps it, having made sure that `skip` says the opposite."""
    data = {} if value is ... else {"f": value}
    both = [chain([pickle.loads(pickle.dumps(factory(field, sign, match)))])([Message("ns", data)])[0] for factory in (keep, skip)]
    assert (both[0] is None) is not (both[1] is None)
    return both[0] is not None


EQUAL: list[tuple[Any, Any]] = [
    (5, 5),
    (5, 5.0),
    (5.0, 5),
    (5, Decimal("5.00")),
    (5, "5"),
    ("5", 5),
    (" 5.0 ", 5),
    (Decimal("1.10"), 1.1),
    (1.1, Decimal("1.10")),
    ({"$numberLong": "5"}, 5),
    (5, {"$numberLong": "5"}),
    ({"$numberDecimal": "1.10"}, 1.1),
    ({"$numberInt": "5"}, "5"),
    ({"$numberDouble": "Infinity"}, float("inf")),
    (1 << 80, 1 << 80),
    (str(1 << 80), 1 << 80),
    ((1 << 63) - 1, (1 << 63) - 1),
    ("draft", "draft"),
    ("", ""),
    (True, True),
    (None, None),
    (..., None),
    ([1, {"a": 2}], [1.0, {"a": Decimal(2)}]),
    ({"a": {"$numberLong": "1"}}, {"a": 1}),
    ({"$date": "2024-02-29T00:00:00Z"}, datetime(2024, 2, 29, tzinfo=UTC)),
    ({"$date": "2024-02-29T00:00:00Z"}, date(2024, 2, 29)),
    ({"$date": 0}, "1970-01-01"),
    ("2024-02-29T01:00:00+01:00", datetime(2024, 2, 29, tzinfo=UTC)),
    ({"$binary": {"base64": "AAE=", "subType": "00"}}, b"\x00\x01"),
    ({"$oid": "507f"}, "507f"),
    ({"$uuid": UUID_TEXT}, UUID_TEXT.upper()),
    ({"$uuid": UUID_TEXT}, UUID(UUID_TEXT)),
]
UNEQUAL: list[tuple[Any, Any]] = [
    (5, 6),
    ((1 << 63) - 1, float((1 << 63) - 1)),
    ("5", "5.0"),
    ("05", "5"),
    ("a", "A"),
    ("abc", 5),
    (5, "abc"),
    (True, 1),
    (1, True),
    (0, False),
    (False, None),
    ("", None),
    (0, None),
    (..., 0),
    (..., ""),
    (..., False),
    ([], None),
    ([1], [1, 2]),
    ([True], [1]),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": 1}, [1]),
    ([5], 5),
    ({"$numberDouble": "NaN"}, float("nan")),
    ({"$numberDecimal": "sNaN"}, 5),
    ({"$date": "2024-02-29T00:00:00Z"}, "soon"),
    ({"$date": "2024-02-29T00:00:00Z"}, 5),
    (b"x".decode(), b"x"),
    ({"$uuid": UUID_TEXT}, "no"),
]


@pytest.mark.parametrize(("value", "match"), EQUAL)
def test_equal(value: Any, match: Any) -> None:
    assert fits(value, "==", match)
    assert not fits(value, "!=", match)
    if match is not None and not isinstance(match, bool | list | dict):
        assert fits(value, ">=", match)
        assert fits(value, "<=", match)
        assert not fits(value, ">", match)
        assert not fits(value, "<", match)


@pytest.mark.parametrize(("value", "match"), UNEQUAL)
def test_unequal(value: Any, match: Any) -> None:
    assert not fits(value, "==", match)
    assert fits(value, "!=", match)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (1, 2),
        (-1, 0.5),
        (1, Decimal("1.0000000000000000000000001")),
        (9, "10"),
        ("9", 10),
        ("9", "10"),
        ("a", "b"),
        ("10", "a"),
        ("B", "a"),
        ("", "a"),
        ((1 << 63) - 2, (1 << 63) - 1),
        (float(1 << 53), (1 << 53) + 1),
        (5, Decimal("1e400")),
        ({"$numberLong": "1"}, 2),
        (1, {"$numberLong": "2"}),
        ({"$numberDouble": "-Infinity"}, 0),
        ({"$date": "2024-02-28T00:00:00Z"}, date(2024, 2, 29)),
        ("2024-02-28", datetime(2024, 2, 29)),
        ({"$date": "2024-02-28T00:00:00Z"}, "2024-02-29"),
        ({"$binary": {"base64": "AAE=", "subType": "00"}}, b"\x00\x02"),
    ],
)
def test_order(less: Any, more: Any) -> None:
    assert [sign for sign in ("<", "<=", ">", ">=", "==", "!=") if fits(less, sign, more)] == ["<", "<=", "!="]
    if not isinstance(less, dict):
        assert [sign for sign in ("<", "<=", ">", ">=", "==", "!=") if fits(_stored(more), sign, less)] == [">", ">=", "!="]


def _stored(value: Any) -> Any:
    from headwater.pipeline.values import extended

    return extended(value)


@pytest.mark.parametrize(
    "value", [..., None, True, [], [1], {}, {"a": 1}, "abc", {"$numberDouble": "NaN"}, {"$date": "2024-02-29T00:00:00Z"}]
)
def test_what_has_no_order_with_a_number_is_neither_above_nor_below(value: Any) -> None:
    assert [sign for sign in OPERATORS if fits(value, sign, 5 if sign != "=~" else "^5$")] == ["!="]


@pytest.mark.parametrize(
    ("value", "expression", "found"),
    [
        ("draft 1", "raft", True),
        ("draft", "^raft", False),
        ("Draft", "(?i)draft", True),
        ("a\nb", "^b", False),
        (1234, "^12", True),
        (Decimal("1.10"), r"\.10$", True),
        ({"$oid": "507f"}, "^507", True),
        ({"$numberLong": "12"}, "^12$", True),
        (..., ".*", False),
        (None, ".*", False),
        (True, ".*", False),
        (["draft"], "draft", False),
        ({"a": "draft"}, "draft", False),
        ({"$date": "2024-02-29T00:00:00Z"}, "2024", False),
    ],
)
def test_searching(value: Any, expression: str, found: bool) -> None:
    assert fits(value, "=~", expression) is found


@pytest.mark.parametrize(
    ("word", "sign"),
    [
        ("eq", "=="),
        ("$eq", "=="),
        ("=", "=="),
        ("ne", "!="),
        ("$ne", "!="),
        ("<>", "!="),
        ("gt", ">"),
        ("$gt", ">"),
        ("gte", ">="),
        ("$gte", ">="),
        ("lt", "<"),
        ("lte", "<="),
        ("$lte", "<="),
        ("GTE", ">="),
        ("match", "=~"),
        ("$regex", "=~"),
    ],
)
def test_operators_have_words(word: str, sign: str) -> None:
    for value in (1, 2, 3):
        assert fits(value, word, "2") is fits(value, sign, "2")
    assert str(skip("f", word, 2 if sign != "=~" else "2")).startswith(f"skip(f{sign}")


NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(1 << 64), 1 << 64),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False),
)
SIGNS = {"==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def as_decimal(value: Any) -> Decimal:
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


@given(NUMBERS, NUMBERS, st.booleans(), st.booleans())
def test_numbers_compare_by_their_digits(a: Any, b: Any, text: bool, wrapped: bool) -> None:
    value = {"$numberDecimal": str(as_decimal(a))} if wrapped else str(a) if text else a
    for sign, model in SIGNS.items():
        assert fits(value, sign, b) is model(as_decimal(a), as_decimal(b))


ANY = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.text(max_size=3)
    | st.sampled_from([{"$date": 0}, {"$binary": "AA=="}, {"$numberDouble": "NaN"}, {"$uuid": UUID_TEXT}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)


@given(ANY, ANY)
def test_no_pair_of_values_is_an_error(value: Any, match: Any) -> None:
    assert fits(value, "==", match) is not fits(value, "!=", match)
    if match is not None and not isinstance(match, bool | list | dict):
        above, below = fits(value, ">", match), fits(value, "<", match)
        assert not (above and below)
        assert fits(value, "=~", "a") in (True, False)
        if above or below:
            assert not (fits(value, "==", match) and not isinstance(value, str))


def test_fields_are_paths() -> None:
    assert fits({"a": [{"b": 5}]}, "==", 5, field="f.a.0.b")
    assert not fits({"a": [{"b": 5}]}, "==", 5, field="f.a.1.b")
    assert fits({"a": []}, "==", None, field="f.a.0")
    assert [one.data for one in chain([skip(r"a\.b", ">", 1)])([Message("ns", {"a.b": 2}), Message("ns", {"a": {"b": 2}})]) if one] == [
        {"a": {"b": 2}}
    ]


def test_skip_drops_what_fits_and_keep_keeps_it() -> None:
    messages = [Message("ns", {"status": status}) for status in ("draft", "final")]
    assert [one and one.data["status"] for one in chain([skip("status", "==", "draft")])(messages)] == [None, "final"]
    assert [one and one.data["status"] for one in chain([keep("status", "==", "draft")])(messages)] == ["draft", None]
    assert skip("a", "==", 1).keeps_id
    assert "opposite" in (skip.__doc__ or "")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: skip("a", "~", 1), "'~' is no operator"),
        (lambda: skip("a", None, 1), "None is no operator"),  # type: ignore[arg-type]
        (lambda: skip("a", "=~", "("), "no regular expression"),
        (lambda: skip("a", "=~", 5), "no regular expression"),
        (lambda: skip("a", ">", None), "has no meaning"),
        (lambda: skip("a", ">", [1]), "has no meaning"),
        (lambda: skip("a", "<", True), "has no meaning"),
        (lambda: skip("a", "==", object()), "Nothing can be compared"),
        (lambda: skip("", "==", 1), "is no path"),
        (lambda: skip("a", "=="), "missing a required argument: 'match'"),  # type: ignore[call-arg]
        (lambda: keep("a", "==", 1, feild=2), "keep has no option feild"),  # type: ignore[call-arg]
    ],
)
def test_what_is_wrong_is_an_error_of_the_pipelines_file(call: Any, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        call()
