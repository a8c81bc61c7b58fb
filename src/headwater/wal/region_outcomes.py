"""What calls of an open region have done."""

from __future__ import annotations

import msgspec


class TableMark(msgspec.Struct, frozen=True):
    """What `mark_delete_up_to` has done: everything up to `sequence` is flushed. `clamped`: more was asked for than was written."""

    sequence: int
    clamped: bool = False


class Cleaned(msgspec.Struct, frozen=True):
    """What a clean has done: the log begins at `start` now, and has `removed` fewer offsets."""

    start: int
    removed: int
