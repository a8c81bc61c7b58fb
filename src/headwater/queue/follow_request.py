"""The request of those who listen to a queue."""

from __future__ import annotations

from typing import Annotated

from headwater.queue.requests import QueueRequest
from headwater.wire.operation import described, placed

EVENT_ID = "^[0-9]{1,18}$"


class FollowQueue(QueueRequest, frozen=True, kw_only=True):
    """Where to go on."""

    after: Annotated[
        int | None,
        described(
            "The id of the last event that was seen: rows that died since, and are dead still, are told first.",
            least=0,
        ),
    ] = None
    last_event: Annotated[
        str | None, placed("header", "The id of the last event that was seen. Outranks `after`.", pattern=EVENT_ID, name="Last-Event-ID")
    ] = None

    @property
    def last(self) -> int | None:
        """The id of the last event that was seen; None: what comes from now on is asked for."""
        return self.after if self.last_event is None else int(self.last_event)
