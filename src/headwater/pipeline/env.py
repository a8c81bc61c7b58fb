"""Values from the environment, looked up when a connection is made and never printed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from headwater.core.errors import BadConfig

_NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Env(msgspec.Struct, frozen=True):
    """A value that is in the environment. Its text is `${NAME}`, which is what output and errors show."""

    name: str
    default: str | None = None

    def __str__(self) -> str:
        return f"${{{self.name}}}"

    def __repr__(self) -> str:
        return f"env({self.name!r})"  # without the default, which may be a secret as well


def env(name: str, default: str | None = None) -> Env:
    """The environment's value of `name`, looked up when a connection is made. Not set and without a default: an error then.

    Errors: `BadConfig` for what is no name.
    """
    given: object = name
    if not isinstance(given, str) or not given or "=" in given:
        raise BadConfig(f"env: {given!r} is no name of a variable.", hint='Write it such as env("PG_URI").')
    return Env(name, default)


def resolve(text: str | Env, environment: Mapping[str, str] | None = None) -> str:
    """The text with every `${NAME}` replaced. Errors: `BadConfig` for a name that is not set; the message never shows a value."""
    variables = os.environ if environment is None else environment
    if isinstance(text, Env):
        if text.name not in variables and text.default is not None:
            return text.default
        return _value(text.name, variables)
    return _NAME.sub(lambda match: _value(match[1], variables), text)


def _value(name: str, environment: Mapping[str, str]) -> str:
    try:
        return environment[name]
    except KeyError:
        raise BadConfig(
            f"The environment has no {name}.",
            hint=f"Set it, as in `export {name}=...`, and start again. The workers of a Spark cluster need it, too.",
        ) from None
