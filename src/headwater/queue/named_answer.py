"""An answer that is kept under the name of its put."""

from __future__ import annotations

from typing import NamedTuple

from headwater.queue.records import ANSWER_SIZE, PUT_SIZE


class Answered(NamedTuple):
    """What was answered to a put that has a name of its own, until `expires`."""

    expires: int
    digest: bytes
    puts: list[tuple[int, int, int, int]]
    home: int


def answer_size(puts: int) -> int:
    """The bytes of an answer to so many puts, in a record, beside its name."""
    return ANSWER_SIZE + PUT_SIZE * puts
