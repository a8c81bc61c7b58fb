"""Makes commands of functions: a function declares its own arguments, and gets the shared options as one value, `at`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer

from headwater.cli.at import At
from headwater.cli.options import ConfigFile, DataDir, DryRun, Json, ServerUrl, Yes

DefinedIn = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="The pipeline's file, where it is not the one that ran last. Sends from this process."),
]
_SHARED: dict[str, tuple[Any, Any]] = {
    "file": (DefinedIn, None),
    "yes": (Yes, False),
    "dry_run": (DryRun, False),
    "data": (DataDir, None),
    "server": (ServerUrl, None),
    "config": (ConfigFile, None),
    "json": (Json, False),
}
_ALWAYS = ("data", "server", "config", "json")


class Listed(NamedTuple):
    """The name and help of a command in its group."""

    name: str
    example: str


def command(*more: str, name: str = "", example: str = "", files: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command with `--data`, `--server`, `--config`, `--json` and the options of `more`.

    `name`: its name, if it differs from the function's. `example`: shown below its help. `files`: it works on files of this machine, and
    goes to no server.
    """
    names = [option for option in _SHARED if option in more or (option in _ALWAYS and not (files and option == "server"))]

    def wrap(made: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(made)
        def called(**words: Any) -> None:
            made(**{option: words[option] for option in own}, at=At(**{option: words[option] for option in names}))

        own = {option: parameter for option, parameter in inspect.signature(made, eval_str=True).parameters.items() if option != "at"}
        shared = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=_SHARED[option][1], annotation=_SHARED[option][0])
            for option in names
        ]
        signature = inspect.Signature([*own.values(), *shared])
        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {option: parameter.annotation for option, parameter in signature.parameters.items()}
        return plain_command(name, example)(called)

    return wrap


def plain_command(name: str = "", example: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command that has only the options of its own."""

    def wrap(made: Callable[..., None]) -> Callable[..., None]:
        made.listed = Listed(name or made.__name__.replace("_", "-"), example)  # type: ignore[attr-defined]
        return made

    return wrap


def commands_of(module: ModuleType) -> Iterator[tuple[Listed, Callable[..., None]]]:
    """The commands of a module, in their order in the file."""
    for value in vars(module).values():
        if getattr(value, "__module__", "") == module.__name__ and hasattr(value, "listed"):
            yield value.listed, value
