"""A place where documents lie, as its system tells it from all others: by it a pipeline that would write to what it reads is noticed."""

from __future__ import annotations

import msgspec

from headwater.pipeline.namespaces import Namespaces

FILES, TOPICS = "files", "topics"  # systems that need no further identity: paths, and topics by their ids


class Location(msgspec.Struct, frozen=True):
    """A table, a topic, a file, ...; or all of those whose names begin alike, or that an expression matches.

    `system` is the identity of the server, cluster or file system, as far as possible by its own word: two addresses of one server give the
    same one. A place has several where it is known by several, such as a file by its path and by its inode.
    """

    system: str
    name: str = ""
    within: bool = False  # all whose names begin with `name`
    chosen: Namespaces | None = None  # all that this expression matches, those that are made later included
    schema: str = ""  # with `chosen`: only names that begin with this
    folded: bool = False  # names are compared without regard to case
    shared: bool = False  # several sinks of one adaptor may write to it, such as to the file of a database

    def holds(self, name: str) -> bool:
        """Whether a name of the same system is, or lies in, this place."""
        own = self.name
        if self.folded:
            own, name = own.casefold(), name.casefold()
        if self.chosen is not None:
            return name in self.chosen and name.startswith(self.schema.casefold() if self.folded else self.schema)
        return name.startswith(own) if self.within else name == own

    def meets(self, other: Location) -> bool:
        """Whether something may lie in both."""
        return self.system == other.system and (self.holds(other.name) or other.holds(self.name))


EVERYWHERE = Location("", within=True)
"""All that a sink writes, wherever it would."""
