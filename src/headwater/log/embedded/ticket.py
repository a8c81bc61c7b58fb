"""The question of a guarded append, and the ticket of a batch until its sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headwater.log.embedded.page import SegmentPosition
from headwater.log.embedded.segment import OpenSegment

Question = Callable[[SegmentPosition], Exception | None]
"""Asked under the partition's lock before a batch is written at this place. The answer is why it must not be, or None."""


class Ticket(NamedTuple):
    """A batch that is written and not yet synced."""

    file: OpenSegment
    first: int
    tail: SegmentPosition  # the end of the own batch
    failures: int
    epoch: int | None
