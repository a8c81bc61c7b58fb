"""Notes in the offset log which source or sinks a run cannot reach, for the status that another process shows.

A run that waits for one of them moves nothing and fails nothing. Without the note it would look busy, for hours.
"""

from __future__ import annotations

from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Outage
from headwater.pipeline.running.context import Activity, LoopState


class Outages:
    """Follows each loop's state. Writes when one becomes unreachable, has another reason, or is reached again."""

    def __init__(self, control: Control, epoch: int) -> None:
        self._control, self._epoch = control, epoch
        self._noted: dict[str, Outage] = {}

    def hear(self, name: str, state: LoopState, position: int, at: int) -> None:
        """Take the state and position of a sink, or of the `SOURCE`, `at` milliseconds since 1970. Errors: those of the offset log."""
        known = self._noted.get(name)
        if state.unreachable:
            if known is None or known.message != state.unreachable:
                since = at if known is None else known.since
                self._note(name, Outage(epoch=self._epoch, message=state.unreachable, position=position, since=since))
        elif known is not None and (state.activity is not Activity.DELIVERING or position > known.position):
            self._note(name, None)  # a loop that delivers and does not move is at its next try

    def _note(self, name: str, outage: Outage | None) -> None:
        self._control.change_run(self._epoch, lambda run: [(f"trouble/{name}", outage)])
        if outage is None:
            self._noted.pop(name, None)
        else:
            self._noted[name] = outage
