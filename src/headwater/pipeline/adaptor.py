"""What connects a pipeline to a system: the base of all adaptors.

An adaptor is a small value: where the system is and how to use it. It travels to Spark's workers, so it holds no connection. What it can do
is said by the interfaces that it inherits from: `CanCopy` and `CanTail` (`source_adaptor`), `CanWrite` (`sink_adaptor`). How it does so is
said by its `SourceAdaptor` and its `SinkAdaptor`, two classes that are imported when they are needed, because they may need a library that
not every installation has. The contract suite for adaptors is `headwater.testing.adaptor_contract`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal, Self, TypeVar

import msgspec

from headwater.core.errors import Unsupported
from headwater.pipeline.clients import client_of, shown
from headwater.pipeline.env import Env, resolve
from headwater.pipeline.namespaces import Namespaces


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What `headwater pipeline about` says of an adaptor."""

    summary: str
    namespace: str  # what a namespace is there
    source: str = ""  # how it is read, and from where reading resumes; empty: not a source
    sink: str = ""  # how it is written; empty: not a sink
    sample: str  # the call as it would stand in a pipeline's file


class Adaptor(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all adaptors. Fields are options; those of type `str | Env` may hold `${NAME}`."""

    kind: ClassVar[str]
    about: ClassVar[About]
    source_class: ClassVar[str] = "headwater.pipeline.source_adaptor:SourceAdaptor"  # "module:Class", imported where it is read
    sink_class: ClassVar[str] = "headwater.pipeline.sink_adaptor:SinkAdaptor"  # the same for writing
    extra: ClassVar[str] = ""  # of the package: what has to be installed for these two to be imported
    stores: ClassVar[tuple[str, ...]] = ()  # the kinds of places that it reads and writes: only adaptors that share one can meet

    def checked(self) -> Self:
        """The adaptor as pipelines keep it. Connects to nothing. Errors: `BadConfig` for options that do not go together."""
        return self

    def resolved(self) -> Self:
        """A copy in which every `${NAME}` is replaced. Called where a connection is made, never before: secrets do not travel."""
        changes: dict[str, Any] = {}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, Env) or (isinstance(value, str) and "${" in value):
                changes[name] = resolve(value)
        return msgspec.structs.replace(self, **changes) if changes else self

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        """Connect and see whether the role can be filled; return lines to show. Writes nothing that stays.

        Errors: `Unreachable`, `Denied`, `BadConfig`, `NotFound`, each naming what is missing.
        """
        path = self.source_class if role == "source" else self.sink_class
        lines: list[str] = class_at(path, self.extra)(self).check(chosen)
        return lines

    def circular(self, pipeline: str, log_dir: str | None, sinks: Mapping[str, tuple[Adaptor, bool]]) -> str:
        """As a source: why the pipeline would read what it writes and so never end; empty where that cannot be seen. Connects to nothing.

        `sinks`: by name, each sink's adaptor, and whether transforms, which may send messages elsewhere, come before it.
        """
        return ""

    def __str__(self) -> str:
        """The kind and where it is, without what may be secret in an address: this is printed, logged and sent.

        A path in this process's folder is shown as it was given, relative to it.
        """
        folder = f"{os.getcwd()}/"
        return f"{self.kind}({', '.join(shown(getattr(self, name)).removeprefix(folder) for name in self.__struct_fields__[:1])})"


Own = TypeVar("Own", bound=Adaptor)


@cache
def class_at(path: str, extra: str) -> Any:
    """Errors: `BadConfig` where the extra is not installed."""
    with client_of(extra, extra) if extra else nullcontext():
        return resolve_name(path)


def lacks(role: object, method: str) -> Unsupported:
    return Unsupported(f"{type(role).__name__} has no {method}.", hint="Write it, or do not declare the adaptor as one that has it.")
