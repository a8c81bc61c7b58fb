"""Real servers for tests and for people: fetched from public packages, started, probed, stopped.

    from tools.services import up, down

    running = up("kafka", "cassandra")
    running.kafka                        # "127.0.0.1:9092"
    running.kill("broker-1"); running.restart("broker-1")
    down()

On the command line: `python -m tools.services up kafka`. A second `up` finds what runs already.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.services.place import Place, Say, say_on_stderr
from tools.services.process import Process
from tools.services.runner import Runner, of_kind
from tools.services.running import KINDS, Running, matching

__all__ = ["KINDS", "Place", "Runner", "Running", "down", "release", "up"]


def up(
    *kinds: str,
    brokers: int = 1,
    run: str | Path | None = None,
    kept: bool = True,
    quick: bool = False,
    user: Process | None = None,
    say: Say = say_on_stderr,
) -> Running:
    """Start these kinds of servers, or find them running.

    `kept=False` is for test runs: what nobody but such runs has asked for is stopped when the last `user` is given to `release`.
    `quick=True` is for tests, too: Java compiles sparingly, and what a server holds that was empty before is removed when it is stopped so.

    Errors: `Unreachable` when a server's files cannot be had, `Unsupported` off Linux, `Unavailable` with the end of its log when it does
    not start; then nothing that this call started for that server is left running.
    """
    runner = Runner(Place.usual(run, say=say))
    servers = [of_kind(kind, KINDS)(brokers) if kind == "kafka" else of_kind(kind, KINDS)() for kind in kinds]
    with ThreadPoolExecutor() as pool:  # downloads wait for the network most of the time
        list(pool.map(lambda server: server.have(runner.place), servers))
    was_running = {server.name: runner.up(server, kept=kept, quick=quick, user=user)[1] for server in servers}
    return Running(runner, tuple(was_running), frozenset(name for name, was in was_running.items() if was))


def down(*names: str, run: str | Path | None = None, clear: bool = False, say: Say = say_on_stderr) -> list[str]:
    """Stop these servers, by kind or by name; all of them when none is named. Returns the names of those that ran."""
    runner = Runner(Place.usual(run, say=say))
    return [name for name in matching(runner, names) if runner.down(name, clear=clear)]


def release(user: Process, run: str | Path | None = None, say: Say = say_on_stderr) -> list[str]:
    """A test run is over: stop what it used, unless somebody else uses or wants it. Returns the names of what was stopped."""
    return Runner(Place.usual(run, say=say)).release(user)
