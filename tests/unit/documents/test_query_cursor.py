"""Cursors of queries."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.documents.query_cursor import decode_cursor, encode_cursor


def test_a_cursor_gives_its_key_back() -> None:
    cursor = encode_cursor("a~", "b > 1", "-b", b"\x20x\0\0")
    assert decode_cursor("a~", " b > 1 ", "-b", cursor) == b"\x20x\0\0"
    assert cursor.isascii()
    assert not set(cursor) & set("+/= ")


@pytest.mark.parametrize("other", [("c~", "b > 1", "-b"), ("a~", "b > 2", "-b"), ("a~", "b > 1", "b")])
def test_it_belongs_to_its_query(other: tuple[str, str, str]) -> None:
    cursor = encode_cursor("a~", "b > 1", "-b", b"\x20x\0\0")
    with pytest.raises(BadInput, match="another query"):
        decode_cursor(*other, cursor)


@pytest.mark.parametrize("cursor", ["", "A", "AAAA", "!!!!", "é", "a" * 9, "A" * 1000])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput, match="cursor"):
        decode_cursor("a~", "", "", cursor)
