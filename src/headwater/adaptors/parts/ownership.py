"""Whose a place is: the sink of a pipeline that writes there, and its newest run. An older run, and any other sink, is refused."""

from __future__ import annotations

import msgspec

from headwater.adaptors.parts.store import PartStore
from headwater.core.errors import Conflict, Fenced


class Owner(msgspec.Struct, frozen=True):
    """Whose a place is, and the newest run that has written to it."""

    pipeline: str  # with the generation of its log behind a #
    sink: str
    epoch: int = 0


class PartsOwnership:
    """The note at a place that says whose it is."""

    def __init__(self, store: PartStore, note: str, pipeline: str, sink: str) -> None:
        self._store, self._note, self._pipeline, self._sink = store, note, pipeline, sink

    def found(self) -> Owner | None:
        data = self._store.read(self._note)
        return None if data is None else msgspec.json.decode(data, type=Owner)

    def former_log(self) -> str | None:
        """The log that the same sink wrote here from, where that was another one, deleted since: its offsets mean other messages."""
        owner = self.found()
        if owner is None or owner.pipeline == self._pipeline:
            return None
        name, _, log = owner.pipeline.partition("#")
        return log if (name, owner.sink) == (self._pipeline.partition("#")[0], self._sink) else None

    def take(self, epoch: int) -> None:
        """Write down that this run is the newest. Errors: `Conflict` where the place is another sink's; `Fenced` for an older run."""
        owner, mine = self.found(), Owner(self._pipeline, self._sink, epoch)
        if owner is not None and (owner.pipeline, owner.sink) != (self._pipeline, self._sink) and self.former_log() is None:
            raise Conflict(
                f"{self._store.where} belongs to sink {owner.sink} of pipeline {owner.pipeline}.",
                hint="Give every sink its own place.",
            )
        if owner is not None and owner.pipeline == self._pipeline and owner.epoch > epoch:
            raise self._fenced()
        try:
            self._store.replace(self._note, msgspec.json.encode(mine) + b"\n")
        except Conflict:  # or it is we who were first: a request whose answer was lost is sent again by the client
            if self.found() != mine:
                raise self._fenced() from None

    def check(self, epoch: int) -> None:
        """Errors: `Fenced` where a newer run, or one of another log, writes here by now."""
        owner = self.found()
        if owner is not None and (owner.epoch > epoch or owner.pipeline != self._pipeline):
            raise self._fenced()

    def _fenced(self) -> Fenced:
        return Fenced(f"A newer run writes to {self._store.where}.", hint="See `headwater pipeline status`.")
