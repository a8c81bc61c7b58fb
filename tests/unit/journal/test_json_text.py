"""JSON that users give."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.journal.json_text import DEEPEST, check_json, json_problem

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.booleans())
def test_json_is_kept_as_it_is_written(value: object, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode()
    assert check_json(b" \n" + text + b"\t", "payload") == text


@pytest.mark.parametrize(
    "text", [b"", b" ", b"{", b"1 2", b'1},{"seqNr":7', b"nul", b"NaN", b"[1,]", b'{"a":"\xff"}', b"\xef\xbb\xbf1", b"'a'"]
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(BadInput, match="The payload is no JSON that a journal keeps"):
        check_json(text, "payload")


def test_json_may_be_nested_so_deep_and_no_deeper() -> None:
    assert not json_problem(b"[" * DEEPEST + b"]" * DEEPEST)
    assert json_problem(b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1)) == "it is nested deeper than 256"
    assert json_problem(b"[" * 100_000)
    many = b"[" + b",".join([b'{"a":"[[[["}'] * 1000) + b"]"
    assert not json_problem(many)  # many brackets, none of them deep
