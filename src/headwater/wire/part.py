"""The definition of a part of headwater. `headwater.parts` lists all parts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from headwater.core.sections import NamedSection, Section
from headwater.wire.operation import Operation


class WorkerPlace(NamedTuple):
    """One of the processes that serve together: worker `slot` of `size`. `folder`: of their sockets."""

    slot: int
    size: int
    folder: Path


class PartDefinition(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One part. It names code of higher layers as `module:name`; `load` imports that code at its first use."""

    name: str
    """The name of its command group, and the prefix of its operations' ids."""
    door: str
    """The attribute of the door: `hw.<door>`."""
    operations: tuple[Operation[Any, Any], ...]
    performs: str
    """The class that performs the operations in this process: `Performer(log, clock, settings, address)`, by keyword. `address`: where
    this process serves; empty where it does not."""
    uses: tuple[str, ...] = ()
    """The parts whose performers its own is given, by keyword under their names. They are closed after it."""
    offers: str
    """The class of the door's object: `Offered(backend)`."""
    handlers: str = ""
    """The class with the server's handlers of hot operations, by the operations' names."""
    measures: str = ""
    """Connects the part with the metrics of a server: `measure(metrics, performer, log)`."""
    opens: str = ""
    """Starts the part's background work in a server: `async opens(performer, log)`, awaited once the log is open."""
    closes: str = ""
    """Ends that work: `async closes(performer, log)`, awaited before the log closes, also where `opens` has failed."""
    owned: bool = True
    """One worker of a server performs the operations and runs the hooks. False: every worker performs them."""
    shares: str = ""
    """Of a part that every worker performs: tells it of the others, before anything else: `shares(performer, place)` with a
    `WorkerPlace`."""
    homed: tuple[Operation[Any, Any], ...] = ()
    """Of such a part: the operations that one certain worker performs, by what they are about."""
    home: str = ""
    """That worker; None: whichever was asked. `async home(performer, operation, variables)`, with the variables of the path."""
    hops: bool = False
    """A server of a cluster sends its changes on to the server that owns what they are about."""
    forgets: str = ""
    """Of such a part: is told the address of a server that could not be reached, or was not the owner: `forgets(performer, address)`."""
    commands: str = ""
    """The function that makes the command group."""
    command: str = ""
    """The name of its command group, where that is not the part's."""
    owns: tuple[str, ...] = ()
    """Prefixes of names that this part reserves: nobody else creates such a topic. Topics that the part creates store it as their owner
    and need no prefix."""
    regions: tuple[str, ...] = ()
    """Namespaces of write-ahead log regions that this part reserves: users may look at them, and only this part changes them. Such a part
    has `instead`, which is also asked for operations on regions, by the names of these."""
    tables: Mapping[str, str] = {}
    """The tables that Spark can load as `scheme:NAME`, over a topic, chosen records of a log, or a store: by scheme, the function that
    makes the table from the name and the options."""
    sections: tuple[Section[Any] | NamedSection[Any], ...] = ()
    """Its sections of the settings."""
    instead: str = ""
    """Returns the hint for a user who wants to change one of its topics with an operation of the log: `instead(topic, operation) ->
    hint`."""
    chapter: str = ""
    """The part's chapter of the tour: `chapter(log, settings, report)`. A folder that it makes in the data directory is the `FOLDER` of its
    module: `headwater demo clean` removes it."""

    @property
    def demo_folder(self) -> str:
        """The name of that folder; empty where there is none."""
        return getattr(import_module(self.chapter.partition(":")[0]), "FOLDER", "") if self.chapter else ""


def load(path: str) -> Any:
    """Import the object that `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
