"""The owner of a folder or prefix: one sink of one pipeline, and its newest run. Older runs and other sinks are refused."""

from __future__ import annotations

import msgspec

from headwater.adaptors.parts.store import PartStore
from headwater.core.errors import Conflict, Fenced


class Owner(msgspec.Struct, frozen=True):
    """The owner, and the epoch of its newest run."""

    pipeline: str  # NAME#GENERATION of its log
    sink: str
    epoch: int = 0


class PartsOwnership:
    """The file that names the owner."""

    def __init__(self, store: PartStore, note: str, pipeline: str, sink: str) -> None:
        self._store, self._note, self._pipeline, self._sink = store, note, pipeline, sink

    def found(self) -> Owner | None:
        data = self._store.read(self._note)
        return None if data is None else msgspec.json.decode(data, type=Owner)

    def former_log(self) -> str | None:
        """The generation of the same sink's former log, which was deleted since: its offsets mean other messages. None without one."""
        owner = self.found()
        if owner is None or owner.pipeline == self._pipeline:
            return None
        name, _, log = owner.pipeline.partition("#")
        return log if (name, owner.sink) == (self._pipeline.partition("#")[0], self._sink) else None

    def take(self, epoch: int) -> None:
        """Store this run as the newest. Errors: `Conflict` where another sink is the owner; `Fenced` for an older run."""
        owner, mine = self.found(), Owner(self._pipeline, self._sink, epoch)
        if owner is not None and (owner.pipeline, owner.sink) != (self._pipeline, self._sink) and self.former_log() is None:
            raise Conflict(
                f"{self._store.where} belongs to sink {owner.sink} of pipeline {owner.pipeline}.",
                hint="Give every sink a folder of its own.",
            )
        if owner is not None and owner.pipeline == self._pipeline and owner.epoch > epoch:
            raise self._fenced()
        try:
            self._store.replace(self._note, msgspec.json.encode(mine) + b"\n")
        except Conflict:  # it may be our own write: the client repeats a request whose response was lost
            if self.found() != mine:
                raise self._fenced() from None

    def check(self, epoch: int) -> None:
        """Errors: `Fenced` where a newer run, or a run of another log, is the owner now."""
        owner = self.found()
        if owner is not None and (owner.epoch > epoch or owner.pipeline != self._pipeline):
            raise self._fenced()

    def _fenced(self) -> Fenced:
        return Fenced(f"A newer run writes to {self._store.where}.", hint="See `headwater pipeline status`.")
