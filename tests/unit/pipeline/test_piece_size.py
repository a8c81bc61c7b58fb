"""The size of pieces."""

from __future__ import annotations

from headwater.adaptors.pieces import PieceBuffer
from headwater.pipeline.piece_size import LEAST, piece_size, pieces_up_to


def test_pieces_are_as_usual_but_for_a_log_that_may_hold_little() -> None:
    assert piece_size(8 << 20) == 8 << 20
    with pieces_up_to(1 << 20):
        assert piece_size(8 << 20) == 1 << 20
        assert piece_size(1000) == 1000
    with pieces_up_to(1):
        assert piece_size(8 << 20) == LEAST
    with pieces_up_to(None):
        assert piece_size(8 << 20) == 8 << 20


def test_a_buffer_is_full_by_then() -> None:
    with pieces_up_to(LEAST):
        buffer = PieceBuffer(8 << 20)
    buffer.add(b"x" * LEAST)
    assert buffer.full
