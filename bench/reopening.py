"""Opening a partition whose writer was killed at work."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.place import TOPIC, Place, columns, records
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.log.embedded.log import EmbeddedLog

_MARK = mark.time(1.0, "< 1 s whatever the size")
_PER_BATCH = 1000


def reopen(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """From opening to the first acknowledged append, with a small and with a large log, against opening it after a clean close."""
    for name, count in (("small", sizes.load), ("large", sizes.large)):
        with place.filled(count, per_batch=50_000) as folder:
            kills: list[int] = []
            yield Case(
                f"reopen after kill -9, {name} log",
                "open",
                Side("after kill -9", partial(_after_kill, folder, sizes.load, kills)),
                Side("after a clean close", partial(_open, folder, 0)),
                _MARK,
                shown="time",
                rounds=sizes.few,
                notes={"records at first": count, "acknowledged before each kill": kills},
            )


def _after_kill(folder: Path, load: int, kills: list[int]) -> Sample:
    """Let a process append as fast as it can, kill it, and time the next opening. What it had been promised must be there."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    writer = context.Process(target=_write, args=(folder, theirs), daemon=True)
    writer.start()
    theirs.close()
    acknowledged = begun = 0
    try:
        while acknowledged - begun < load:
            acknowledged = ours.recv()
            begun = begun or acknowledged
    finally:
        writer.kill()
        writer.join()
    try:
        while ours.poll():
            acknowledged = ours.recv()
    except EOFError:
        pass
    kills.append(acknowledged)
    return _open(folder, acknowledged)


def _write(folder: Path, pipe: Connection) -> None:
    rows = columns(0, _PER_BATCH)
    with EmbeddedLog(folder) as log:
        while True:
            pipe.send(log.append_arrow(TOPIC, 0, rows)[-1] + 1)


def _open(folder: Path, acknowledged: int) -> Sample:
    one_record = records(1)
    begun = time.perf_counter()
    with EmbeddedLog(folder) as log:
        first = log.append(TOPIC, 0, one_record)[0]
        seconds = time.perf_counter() - begun
    if first < acknowledged:
        raise Differs(f"Offset {first} was given again after {acknowledged} records had been acknowledged.", hint="Keep the folder.")
    return Sample(1, seconds)
