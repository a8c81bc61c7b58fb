"""Parsing and help of commands: usage mistakes end with exit code 2, and the help shows flags without a value."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from headwater.core.errors import HeadwaterError

_PLACES = {"DIR": "directory", "FILE": "file", "URL": "server"}  # by the metavar of an option


class UsageMistake(HeadwaterError, code="usage"):
    """The arguments of a command do not fit together."""

    status = 400
    exit_code = 2


class Command(TyperCommand):
    """A command whose arguments may be negative numbers: in `offset NAME mark SINK -1`, -1 is no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _named(self, ctx, args)
        return super().parse_args(ctx, [f" {word}" if re.fullmatch(r"-\d+", word) else word for word in args])

    def get_params(self, ctx: Any) -> Any:
        return _plain(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _named(self, ctx, args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        return _plain(super().get_params(ctx))


def _named(command: TyperCommand | TyperGroup, ctx: Any, args: list[str]) -> None:
    """Refuse empty places. A script whose variable is not set would otherwise act on another directory than it means: Path("") is the
    current one. Errors: usage."""
    options = {option: param.metavar for param in command.params for option in param.opts if param.metavar in _PLACES}
    words = args[: args.index("--")] if "--" in args else args
    for word, following in zip(words, [*words[1:], "-"], strict=False):
        option = word if following == "" else word.removesuffix("=") if word.endswith("=") else ""
        if option in options:
            raise typer.BadParameter(f"{option} is empty. Name a {_PLACES[options[option]]}, or leave {option} out.", ctx)


def _plain(params: Any) -> Any:
    """The parameters, with the value type removed from flags."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
