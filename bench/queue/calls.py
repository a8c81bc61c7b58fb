"""Puts, claims and finished rows in one process, beside the group commit of the bare log with as many callers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from bench import mark
from bench.case import Case, Side
from bench.place import Place
from bench.queue.opened import Rounds
from bench.sizes import Sizes

_WORKERS = (16, 64)
_EACH = 40  # calls of each worker in a round: short rounds see the same moods of the disk on both sides
_BATCH = 100
_LEAST = {"put": 0.7, "claim, then done": 0.35, "done with the next claim": 0.6}
_RATE = mark.rate(20_000, "≥ 20 k rows/s")
_BATCH_RATE = mark.rate(100_000, "≥ 100 k rows/s")


def calls(place: Place, sizes: Sizes) -> Iterator[Case]:
    """n workers, each waiting for each of its calls; elapsed, and in processor time of the whole process. Then batches."""
    with place.log("queue") as log, Rounds.opened(log) as rounds:
        ways = {"put": rounds.puts, "claim, then done": rounds.claims_and_dones, "done with the next claim": rounds.dones_with_claims}
        for workers in _WORKERS:
            for what, way in ways.items():
                least = mark.ratio(_LEAST[what])
                for name, clock in (("", time.perf_counter), (", processor time", time.process_time)):
                    elapsed = clock is time.perf_counter
                    yield Case(
                        f"queue {what}, {workers} workers{name}",
                        "row",
                        Side("queue", partial(way, workers, _EACH, clock)),
                        Side("group commit", partial(rounds.bare, workers, _EACH, clock)),
                        mark.both(least, _RATE) if elapsed and workers == _WORKERS[-1] else least,
                        shown="rate" if elapsed else "time",
                        rounds=sizes.turns,
                    )
        for what, way in ways.items():
            yield Case(
                f"queue {what}, {_WORKERS[-1]} workers, {_BATCH} at once",
                "row",
                Side("queue", partial(way, _WORKERS[-1], 2, batch=_BATCH)),
                Side("one at a time", partial(way, _WORKERS[-1], _EACH)),
                _BATCH_RATE,
                rounds=sizes.few,
            )
