"""Runs a command and returns its exit code: 0 done, 1 a bug, 2 usage or config, 3 to 9 by kind of error, 10 nothing found, 130
and 143 stopped by a signal."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, TextIO

import typer
from typer.main import get_command

from headwater.core.errors import HeadwaterError
from headwater.core.ids import Ids, random_id
from headwater.core.spelling import sentence

BUG, USAGE, INTERRUPTED = 1, 2, 130


def run(words: Sequence[str], *, tree: Callable[[], typer.Typer] | None = None, stderr: TextIO | None = None, ids: Ids = random_id) -> int:
    """Run one command. Prints a failure to stderr: a line and a hint, or with `--json` one problem object."""
    stderr = stderr or sys.stderr
    as_json = "--json" in words
    try:
        code = get_command((tree or _every_command)()).main(args=list(words), prog_name="headwater", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except HeadwaterError as error:
        _tell(error, stderr, as_json)
        return error.exit_code
    except typer.TyperException as error:
        return _usage(error, stderr, as_json)
    except typer.Abort:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as end:
        if isinstance(end, SystemExit) and not isinstance(
            end.__context__, BrokenPipeError
        ):  # typer turns a BrokenPipeError into SystemExit
            return end.code if isinstance(end.code, int) else 0
        # The reader of the pipe (`| head`) has closed it. Python would raise again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:
        return _bug(error, stderr, as_json, ids()[:12])


_BEHIND = {"--data": " DIR", "--server": " URL", "--config": " FILE", "--json": ""}  # options that every command has, and no group


def _every_command() -> typer.Typer:
    from headwater.cli.app import app  # imported here, so that an error of the import is reported like any other bug

    return app()


def _tell(error: HeadwaterError, stderr: TextIO, as_json: bool) -> None:
    if as_json:
        from headwater.wire.problems import problem_of

        _problem(stderr, error.exit_code, **_fields(problem_of(error, "")))
    else:
        _lines(stderr, error.message, error.hint)


def _usage(error: typer.TyperException, stderr: TextIO, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "headwater"
    message = re.sub(r"\s*\n\s*", " ", error.format_message().replace("Value error, ", ""))  # a list of choices has a line for each
    text = sentence(message)
    if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
        return USAGE
    hint = f"See `{command} --help`."
    option = getattr(error, "option_name", "")
    if option in _BEHIND and hasattr(getattr(context, "command", None), "list_commands"):  # a group: its commands take the option
        text = f"{option} stands behind the command."
        hint = f"Write it such as `{command} COMMAND … {option}{_BEHIND[option]}`."
    elif option == "--server":
        text = f"`{command}` works on files of this machine, and goes to no server."
        hint = "Run it where the server's data are, with --data DIR."
    if as_json:
        _problem(stderr, USAGE, title="Usage", code="usage", detail=text, hint=hint)
    else:
        _lines(stderr, text, hint)
    return USAGE


def _bug(error: Exception, stderr: TextIO, as_json: bool, report: str) -> int:
    """Write the traceback to a file, and print its name and a report id."""
    text = (
        f"report {report}\nheadwater {metadata.version('headwater')}, Python {platform.python_version()}, {platform.platform()}\n\n"
        + "".join(traceback.format_exception(error))
    )
    try:
        fd, path = tempfile.mkstemp(prefix=f"headwater-{report}-", suffix=".txt", text=True)
        with open(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        hint = f"What happened is written in {path}; please report it with that file."
    except OSError:
        stderr.write(text)
        hint = "What happened is written above; please report it."
    message = f"This is a bug in headwater ({type(error).__name__}), report {report}."
    if as_json:
        _problem(stderr, BUG, title="Bug", code="bug", detail=message, hint=hint, errorId=report)
    else:
        _lines(stderr, message, hint)
    return BUG


def _fields(problem: Any) -> dict[str, Any]:
    import msgspec

    return {name: value for name, value in msgspec.to_builtins(problem).items() if value and name != "type"}


def _problem(stderr: TextIO, exit_code: int, **fields: Any) -> None:
    import msgspec

    stderr.write(msgspec.json.encode({**fields, "exitCode": exit_code}).decode() + "\n")
    stderr.flush()


def _lines(stderr: TextIO, message: str, hint: str) -> None:
    from headwater.cli.output import visible  # an error may quote stored data, which must not control the terminal

    lines = f"headwater: {message}\n" + (f"  {hint}\n" if hint else "")
    stderr.write("".join(f"{visible(line)}\n" for line in lines[:-1].split("\n")))
    stderr.flush()
