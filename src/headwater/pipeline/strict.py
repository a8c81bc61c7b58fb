"""Options that do not exist are refused, with the one that was probably meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import ParamSpec, TypeVar

from headwater.core.errors import BadConfig

P = ParamSpec("P")
T = TypeVar("T")


def strict(call: Callable[P, T]) -> Callable[P, T]:
    """The same function, raising `BadConfig` where Python would raise `TypeError` for its arguments."""
    signature = inspect.signature(call)
    known = [name for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD]
    open_ended = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())

    @functools.wraps(call)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if not open_ended:
            for name in kwargs:
                if name not in known:
                    raise unknown_option(call.__name__, name, known)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadConfig(f"{call.__name__}(): {error}.", hint=f"See `headwater pipeline about {call.__name__}`.") from error
        return call(*args, **kwargs)

    return checked


def unknown_option(where: str, name: str, known: list[str]) -> BadConfig:
    """The error for an option that does not exist."""
    near = get_close_matches(name, known, 1)
    hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
    return BadConfig(f"{where} has no option {name}.", hint=hint)
