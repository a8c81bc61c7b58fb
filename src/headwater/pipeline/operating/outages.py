"""A source or sinks that a run cannot reach, noted in the offset log: whoever asks for the status elsewhere has no other way to know of it.

A run that waits for one of them moves nothing and fails nothing. Without the note it would look as if it were busy, for hours.
"""

from __future__ import annotations

from headwater.core.clock import Clock, SystemClock
from headwater.log import Log
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import SOURCE, Change, Outage, State
from headwater.pipeline.running.context import Activity
from headwater.pipeline.running.events import Event


class Outages:
    """Listens to a run. Writes only when one of them comes to be unreachable, for another reason, or is reached again."""

    def __init__(self, log: Log, pipeline: str, *, clock: Clock | None = None) -> None:
        self._log, self._pipeline, self._clock = log, pipeline, clock or SystemClock()
        self._control: Control | None = None
        self._epoch = 0
        self._noted: dict[str, Outage] = {}

    def __call__(self, event: Event) -> None:
        if event.kind == "boot":
            self._control = Control(self._log, self._pipeline, self._clock)
            self._epoch = self._control.state.run.epoch if self._control.state.run is not None else 0
        elif event.kind == "metrics":
            of_source = "phase" in event.details
            self._hear(SOURCE if of_source else event.path.rpartition("/")[2], event, event.details["records" if of_source else "position"])

    def _hear(self, name: str, event: Event, position: int) -> None:
        known, message = self._noted.get(name), event.details.get("unreachable")
        tries = event.details.get("state") == Activity.DELIVERING  # between two tries of a sink it seems to deliver
        if message is not None:
            if known is None or known.message != message:
                since = event.at if known is None else known.since
                self._note(name, Outage(epoch=self._epoch, message=message, position=position, since=since))
        elif known is not None and (not tries or position > known.position):
            self._note(name, None)

    def _note(self, sink: str, outage: Outage | None) -> None:
        assert self._control is not None

        def decide(state: State) -> list[Change]:
            ours = state.run is not None and state.run.epoch == self._epoch
            return [(f"trouble/{sink}", outage)] if ours else []

        self._control.change(decide)
        if outage is None:
            self._noted.pop(sink, None)
        else:
            self._noted[sink] = outage
