"""How large the pieces are that a source gives: as its adaptor has them, or smaller where the pipeline's log may hold little."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LEAST = 64 << 10
_most: ContextVar[int] = ContextVar("most", default=sys.maxsize)


def piece_size(usual: int) -> int:
    """The bytes after which an adaptor ends a piece that would have `usual` ones. A single document may have more."""
    return min(usual, _most.get())


@contextmanager
def pieces_up_to(most: int | None) -> Iterator[None]:
    """Around a call that reads a piece: none is larger than so many bytes, or `LEAST` where that is more. None: as they are."""
    token = _most.set(sys.maxsize if most is None else max(LEAST, most))
    try:
        yield
    finally:
        _most.reset(token)
