"""Parsing and help of commands: usage mistakes end with exit code 2, and the help shows flags without a value."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

from headwater.core.errors import HeadwaterError


class UsageMistake(HeadwaterError, code="usage"):
    """The arguments of a command do not fit together."""

    status = 400
    exit_code = 2


class Command(TyperCommand):
    """A command whose arguments may be negative numbers: in `offset NAME mark SINK -1`, -1 is no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if re.fullmatch(r"-\d+", word) else word for word in args])

    def get_params(self, ctx: Any) -> Any:
        return _plain(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> Any:
        return _plain(super().get_params(ctx))


def _plain(params: Any) -> Any:
    """The parameters, with the value type removed from flags."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
