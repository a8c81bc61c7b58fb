"""Options and arguments that the pipeline commands share, and what they open."""

from __future__ import annotations

import functools
import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from headwater.cli.log_opening import opened
from headwater.cli.options import ConfigFile, DataDir, DryRun, Json, settings_from
from headwater.core.errors import BadInput, HeadwaterError

if TYPE_CHECKING:
    from headwater.core.settings import Settings
    from headwater.log import Log
    from headwater.pipeline.operating.operations import PipelineOperations


def offset_of(text: str) -> int:
    """A message's offset, as it is typed."""
    if not re.fullmatch(r" ?-?[0-9]{1,18}", text):
        raise typer.BadParameter(f"{text.strip()!r} is no offset; messages are counted from 0.")
    return int(text)


Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.", show_default=False)]
SinkName = Annotated[str, typer.Argument(metavar="SINK", help="The sink's name.", show_default=False)]
Offset = Annotated[int, typer.Argument(metavar="N", parser=offset_of, help="The message's offset.", show_default=False)]
OffsetIfAny = Annotated[int | None, typer.Argument(metavar="N", parser=offset_of, help="The message's offset.", show_default=False)]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit.")]
Reason = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for the audit. A change needs one.")]
DefinedIn = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="The pipeline's file, where it is not the one that ran last.")
]


class Listed(NamedTuple):
    """How a command is listed."""

    name: str
    example: str


class At:
    """What every command of the group may be told: which data directory, and how it answers."""

    def __init__(self, *, data: Path | None, config: Path | None, json: bool, dry_run: bool = False, file: Path | None = None) -> None:
        self.data, self.config, self.json, self.dry_run, self.file = data, config, json, dry_run, file

    def settings(self) -> Settings:
        return settings_from(self.data, self.config).settings

    def command(self, words: str) -> str:
        """A command to type next: with the data directory that this one was told of, or it would look somewhere else."""
        told = [] if self.data is None else ["--data", shlex.quote(str(self.data))]
        told += [] if self.config is None else ["--config", shlex.quote(str(self.config))]
        return " ".join(["headwater pipeline", words, *told])

    def answered(self, answer: object, text: str) -> None:
        """Say what was done: the answer to a program, the text to people."""
        from headwater.cli.output import print_json

        print_json(answer) if self.json else typer.echo(text)

    def note(self, text: str) -> None:
        """Something beside the answer, for people."""
        if not self.json:
            typer.echo(text, err=True)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors name the same data directory in the commands that they say come next."""
        try:
            yield
        except HeadwaterError as error:
            error.hint = _COMMAND.sub(lambda found: found[1] + self.command(found[2]), error.hint)
            raise

    @contextmanager
    def desk(self, name: str, *, changes: bool = False) -> Iterator[PipelineOperations]:
        """The pipeline of this name, to look at or to change; with a dry run it is only looked at."""
        from headwater.pipeline.operating.operations import PipelineOperations

        with self.told(), self._log(name, changes=changes and not self.dry_run) as (log, settings):
            yield PipelineOperations(log, name, file=self.file, settings=settings)

    @contextmanager
    def sending(self, name: str, *, changes: bool = True) -> Iterator[PipelineOperations]:
        """The same, to send to its sinks or to read them: in the folder where it was run, or relative paths would mean other files.

        Errors: `NotFound` where that folder is gone.
        """
        with self.desk(name, changes=changes) as desk:
            folder = desk.folder()
            if self.file is None and folder is not None:
                os.chdir(folder)
            yield desk

    @contextmanager
    def _log(self, name: str, *, changes: bool) -> Iterator[tuple[Log, Settings]]:
        from headwater.log.opening import open_log
        from headwater.pipeline.operating.log_dirs import address, log_dirs

        settings = self.settings()
        own = log_dirs(settings.data).get(name)
        if own is None:
            with opened(self.data, self.config, read_only=not changes) as found:
                yield found
            return
        with open_log(address(name, own), read_only=not changes) as log:
            yield log, settings


_COMMAND = re.compile(r"(`|^ *)headwater pipeline ((?!about|init|test)[^`\n]+)", re.MULTILINE)
_SHARED: dict[str, tuple[Any, Any]] = {
    "file": (DefinedIn, None),
    "dry_run": (DryRun, False),
    "data": (DataDir, None),
    "config": (ConfigFile, None),
    "json": (Json, False),
}


def command(*more: str, name: str = "", example: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of the group, with `--data`, `--config`, `--json` and the options of `more`; it gets them as one value, `at`.

    `name`: how it is called, where that is not the function's name. `example`: stands below its help.
    """
    names = [name for name in _SHARED if name in more or name in ("data", "config", "json")]

    def wrap(made: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(made)
        def called(**words: Any) -> None:
            made(**{name: words[name] for name in own}, at=At(**{name: words[name] for name in names}))

        own = {name: one for name, one in inspect.signature(made, eval_str=True).parameters.items() if name != "at"}
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_SHARED[name][1], annotation=_SHARED[name][0]) for name in names
        ]
        signature = inspect.Signature([*own.values(), *shared])
        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
        return plain_command(name, example)(called)

    return wrap


def plain_command(name: str = "", example: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of the group that has only the options of its own."""

    def wrap(made: Callable[..., None]) -> Callable[..., None]:
        made.listed = Listed(name or made.__name__, example)  # type: ignore[attr-defined]
        return made

    return wrap


def commands_of(module: ModuleType) -> Iterator[tuple[Listed, Callable[..., None]]]:
    """The commands that a module makes, in the order in which they stand there."""
    for value in vars(module).values():
        if getattr(value, "__module__", "") == module.__name__ and hasattr(value, "listed"):
            yield value.listed, value


def no_more(verb: str, *given: object) -> None:
    """Refuse words that a verb has no use for: they were meant for something. Errors: `BadInput`."""
    for word in given:
        if word is not None:
            raise BadInput(f"{verb} takes no {str(word).strip()!r}.", hint="Leave it out, or see --help for what takes it.")


def several(number: int, what: str, verb: str = "") -> str:
    """`1 message is`, `2 messages are`."""
    from headwater.cli.output import count

    verbs = {"is": "are", "has": "have"}
    words = [count(number), what if number == 1 else f"{what}s", verb if number == 1 else verbs.get(verb, verb)]
    return " ".join(word for word in words if word)
