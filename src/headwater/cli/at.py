"""The shared options of a command: where the data are, and the form of the output. Every command reaches the data through `At`.

A command goes through the door: to the server that `--server` names, to the server of the data directory, or else to the directory itself.
So it never takes a partition away from the process that owns it. `--server none` reads the directory itself although a server runs on it,
for a server that does not answer.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.core.config import Config, Flag, load
from headwater.core.errors import BadConfig, HeadwaterError, NotFound, Unreachable

if TYPE_CHECKING:
    from headwater.client import Blocking
    from headwater.core.settings import Settings
    from headwater.log import Log

SERVER = "HEADWATER_SERVER"
NO_SERVER = "none"
_PATIENCE = 2.5  # seconds after which a server that says nothing is told of
_WAITS = 5.0  # and after which a command no longer waits for it
_HERE = "about|init|test"  # commands of groups that take no --data
_FILES = re.compile(r"log (?:check|repair|import)|pipeline run|journal replicate")  # commands that have no --server


class At:
    """The shared options, by their names."""

    def __init__(
        self,
        *,
        data: Path | None = None,
        config: Path | None = None,
        server: str | None = None,
        json: bool = False,
        dry_run: bool = False,
        yes: bool = False,
        file: Path | None = None,
    ) -> None:
        self.data, self.config, self.server = data, config, server
        self.json, self.dry_run, self.yes, self.file = json, dry_run, yes, file

    # -- where the data are ---------------------------------------------------------------------------------

    @contextmanager
    def door(self, *, changes: bool = False, creates: bool = False, waits: bool = True) -> Iterator[Blocking]:
        """Open the door. A directory without a server is opened read-only, unless the command `changes` something.

        Where the directory's server does not answer, a note says so at once, and the command waits as long as for any answer; without
        `waits` that is `Unreachable`. Errors: `NotFound` for a data directory that does not exist, unless the command `creates` it: a typo
        must not look like an empty log. `BadConfig` for what is no address of a server, `Unreachable`, `Denied`.
        """
        from headwater.client import Blocking
        from headwater.client.door import Headwater

        with self.told():
            where, loaded = self.named_server(), self._loaded()
            if where is None:
                self._there(loaded.settings, creates=creates)
            # Absolute: `step`, `replay` and `retry` change to the folder of the pipeline's last run, and must still find the log.
            place = where or loaded.settings.data.absolute()
            past = self._past_server(changes=changes)
            if isinstance(place, Path) and not past:
                self._look_at_server(place, changes=changes, waits=waits)
            door = Blocking(Headwater(place, create=creates, config=loaded, read_only=not changes, past_server=past))
            door.__enter__()
            try:
                yield door
            except KeyboardInterrupt:
                raise  # the process ends at once: the door's work under way may be interrupted safely
            except BaseException:
                door.close()
                raise
            door.close()

    def place(self, *, changes: bool) -> tuple[str, Settings]:
        """Where the data are, an address or a directory, for a command that opens the door itself; and the settings.

        Errors: those of `door`.
        """
        import msgspec

        where, loaded = self.named_server(), self._loaded()
        if where is None:
            self._there(loaded.settings, creates=False)
            self._past_server(changes=changes)
            self._look_at_server(loaded.settings.data.absolute(), changes=changes, waits=True)
        data = loaded.settings.data.absolute()
        return where or str(data), msgspec.structs.replace(loaded.settings, data=data)

    def _past_server(self, *, changes: bool) -> bool:
        """Whether `--server none` asks to read past the directory's server. Errors: usage, where a command changes something past it.

        Reading takes no lock of the server's and writes nothing. A change could fence a partition's owner, which only seems dead.
        """
        from headwater.client.presence import serving

        if self.server != NO_SERVER:
            return False
        data = self._loaded().settings.data
        if changes and (server := serving(data)) is not None:
            raise typer.BadParameter(
                f"--server {NO_SERVER} is for commands that only read: changes of {data} go through its server, process {server.pid}."
            )
        return not changes

    def _look_at_server(self, data: Path, *, changes: bool, waits: bool) -> None:
        """Tell of a server that does not answer, and wait a little for it. Errors: `Unreachable` after that, or without `waits` at once."""
        from headwater.client.presence import answers, serving

        server = serving(data)
        if server is None or answers(server, data, patience=_PATIENCE):
            return
        silent = Unreachable(
            f"The server at {server.url} (process {server.pid}) does not answer.",
            hint=f"Look at it with `ps -o stat,etime,args -p {server.pid}`: `kill -CONT {server.pid}` lets a stopped one (T) go on; "
            f"end one that hangs with `kill -9 {server.pid}`, which loses nothing acknowledged, and start it again."
            + ("" if changes else f" To read past it, add `--server {NO_SERVER}`."),
        )
        if not waits:
            raise silent
        self.warned(silent)
        if not answers(server, data, patience=_WAITS):
            still = f"The server at {server.url} (process {server.pid}) has not answered for {_WAITS:g} s more. Nothing was asked of it."
            raise Unreachable(still, hint=silent.hint)

    def named_server(self) -> str | None:
        """The server that `--server` names, or HEADWATER_SERVER unless `--data` names a directory. Errors: `BadConfig`, usage."""
        if self.server == NO_SERVER:
            return None
        if self.server is not None and self.data is not None:
            raise typer.BadParameter("--server and --data are two places. Give one of them.")
        named = self.server if self.server is not None else os.environ.get(SERVER) if self.data is None else None
        if named is None:
            return None
        if not re.match("https?://", named):
            origin = "--server" if self.server is not None else SERVER
            raise BadConfig(
                f"{origin} {named!r} is no address of a server.", hint="Write it such as http://127.0.0.1:8420, or leave it out."
            )
        return named

    def serving(self) -> str | None:
        """The address of the server that this command would go through; None where there is none on the directory."""
        from headwater.client.presence import serving

        if (named := self.named_server()) is not None:
            return named
        found = serving(self._loaded().settings.data)
        return None if found is None else found.url

    def settings(self) -> Settings:
        """The settings, for a command that works on files of this machine. Errors: `BadConfig` where HEADWATER_SERVER is set and `--data`
        is not given.
        """
        if self.data is None and os.environ.get(SERVER):
            raise BadConfig(
                f"This command works on files of this machine, and {SERVER} names a server.",
                hint=f"Run it where the server's data are; or name a directory of this machine with --data, or unset {SERVER}.",
            )
        return self._loaded().settings

    @contextmanager
    def log(self, *, changes: bool = False, creates: bool = False) -> Iterator[Log]:
        """Open the log itself, for a command that works on its files. Errors: as `door` and `settings`."""
        from headwater.log.opening import address_of, open_log

        with self.told():
            settings = self.settings()
            self._there(settings, creates=creates)
            with open_log(address_of(settings, settings.data.absolute()), read_only=not changes) as log:
                yield log

    def _loaded(self) -> Config:
        return load(file=self.config, flags={"data": Flag("--data", self.data)})

    def _there(self, settings: Settings, *, creates: bool) -> None:
        if settings.log.engine == "embedded" and not creates and not settings.data.exists():
            raise NotFound(
                f"There is no data directory {settings.data}.",
                hint="Name it with --data, or a server with --server; `headwater log create TOPIC` or `headwater serve` makes a new one.",
            )

    # -- how it answers -------------------------------------------------------------------------------------

    def command(self, words: str) -> str:
        """A next command, with the same `--data`, `--server` and `--config`."""
        places: dict[str, Path | str | None] = {"--data": self.data, "--config": self.config}
        if not _FILES.match(words):
            places["--server"] = self.server
        told = [word for option, value in places.items() if value is not None for word in (option, shlex.quote(str(value)))]
        return " ".join(["headwater", words, *told])

    def answered(self, answer: object, text: str) -> None:
        """Print the result: `answer` with `--json`, else `text`."""
        from headwater.cli.output import print_json

        print_json(answer) if self.json else typer.echo(text)

    def note(self, text: str) -> None:
        """Print a note to stderr, unless `--json` is given."""
        if not self.json:
            typer.echo(text, err=True)

    def warned(self, warning: HeadwaterError) -> None:
        """Print a warning to stderr, with `--json` as one object on a line of its own."""
        from headwater.cli.output import print_json_line

        if self.json:
            print_json_line({"code": warning.code, "warning": warning.message, "hint": warning.hint}, err=True)
        else:
            typer.echo(f"{warning.message}\n  {warning.hint}", err=True)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Add the same `--data`, `--server` and `--config` to the commands in the hints of errors."""
        try:
            yield
        except HeadwaterError as error:
            error.hint = _commands().sub(lambda found: found[1] + self.command(found[2]), error.hint)
            raise


def _commands() -> re.Pattern[str]:
    """Finds the commands of parts in a hint."""
    from headwater import parts

    groups = "|".join(re.escape(part.command or part.name) for part in parts.PARTS)
    return re.compile(rf"(`|^ *)headwater ((?:{groups}) (?!{_HERE})(?![^`\n]*--help)[^`\n]+)", re.MULTILINE)
