"""What a pipeline's file says of its source and sinks, as the offset log keeps it: so a later run notices what has changed.

Addresses are kept without what may be secret in them. Options are kept as digests: a password may be one of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.definition import Pipeline, Sink
from headwater.pipeline.transform import Transform

_ENDLESS = 6  # levels of what a transform holds


class StoredDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The source, or one sink, as its last run knew it."""

    name: str
    adaptor: str  # its kind and place
    namespaces: str
    options: dict[str, str] = {}  # by name, a digest
    transforms: tuple[tuple[str, str], ...] = ()  # the name of each, and a digest
    follows: bool | None = None  # of a source: whether its changes are followed

    @classmethod
    def of_source(cls, pipeline: Pipeline) -> StoredDefinition:
        reader = pipeline.reader
        assert reader is not None
        return cls(
            name=pipeline.source_name,
            adaptor=_place(reader),
            namespaces=str(pipeline.namespaces),
            options=_options(reader),
            follows=pipeline.follows,
        )

    @classmethod
    def of_sink(cls, sink: Sink) -> StoredDefinition:
        transforms = tuple((str(transform), _digest(_transform(transform))) for transform in sink.transforms)
        options = _options(sink.adaptor)
        return cls(name=sink.name, adaptor=_place(sink.adaptor), namespaces=str(sink.namespaces), options=options, transforms=transforms)

    def options_beside(self, other: StoredDefinition) -> list[str]:
        """The names of the options whose values differ. Options that only one of the two knows do not: another version wrote it."""
        return sorted(name for name in self.options.keys() & other.options.keys() if self.options[name] != other.options[name])

    def changes_since(self, before: StoredDefinition) -> Iterator[str]:
        """What differs from an earlier definition of the same sink, each as part of a sentence."""
        if self.adaptor != before.adaptor:
            yield f"it is {self.adaptor} now, and was {before.adaptor}"
        elif options := self.options_beside(before):
            yield f"{'an option has' if len(options) == 1 else 'options have'} changed: {', '.join(options)}"
        if self.namespaces != before.namespaces:
            yield f"its namespaces are {self.namespaces} now, and were {before.namespaces}"
        if self.transforms != before.transforms:
            now, then = (" → ".join(name for name, _ in definition.transforms) or "none" for definition in (self, before))
            yield f"its transforms have changed ({then})" if now == then else f"its transforms are {now} now, and were {then}"


def _place(adaptor: Adaptor) -> str:
    try:
        return str(adaptor.resolved())
    except HeadwaterError:  # a variable is not set: whoever connects tells it
        return str(adaptor)


def _options(adaptor: Adaptor) -> dict[str, str]:
    """All but the first, which is the place."""
    return {name: _digest(repr(getattr(adaptor, name))) for name in adaptor.__struct_fields__[1:]}


def _transform(transform: Transform) -> str:
    return f"{type(transform).__name__} {transform.namespaces} {_held(vars(transform), _ENDLESS)}"


def _held(value: Any, levels: int) -> str:
    """A text that differs where the value does, and is the same in every process: a function is its source, never its address."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_held(item, levels - 1)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_held(item, levels - 1) for item in value) + "]"
    if isinstance(value, set | frozenset):
        return "[" + ", ".join(sorted(_held(item, levels - 1) for item in value)) + "]"
    if inspect.isroutine(value) or inspect.isclass(value):
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):
            return str(getattr(value, "__qualname__", type(value).__name__))
    if getattr(type(value), "__repr__", None) is not getattr(object, "__repr__", None):
        return repr(value)
    return f"{type(value).__name__}{_held(vars(value), levels - 1) if levels and hasattr(value, '__dict__') else ''}"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
