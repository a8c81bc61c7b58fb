"""The end of a row that the queue has given up."""

from __future__ import annotations

from typing import NamedTuple


class Death(NamedTuple):
    """Why a row is dead."""

    slot: int
    reason: int
    date: int
    error: str
    worker: str
    told: bool = False
    """The address of the setting `on_dead` knows of it."""
