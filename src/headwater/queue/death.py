"""The end of a row that the queue has given up."""

from __future__ import annotations

from typing import NamedTuple

from headwater.queue.sized_dict import text_size

_NUMBERS = 41  # bytes of a death beside its texts


class Death(NamedTuple):
    """Why a row is dead."""

    slot: int
    reason: int
    date: int
    error: str
    worker: str
    told: bool = False
    """The address of the setting `on_dead` knows of it."""
    position: int = 0
    """The sequence of the record by which it died."""


def death_size(death: Death) -> int:
    """About how many bytes a record has of it."""
    return _NUMBERS + text_size(death.error) + text_size(death.worker)
