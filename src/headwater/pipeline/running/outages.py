"""A source or sinks that a run cannot reach, noted in the offset log: whoever asks for the status elsewhere has no other way to know of it.

A run that waits for one of them moves nothing and fails nothing. Without the note it would look as if it were busy, for hours.
"""

from __future__ import annotations

from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Change, Outage, State
from headwater.pipeline.running.context import Activity, LoopState


class Outages:
    """Hears of each loop's state. Writes only when one comes to be unreachable, for another reason, or is reached again."""

    def __init__(self, control: Control, epoch: int) -> None:
        self._control, self._epoch = control, epoch
        self._noted: dict[str, Outage] = {}

    def hear(self, name: str, state: LoopState, position: int, at: int) -> None:
        """What a sink does, or the `SOURCE`, and how far it is, `at` so many milliseconds since 1970. Errors: those of the offset log."""
        known = self._noted.get(name)
        if state.unreachable:
            if known is None or known.message != state.unreachable:
                since = at if known is None else known.since
                self._note(name, Outage(epoch=self._epoch, message=state.unreachable, position=position, since=since))
        elif known is not None and (state.activity is not Activity.DELIVERING or position > known.position):
            self._note(name, None)  # between two tries it only seems to deliver

    def _note(self, name: str, outage: Outage | None) -> None:
        def decide(state: State) -> list[Change]:
            ours = state.run is not None and state.run.epoch == self._epoch
            return [(f"trouble/{name}", outage)] if ours else []

        self._control.change(decide)
        if outage is None:
            self._noted.pop(name, None)
        else:
            self._noted[name] = outage
