"""An answer that is kept under the name of its put."""

from __future__ import annotations

from typing import NamedTuple


class Answered(NamedTuple):
    """What was answered to a put that has a name of its own, until `expires`."""

    expires: int
    digest: bytes
    puts: list[tuple[int, int, int, int]]
    home: int
