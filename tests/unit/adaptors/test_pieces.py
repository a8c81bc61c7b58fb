"""Pieces and portions by size."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.adaptors.pieces import PieceBuffer, decoded, names_size, portions
from headwater.pipeline.message import Message


def test_a_buffer_is_full_by_the_bytes_of_documents_or_by_the_sizes_of_messages() -> None:
    documents, messages = PieceBuffer(10), PieceBuffer(10)
    for text in (b"12345", b"6789"):
        assert not documents.exceeded_by(5)
        documents.add(text, "no JSON" if text == b"6789" else "")
        messages.add(Message("x", {}), size=len(text))
    assert (documents.full, documents.exceeded_by(1), documents.exceeded_by(2)) == (False, False, True)
    piece = documents.piece(7, amount=3)
    assert (piece.values, piece.bad, piece.position, piece.amount) == ([b"12345", b"6789"], {1: "no JSON"}, 7, 3)
    assert not documents
    messages.add(Message("x", {}), size=1)
    assert messages.full
    assert len(messages.piece(None).messages) == 3
    assert messages.piece(None).messages == []


def test_messages_without_a_value_fill_a_piece_too() -> None:
    """Each is a record of the log, with a key and headers."""
    gathered, count = PieceBuffer(1000), 0
    while not gathered.full:
        gathered.add(Message("topic", {}))
        count += 1
    assert 5 < count < 20


def test_the_names_of_a_message_count() -> None:
    short, long = Message("t", {"a": None}), Message("t", {"a" * 50: None})
    assert names_size(long) - names_size(short) == 49


def test_an_empty_buffer_takes_a_document_of_any_size() -> None:
    assert not PieceBuffer(10).exceeded_by(1000)


@given(st.lists(st.binary(max_size=8)), st.integers(min_value=1, max_value=12))
def test_portions_keep_the_order_and_are_as_large_as_they_may_be(items: list[bytes], most: int) -> None:
    found = list(portions(items, len, most))
    assert [one for portion in found for one in portion] == items
    assert all(portion for portion in found)
    assert all(len(portion) == 1 or sum(map(len, portion)) <= most for portion in found)
    assert all(sum(map(len, one)) + len(after[0]) > most for one, after in pairwise(found))


def test_a_value_that_is_no_object_is_kept_as_text() -> None:
    assert decoded(b'{"n":1}') == ({"n": 1}, "")
    data, wrong = decoded(b"\xff[1]", "body")
    assert data == {"body": "\\xff[1]"}
    assert wrong
