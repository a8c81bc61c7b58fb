"""The command line: python -m tools.services up|down|status|env|fetch|pin"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import Any

from headwater.core.errors import HeadwaterError
from headwater.spark.java import find_java
from tools.services import KINDS, Place, Runner, down, up
from tools.services.jars import pin
from tools.services.private import sweep
from tools.services.runner import of_kind
from tools.services.state import State


def main(words: list[str] | None = None) -> int:
    asked = parser().parse_args(words)
    try:
        return int(asked.do(asked) or 0)
    except HeadwaterError as problem:
        print(f"services: {problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tools.services", description="Real servers for tests and for people.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, do: object, text: str) -> argparse.ArgumentParser:
        new = commands.add_parser(name, help=text, description=text)
        new.add_argument("--run", metavar="DIR", help="the run folder (default: $HEADWATER_SERVICES, or run/ in the cache folder)")
        new.set_defaults(do=do)
        return new

    subcommand = command("up", do_up, "Start servers, or find them running.")
    subcommand.add_argument("names", nargs="+", choices=sorted(KINDS), metavar="NAME", help=", ".join(sorted(KINDS)))
    subcommand.add_argument("--brokers", type=int, default=1, help="Kafka's brokers: 1 or 3")
    subcommand.add_argument("--json", action="store_true")
    subcommand = command("down", do_down, "Stop servers: those named, or all.")
    subcommand.add_argument("names", nargs="*", metavar="NAME")
    subcommand.add_argument("--clear", action="store_true", help="remove their data and logs too")
    subcommand = command("status", do_status, "Tell what runs, and where.")
    subcommand.add_argument("--json", action="store_true")
    command("env", do_env, "Print the settings that point headwater at what runs, for `eval`.")
    subcommand = command("fetch", do_fetch, "Fetch what servers consist of, without starting them: those named, or all.")
    subcommand.add_argument("names", nargs="*", metavar="NAME")
    subcommand = command(
        "pin", do_pin, "Fetch a server's jars anew and write their digests into jars.txt; look at the change before committing it."
    )
    subcommand.add_argument("name", help="a configuration of ivy.xml")
    return top


def do_up(asked: argparse.Namespace) -> None:
    running = up(*asked.names, brokers=asked.brokers, run=asked.run)
    states = {name: known for name, known in running.runner.states().items() if name in running.names}
    if asked.json:
        print(json.dumps([described(running.runner, name, known) for name, known in states.items()], indent=2))
        return
    for name, known in states.items():
        print(f"{name}\t{known.address}\t{'was running' if name in running.found else 'started'}")


def do_down(asked: argparse.Namespace) -> None:
    stopped = down(*asked.names, run=asked.run, clear=asked.clear)
    if not asked.names:
        sweep(Place.usual(asked.run))  # private servers of test runs that died
    print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


def do_status(options: argparse.Namespace) -> None:
    runner = Runner(Place.usual(options.run))
    descriptions = [described(runner, name, state) for name, state in runner.states().items()]
    if options.json:
        print(json.dumps(descriptions, indent=2))
    elif not descriptions:
        print(f"nothing runs (in {runner.place.run})")
    else:
        for description in descriptions:
            print(f"{description['name']}\t{description['state']}\t{description['address']}")
            for node in description["nodes"]:
                print(f"  {node['name']}\t{'pid ' + str(node['pid']) if node['pid'] else 'ended'}\t{node['log']}")


def do_env(asked: argparse.Namespace) -> None:
    for known in Runner(Place.usual(asked.run)).states().values():
        if known.ready:
            for name, value in known.settings.items():
                print(f"export {name}={shlex.quote(value)}")


def do_fetch(asked: argparse.Namespace) -> None:
    place = Place.usual(asked.run)
    for name in asked.names or sorted(KINDS):
        of_kind(name, KINDS)().have(place)


def do_pin(asked: argparse.Namespace) -> None:
    pinned = pin(asked.name, Place.usual(asked.run), find_java())
    print(f"jars.txt now lists {len(pinned.jars)} jars for {asked.name}")


def described(runner: Runner, name: str, known: State) -> dict[str, Any]:
    alive = [node.alive() for node in known.nodes]
    return {
        "name": name,
        "state": "up" if known.ready else "partly up" if any(alive) else "ended",
        "address": known.address,
        "kept": known.kept,
        "nodes": [
            {
                "name": node.name,
                "pid": node.process.pid if node.process and node.alive() else None,
                "ports": node.ports,
                "log": str(runner.folder(name) / node.name / "server.log"),
            }
            for node in known.nodes
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
