"""Ids that a sink may call equal go to one task."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.pipeline import values
from headwater.pipeline.id_hash import KEPT, alike, fold, id_hash

# What collations call one letter, or one text. Digits of other scripts and letters in circles are equal to plain ones in most of them.
EQUAL = [
    ("a", "A", "á", "Å", "ａ", "ⓐ"),
    ("ß", "ss", "SS", "ẞ", "s"),
    ("ä", "ae", "Ä", "a", "æ"),
    ("å", "aa", "Aa"),
    ("ø", "ö", "oe", "œ"),
    ("þ", "th", "TH"),
    ("ü", "y", "ue"),
    ("i", "ı", "İ", "I", "j"),
    ("ñ", "N", "ɴ̃", "n", "ŋ", "ng"),
    ("7", "٧", "⑦", "７", "007"),
    ("ĸ", "q"),
    ("ﬁ", "FI"),
    ("b", "ᷨ", "Ḃ", "𝐛", "🅱"),
    ("key", "key  ", "KEY\t", "k\u200bey"),
    ("🦆", "🐸", "�"),
]
text = st.text(max_size=6)
parts = [one for some in EQUAL for one in some if not any(map(unicodedata.combining, one))]
plain = st.lists(st.sampled_from([*parts, *"abcxyz0123456789 -_é"]), max_size=3).map("".join)
numbers = st.integers(-(10**20), 10**20) | st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9)


@pytest.mark.parametrize("some", EQUAL, ids=lambda some: some[0])
def test_letters_that_a_collation_calls_equal_have_one_fold(some: Sequence[str]) -> None:
    assert len({fold(f"x1{one}b2") for one in some}) == 1


@given(text)
def test_text_has_the_fold_of_its_other_cases_forms_and_widths(one: str) -> None:
    for other in (one.upper(), one.lower(), one.casefold(), one.swapcase(), one + "  "):
        assert fold(other) == fold(one)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert fold(unicodedata.normalize(form, one)) == fold(one)
    bare = "".join(letter for letter in unicodedata.normalize("NFD", one) if unicodedata.category(letter) != "Mn" or fold(letter))
    assert fold(bare) == fold(one)
    assert set(fold(one)) <= set(KEPT)


@given(text, text)
def test_the_fold_of_a_text_is_that_of_its_parts(one: str, other: str) -> None:
    """So that equal letters make equal texts. A normal form may join letters of both parts, and has the same fold."""
    assert fold(one + other) == fold(one) + fold(other)


@given(numbers)
def test_a_number_has_the_fold_of_every_form_of_it(number: int | Decimal) -> None:
    exact = Decimal(number)
    forms = [exact, exact * Decimal("1.000"), f"{exact:f}", f"{exact:f}{'' if '.' in f'{exact:f}' else '.'}00"]
    if exact == exact.to_integral_value():
        forms.append(int(exact))
    if abs(exact) < 2**53 and Decimal(repr(float(exact))) == exact:
        forms.append(float(exact))
    assert {fold(one) for one in forms} == {fold(number)}
    assert {alike(one) for one in forms} == {alike(number)}


def test_types_that_share_a_column_share_the_fold() -> None:
    uuid = UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    for some in (
        (1, True, 1.0, "1", "01", Decimal("1.00"), {"$numberLong": "1"}),
        (0, False, 0.0, -0.0, "0", None, ""),
        (10**22, 1e22, Decimal("1e22"), str(10**22)),
        ({"$oid": "65a1b2c3d4e5f60718293a4b"}, "65a1b2c3d4e5f60718293a4b", "65A1B2C3D4E5F60718293A4B"),
        ({"$uuid": str(uuid)}, str(uuid), f"{{{str(uuid).upper()}}}", uuid.hex),
        ({"$date": "2020-01-02T03:04:05.000Z"}, {"$date": "2020-01-02T04:04:05+01:00"}, "2020-01-02 03:04:05"),
        (values.extended(datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)), {"$date": {"$numberLong": "1577934245000"}}),
        (values.extended(b"Key"), values.extended(b"Key\0\0"), "key"),
        ({"a": 1, "B": "x"}, {"b": "X", "A": 1.0}),
        (["a", 1.10], ["A", Decimal("1.1")]),
    ):
        assert len({id_hash(one) for one in some}) == 1, some
    assert fold(values.extended(b"\xff\x00\x01")) != fold(values.extended(b"\xff\x00\x02"))
    assert id_hash("\ud800") == id_hash("")  # half a letter, as JSON can have it


def test_hashes_do_not_change_with_the_version() -> None:
    """They are stored with the messages."""
    assert [id_hash(one) for one in (7, "Key-120", ["a", 2], None)] == [1790921346, 3041504225, 1146375649, 0]


@pytest.mark.parametrize(
    "ids",
    [
        list(range(1, 4001)),
        [f"{n:08x}" for n in range(0, 4000 * 7919, 7919)],
        [f"customer{n}@example.com" for n in range(4000)],
        [{"$binary": {"base64": values.extended(n.to_bytes(4, "big"))["$binary"]["base64"], "subType": "00"}} for n in range(4000)],
    ],
    ids=["numbers", "hex", "addresses", "bytes"],
)
def test_usual_ids_spread_over_the_tasks(ids: list[object]) -> None:
    shares = Counter(id_hash(one) % 4 for one in ids)
    assert min(shares[bucket] for bucket in range(4)) > 0.15 * len(ids)


@given(st.lists(st.tuples(plain, plain), max_size=30), st.permutations(range(3)))
def test_shares_in_any_order_leave_what_the_whole_leaves(changes: list[tuple[str, str]], order: list[int]) -> None:
    """Keys that change, change on and come back, at a sink for which case, accents and blanks make no difference."""

    def same(one: str) -> str:
        bare = (letter for letter in unicodedata.normalize("NFKD", one.casefold()) if not unicodedata.combining(letter))
        return "".join(bare).rstrip()

    messages = [step for old, new in changes for step in (("delete", old), ("insert", new))]

    def delivered(steps: list[tuple[str, str]], rows: dict[str, str]) -> dict[str, str]:
        for op, one in steps:
            rows.pop(same(one), None)
            if op == "insert":
                rows[same(one)] = one
        return rows

    shared: dict[str, str] = {}
    for bucket in order:
        delivered([step for step in messages if id_hash(step[1]) % 3 == bucket], shared)
    assert shared == delivered(messages, {})


def test_ids_that_are_alike() -> None:
    assert alike({"a": 1, "b": [1.0]}) == alike({"b": [1], "a": 1.0}) != alike({"a": 1, "b": [2]})
    assert hash(alike({"a": {"b": [1, None]}})) == hash(alike({"a": {"b": [Decimal("1.0"), None]}}))
    assert len({alike(one) for one in ("Key", "KEY ", "kéy", "key")}) == 1
    assert len({alike(one) for one in (7, 7.0, Decimal("7.00"), "7", " 7.0", True + 6)}) == 1
    assert len({alike(one) for one in (15, 105, "15a", "1.05", None, "")}) == 6
    assert alike(["a", 1]) == alike(["A", Decimal("1.0")]) != alike(["a", 2])
    assert alike({"$date": "2020-01-02T03:04:05.000Z"}) == alike({"$date": "2020-01-02T04:04:05+01:00"})
    assert alike({"b": 1, "a": 2}) == alike({"a": 2, "b": 1})
    assert alike(float("nan")) == alike({"$numberDouble": "NaN"})
