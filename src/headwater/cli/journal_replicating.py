"""`headwater journal replicate`: copies journals into the store, in this process."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import counted, print_json_line
from headwater.cli.stop import StopSignal
from headwater.core.errors import Conflict, Stopped
from headwater.journal.names import SNAPSHOTS

if TYPE_CHECKING:
    from headwater.core.settings import Settings
    from headwater.journal.loop import ReplicatorLoop
    from headwater.journal.replicate import RoundOutcome

_ENGINES = {"here": "in this process", "spark": "on Spark"}


@command(files=True, example="headwater journal replicate --once")
def replicate(
    at: At,
    once: Annotated[
        bool, typer.Option("--once", help="Copy what the log holds now, and end. Exit code 9 where a record stops a partition.")
    ] = False,
) -> None:
    """Copy the journals of the log into the store, as they grow, until Ctrl-C. With `--json` one object for each round.

    A server does this by itself (setting `journal.replicate`). One process at a time replicates; a second one waits until the first ends.
    """
    settings, rounds = _settings(at), _Rounds(at)
    with at.told(), StopSignal() as stop:
        _run(settings, rounds, stop, at, once=once)
    rounds.tell()


def _settings(at: At) -> Settings:
    import msgspec

    settings = at.settings()
    with at.log():  # a typo must not look like an empty log
        return msgspec.structs.replace(settings, data=settings.data.absolute())


def _run(settings: Settings, rounds: _Rounds, stop: StopSignal, at: At, *, once: bool) -> None:
    from random import Random

    from headwater.core.clock import SystemClock
    from headwater.journal.replicator import replicator

    with replicator(settings, clock=SystemClock(), random=Random(), stopping=stop.event, copied=rounds.add) as loop:
        threading.Thread(target=_stop_with, args=(stop, loop), name="signals", daemon=True).start()
        if not once:
            at.note(f"Copying journals into {settings.store.engine}. Ctrl-C stops.")
            loop.run()
            return
        _catch_up(loop, rounds, at)


def _stop_with(stop: StopSignal, loop: ReplicatorLoop) -> None:
    stop.event.wait()
    loop.stop()  # wakes it, where it waits for records


def _catch_up(loop: ReplicatorLoop, rounds: _Rounds, at: At) -> None:
    if loop.lock is not None and not loop.lock.take():
        raise Conflict("Another process replicates these journals.", hint="See how far it is with `headwater journal status`.")
    hints: dict[str, str] = {}
    try:
        done = loop.catch_up()
        for partition in loop.status().partitions:  # also those that no round has begun with, as where the log is older than the store
            if partition.problem is not None:
                place = f"{partition.topic}/{partition.partition}"
                rounds.problems.setdefault(place, partition.problem.message)
                hints[place] = "" if partition.problem.poison else partition.problem.hint
    finally:
        loop.close()
    if not done and rounds.problems:
        rounds.tell()
        place, message = next(iter(rounds.problems.items()))
        raise Stopped(
            f"{place} is not copied to its end: {message}",
            hint=hints.get(place)
            or f"See what stops it with `headwater journal dead {place.partition('/')[0].removeprefix(SNAPSHOTS)} list`.",
        )


class _Rounds:
    """What the rounds have done, counted and told."""

    def __init__(self, at: At) -> None:
        self._at, self._records, self._told = at, Counter[str](), False
        self.problems: dict[str, str] = {}

    def add(self, outcome: RoundOutcome) -> None:
        """Called after each round."""
        self._records[outcome.engine] += outcome.records
        if self._at.json:
            print_json_line({"engine": outcome.engine, "records": outcome.records, "seconds": round(outcome.seconds, 6)})
            sys.stdout.flush()
        for partition in outcome.partitions:
            place = f"{partition.topic}/{partition.partition}"
            if partition.problem is None:
                self.problems.pop(place, None)
            elif self.problems.get(place) != partition.problem.message:
                self.problems[place] = partition.problem.message
                self._at.note(f"{place}: {partition.problem.message}")

    def tell(self) -> None:
        """Print how much was copied, once."""
        if self._at.json or self._told:
            return
        self._told = True
        by = ", ".join(f"{counted(count, 'record')} {_ENGINES[engine]}" for engine, count in self._records.items() if count)
        typer.echo(f"Copied: {by}." if by else "There was nothing to copy.")
