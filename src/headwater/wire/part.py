"""What a part of headwater brings with it. `headwater.parts` lists all of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import msgspec

from headwater.core.sections import NamedSection, Section
from headwater.wire.operation import Operation


class PartDefinition(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One part. What lies in layers above its own is named as `module:name` and imported when it is used."""

    name: str
    """Of its command group, and before the names of its operations."""
    door: str
    """The attribute of the door: `hw.<door>`."""
    operations: tuple[Operation[Any, Any], ...]
    performs: str
    """Makes what performs the operations in this process: `Performer(log, clock, settings)`, by keyword."""
    offers: str
    """Makes what the door offers: `Offered(backend)`."""
    handlers: str = ""
    """Makes the server's own handlers of hot operations, by the operations' names."""
    measures: str = ""
    """Connects the part with the metrics of a server: `measure(metrics, performer, log)`."""
    opens: str = ""
    """Begins what the part does in a server by itself: `async opens(performer, log)`, awaited once the log is open."""
    closes: str = ""
    """Ends that: `async closes(performer, log)`, awaited before the log is closed, also where `opens` has failed."""
    owned: bool = True
    """Of a server's workers one performs the operations, and runs the hooks; False: every worker performs them."""
    commands: str = ""
    """Makes the command group."""
    owns: tuple[str, ...] = ()
    """Prefixes of the topics that nobody else may change."""
    tables: Mapping[str, str] = {}
    """What Spark can load as `scheme:NAME`: by scheme, what makes the table from the name and the options."""
    sections: tuple[Section[Any] | NamedSection[Any], ...] = ()
    """Its sections of the settings."""
    instead: str = ""
    """Tells what to do instead of changing one of its topics with an operation of the log: `instead(topic, operation) -> hint`."""
    chapter: str = ""
    """The part's chapter of the tour: `chapter(log, settings, report)`."""


def load(path: str) -> Any:
    """What `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
