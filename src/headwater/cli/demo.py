"""`headwater demo`: runs the tour, and removes its topics and folders."""

from __future__ import annotations

import signal
import sys

import typer

from headwater.cli.options import ConfigFile, DataDir, Json, settings_from
from headwater.cli.output import print_json
from headwater.cli.usage import Command, Group
from headwater.core.errors import Differs, NotFound


def group() -> typer.Typer:
    """`headwater demo` runs the tour, `headwater demo clean` removes its topics."""
    tree = typer.Typer(
        cls=Group, invoke_without_command=True, help="A tour that shows on this machine what headwater promises, and checks it."
    )
    tree.callback()(demo)
    tree.command("clean", cls=Command)(clean)
    return tree


def demo(context: typer.Context, data: DataDir = None, config: ConfigFile = None) -> None:
    """Run the tour on topics named demo-*. Ends with exit code 8 when a claim is false on this machine."""
    if context.invoked_subcommand is not None:
        return
    loaded = settings_from(data, config)
    from headwater.core.clock import SystemClock
    from headwater.server.tour.tour import tour

    hear_interrupts()
    try:
        false = tour(loaded.settings, sys.stdout, SystemClock())
    except KeyboardInterrupt:
        sys.stdout.write("The tour was stopped.\n")
        return
    if false:
        raise Differs(
            f"{len(false)} of the tour's claims did not hold: {'; '.join(false)}.", hint="Run `headwater doctor`, and report this."
        )


def hear_interrupts() -> None:
    """Treat SIGTERM, with which a stopping server ends its tour, as Ctrl-C, which also ends a Spark job.

    Python ignores an interrupt that comes within a callback of a weak reference or a finalizer: it comes again a moment later.
    """

    def interrupt(number: int, frame: object) -> None:
        signal.raise_signal(signal.SIGINT)

    def ignored(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            before(what)

    before, sys.unraisablehook = sys.unraisablehook, ignored
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGALRM, interrupt)


def clean(data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Remove the tour's topics, its pipeline and its folders."""
    import asyncio

    from headwater.core.clock import SystemClock
    from headwater.server.tour import tour

    loaded = settings_from(data, config)
    if loaded.settings.log.engine == "embedded" and not loaded.settings.data.exists():
        raise NotFound(f"There is no data directory {loaded.settings.data}.", hint="Name the one in which the tour ran with --data.")
    removed = asyncio.run(tour.clean(loaded, SystemClock()))
    if json:
        print_json({"removed": removed})
    else:
        typer.echo(f"Removed {', '.join(removed)}." if removed else "There is nothing of a tour here.")
