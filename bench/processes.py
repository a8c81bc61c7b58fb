"""Several processes appending to one partition at once."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from bench.case import Case, Sample, Side, Skipped
from bench.floor import BareWrites
from bench.place import TOPIC, Place, encoded, records
from bench.sizes import Sizes
from headwater.log.embedded.log import EmbeddedLog

_PER_SYNC = 100
What = Literal["ours", "floor"]


def processes(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """1, 2 and 4 processes, 100 records per sync, against as many that write ready bytes to one file and sync it."""
    for count in (1, 2, 4):
        with place.log("processes") as log, _Team.started(count, log.data) as team:
            case = Case(
                f"processes {count}",
                "record",
                Side("log.append 100", partial(team.round, "ours", sizes.batches)),
                Side("os.write + fdatasync", partial(team.round, "floor", sizes.batches)),
            )
            yield case
            case.notes["slowest to fastest process"] = team.fairness


class _Team:
    """Processes that wait for the word and do a round together."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes
        self.fairness: list[float] = []

    @classmethod
    @contextmanager
    def started(cls, count: int, folder: Path) -> Iterator[_Team]:
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(count)]
        members = [context.Process(target=_member, args=(folder, theirs), daemon=True) for _, theirs in pairs]
        for member in members:
            member.start()
        try:
            for ours, _ in pairs:
                ours.recv()
            yield cls([ours for ours, _ in pairs])
            for ours, _ in pairs:
                ours.send(None)
            for member in members:
                member.join()
        finally:
            for member in members:
                if member.is_alive():
                    member.kill()
                    member.join()

    def round(self, what: What, count: int) -> Sample:
        """From the first's start to the last's end; their clock is the machine's."""
        for pipe in self._pipes:
            pipe.send((what, count))
        spans = [pipe.recv() for pipe in self._pipes]
        if what == "ours":
            times = [end - begun for begun, end in spans]
            self.fairness.append(round(min(times) / max(times), 3))
        return Sample(count * _PER_SYNC * len(spans), max(end for _, end in spans) - min(begun for begun, _ in spans))


def _member(folder: Path, pipe: Connection) -> None:
    batch = records(_PER_SYNC)
    with EmbeddedLog(folder) as log, BareWrites(folder / "bare", encoded(_PER_SYNC)) as bare:
        log.append(TOPIC, 0, batch)  # opens the partition
        pipe.send("ready")
        while asked := pipe.recv():
            what, count = asked
            begun = time.perf_counter()
            if what == "ours":
                for _ in range(count):
                    log.append(TOPIC, 0, batch)
            else:
                bare.round(count)
            pipe.send((begun, time.perf_counter()))
