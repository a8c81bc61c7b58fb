"""Servers of one test's own, which it may kill: in a run folder of their own, gone with the test."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec

from tools.services import down, up
from tools.services.place import Place, Say, say_on_stderr
from tools.services.process import Process, current
from tools.services.running import Running


class PrivateServers:
    """`up` as usual, but nobody else sees these servers. `close` stops them and removes their data."""

    def __init__(self, *, place: Place | None = None, say: Say = say_on_stderr) -> None:
        above = _above(place or Place.usual())
        above.mkdir(parents=True, exist_ok=True)
        self.run = Path(tempfile.mkdtemp(dir=above))
        (self.run / "owner").write_bytes(msgspec.json.encode(current()))
        self._say = say

    def up(self, *kinds: str, brokers: int = 1) -> Running:
        return up(*kinds, brokers=brokers, run=self.run, kept=False, quick=True, say=self._say)

    def close(self) -> None:
        down(run=self.run, clear=True, say=self._say)
        shutil.rmtree(self.run, ignore_errors=True)


def sweep(place: Place | None = None, say: Say = say_on_stderr) -> int:
    """Stop and remove the private servers of processes that died before they could. Returns how many folders went."""
    gone = 0
    for owner in _above(place or Place.usual()).glob("*/owner"):
        try:
            alive = msgspec.json.decode(owner.read_bytes(), type=Process).alive()
        except (FileNotFoundError, msgspec.DecodeError):
            continue  # just coming, or just going
        if not alive:
            down(run=owner.parent, clear=True, say=say)
            shutil.rmtree(owner.parent, ignore_errors=True)
            gone += 1
    return gone


def _above(place: Place) -> Path:
    return place.run / "private"
