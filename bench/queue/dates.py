"""Rows with dates: how soon a waiting claim gets its row, and what rows that are not due cost the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from bench import mark
from bench.case import Case, Sample, Side
from bench.place import Place
from bench.queue.opened import Rounds, new_rows
from bench.sizes import Sizes
from headwater.core.errors import Differs

_CLAIMERS = 16
_APART = 3  # milliseconds between the dates of two rows
_AHEAD = 100  # milliseconds from the put to the first date
_SHARE = 0.99
_WORKERS, _EACH = 64, 40
_YEAR = 365 * 86_400_000


def dates(place: Place, sizes: Sizes) -> Iterator[Case]:
    """Both in one process."""
    with place.log("dates") as log, Rounds.opened(log) as rounds:
        yield Case(
            "queue, from its date to a waiting claim, p99",
            "row",
            Side("claim(wait=…)", partial(_claimed, rounds, sizes.delays)),
            Side("a bare timer of the loop", partial(_rung, sizes.delays)),
            mark.time(0.005, "≤ 5 ms, never before"),
            shown="time",
            rounds=sizes.few,
        )
    with place.log("future") as log, place.log("none") as other, Rounds.opened(log) as crowded, Rounds.opened(other) as empty:
        crowded.fill(sizes.future, process_date=time.time_ns() // 1_000_000 + _YEAR)
        yield Case(
            f"queue claim, then done, beside {sizes.future:,} future rows",
            "row",
            Side("with them", partial(crowded.claims_and_dones, _WORKERS, _EACH)),
            Side("without", partial(empty.claims_and_dones, _WORKERS, _EACH)),
            mark.slowdown(1.2),
            shown="time",
            rounds=sizes.turns,
        )


def _claimed(rounds: Rounds, count: int) -> Sample:
    """The 99th of 100 delays. Errors: `Differs` for a row that comes before its date."""

    async def run() -> list[float]:
        queue, delays = rounds.queue, list[float]()

        async def claimer() -> None:
            tokens: list[str] = []
            while True:
                claims = (await queue.claim(1, wait=60_000, done=tokens)).claims
                delays.extend(time.time() - claim.row.process_date / 1000 for claim in claims)
                tokens = [claim.token for claim in claims]
                if len(delays) >= count:
                    ended.set()

        ended = asyncio.Event()
        claimers = [asyncio.create_task(claimer()) for _ in range(_CLAIMERS)]
        await asyncio.sleep(0.01)  # all wait
        begin = time.time_ns() // 1_000_000 + _AHEAD
        await queue.put([new_rows(number, 1, process_date=begin + number * _APART)[0] for number in range(count)])
        await ended.wait()
        while (await queue.count()).processing:  # each says with its next claim that its row is done
            await asyncio.sleep(0.001)
        for task in claimers:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return delays

    sorted_delays = sorted(rounds.runner.run(run()))
    if sorted_delays[0] < 0:
        raise Differs(f"A row came {-sorted_delays[0] * 1000:.3f} ms before its date.", hint="Look at the queue's timers.")
    return Sample(1, sorted_delays[int(len(sorted_delays) * _SHARE)])


def _rung(count: int) -> Sample:
    async def run() -> list[float]:
        loop, late = asyncio.get_running_loop(), list[float]()
        ended = asyncio.Event()

        def ring(date: float) -> None:
            late.append(loop.time() - date)
            if len(late) == count:
                ended.set()

        begin = loop.time() + _AHEAD / 1000
        for number in range(count):
            loop.call_at(begin + number * _APART / 1000, ring, begin + number * _APART / 1000)
        await ended.wait()
        return late

    delays = sorted(asyncio.run(run()))
    return Sample(1, max(delays[int(len(delays) * _SHARE)], 1e-6))
