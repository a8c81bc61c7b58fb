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


_TARGETS = ("table", "tables", "collection", "index", "topic")  # what others call the place that a namespace names here
_NAMESPACE = (
    "Choose what is read with namespace= at p.source(...). A sink writes to what the message's namespace names: change it with remap."
)


def strict(call: Callable[P, T]) -> Callable[P, T]:
    """The same function, raising `BadConfig` where Python would raise `TypeError` for its arguments."""
    signature = inspect.signature(call)
    parameters = list(signature.parameters.values())
    method = bool(parameters) and parameters[0].name == "self"
    known = [
        parameter.name for parameter in parameters[method:] if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    # A person wrote Pipeline(...), not Pipeline.__init__(...).
    where = call.__qualname__.split(".")[-2] if call.__name__ == "__init__" else call.__name__
    hint = "See its documentation." if method else f"See `headwater pipeline about {where}`."

    @functools.wraps(call)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if not open_ended:
            for name in kwargs:
                if name not in known:
                    raise unknown_option(where, name, known)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadConfig(f"{where}(): {error}.", hint=hint) from error
        return call(*args, **kwargs)

    return checked


def unknown_option(where: str, name: str, known: list[str]) -> BadConfig:
    """The error for an option that does not exist."""
    if name in _TARGETS:
        return BadConfig(f"{where} has no option {name}.", hint=_NAMESPACE)
    near = get_close_matches(name, known, 1)
    some = f"There are {', '.join(known)}." if known else "It has none: what it takes is given without a name."
    return BadConfig(f"{where} has no option {name}.", hint=f"Did you mean {near[0]}?" if near else some)
