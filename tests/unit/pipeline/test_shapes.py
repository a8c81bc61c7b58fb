"""Documents taken apart into columns: the same values as one by one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.pipeline import values
from headwater.pipeline.shapes import MOST, DocumentShape, shape_of

_SCALARS: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3))
_DOCUMENTS = st.lists(st.dictionaries(st.text(max_size=4), _VALUES, max_size=5), max_size=8)


@given(_DOCUMENTS)
def test_columns_hold_what_decoding_gives(documents: list[dict[str, Any]]) -> None:
    texts = [values.store(one) for one in documents]
    shape = shape_of(documents)
    names = "".join(name for one in documents for name in one)
    if shape is None:
        assert not any(documents) or '"' in names or "\\" in names or min(names) < " "
        return
    columns = shape.columns(texts)
    decoded = [values.decode(one) for one in texts]
    assert repr(columns) == repr({name: [one.get(name) for one in decoded] for name in shape.names})
    assert list(columns or ()) == list(dict.fromkeys(name for one in documents for name in one))


def test_numbers_stay_exact() -> None:
    columns = DocumentShape(["a"]).columns([b'{"a":1.10}', b'{"a":12345678901234567890}', b'{"a":0.5}', b'{"a":{"$numberDouble":"0.5"}}'])
    assert repr(columns) == repr({"a": [Decimal("1.10"), 12345678901234567890, Decimal("0.5"), 0.5]})
    assert DocumentShape(["a"]).columns([rb'{"\u0061":"\n","a":2}']) == {"a": [2]}


@pytest.mark.parametrize("text", [b'{"a":1,"b":2}', b"[]", b"{", b'{"a":"\xff"}', b'{"a":1e99999999999999999999}', b'{"a":' + b"[" * 5000])
def test_what_does_not_fit_is_nobodys(text: bytes) -> None:
    assert DocumentShape(["a"]).columns([b'{"a":1}', text]) is None


def test_known_fields_come_first_and_many_are_too_many() -> None:
    found = shape_of([{"c": 1, "a": 2}], known=["a", "b"])
    assert found is not None
    assert found.names == ("a", "b", "c")
    assert shape_of([{str(n): n for n in range(MOST + 1)}]) is None
    assert shape_of([{}]) is None
