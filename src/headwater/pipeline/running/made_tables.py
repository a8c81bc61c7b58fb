"""The tables of a database that a sink has made or found: once they were there, they must stay, or what they held is missing."""

from __future__ import annotations

import msgspec

from headwater.core.clock import Clock
from headwater.pipeline.columns import Tables
from headwater.pipeline.definition import Sink
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Change, State

_OFTEN = 1.0  # seconds until the next question for tables that are decided and not there, doubled each time
_SELDOM = 60.0


class MadeTables:
    """The tables of one sink, as they are decided in the offset log. A sink would make one anew that somebody has dropped, with the next
    messages alone in it."""

    def __init__(self, control: Control, sink: Sink, clock: Clock) -> None:
        self._control, self._sink, self._clock = control, sink, clock
        self._next = self._every = 0.0

    def lacking(self) -> list[str]:
        """The tables that were there and are not. Errors: as `SinkAdaptor.tables_among`."""
        adaptor = self._sink.adaptor
        # By another option, no message goes to the table of the old name any more.
        made = [place for place, table in self._decided().items() if table.made and adaptor.place(place) == place]
        existing = adaptor.tables_among(made) if made else None
        return [] if existing is None else [place for place in made if place not in existing]

    def without_key(self) -> list[str]:
        """The tables into which a message that comes again goes a second time."""
        return [place for place, table in self._decided().items() if table.made and not table.key]

    def note(self, *, now: bool = False) -> None:
        """Write which tables have come to be there, at intervals or `now`. Errors: as `SinkAdaptor.tables_among`."""
        places = {place for place, table in self._decided().items() if not table.made}
        if places and (now or self._clock.monotonic() >= self._next):
            self._write(places)
            self._every = min(_SELDOM, max(_OFTEN, 2 * self._every))
            self._next = self._clock.monotonic() + self._every

    def take_as_they_are(self) -> None:
        """An operator has moved the sink: the tables that are there now are all that must stay. Errors: as `note`."""
        self._write(set(self._decided()))

    def _decided(self) -> Tables:
        decision = self._control.state.columns.get(self._sink.name)
        return {} if decision is None else decision.tables

    def _write(self, places: set[str]) -> None:
        existing = self._sink.adaptor.tables_among(places) if places else None
        if existing is None:
            return

        def decide(state: State) -> list[Change]:
            known = state.columns.get(self._sink.name)
            if known is None:
                return []
            tables = {
                place: msgspec.structs.replace(table, made=place in existing) if place in places else table
                for place, table in known.tables.items()
            }
            return [] if tables == known.tables else [(f"columns/{self._sink.name}", msgspec.structs.replace(known, tables=tables))]

        self._control.change(decide)
