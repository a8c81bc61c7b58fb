"""Sections of settings that a part brings: one of its name, or one for each thing that users name.

    JOURNAL = Section("journal", JournalSettings)            # [journal]
    QUEUES = NamedSection("queue", EffectiveSettings)            # [queue.pages], [queue.mail], …

    JOURNAL.of(settings).round
    QUEUES.of(settings, "pages").lease                       # the defaults where nothing is written for pages

The struct is frozen, every field has a default and is annotated with a `Note`, as in `headwater.core.settings`. A `PartDefinition` names
its sections, and `headwater.core.config` fills them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from headwater.core.settings import Settings

T = TypeVar("T", bound=msgspec.Struct)

ANY_NAME = "NAME"
"""Stands for the name where every section of a kind is meant: `queue.NAME.lease`."""


class Section(Generic[T]):
    """`[name]`."""

    def __init__(self, name: str, fields: type[T]) -> None:
        self.name, self.fields = name, fields

    def of(self, settings: Settings) -> T:
        """The values of the section, with defaults for unset ones."""
        return cast(T, settings.sections.get(self.name) or self.fields())


class NamedSection(Generic[T]):
    """`[name.NAME]`, one for each thing that users name."""

    def __init__(self, name: str, fields: type[T]) -> None:
        self.name, self.fields = name, fields

    def of(self, settings: Settings, name: str) -> T:
        """The values for `name`, with defaults for unset ones."""
        return cast(T, settings.sections.get(self.name, {}).get(name) or self.fields())

    def names(self, settings: Settings) -> list[str]:
        """The names for which something is set, sorted."""
        return sorted(settings.sections.get(self.name, {}))


AnySection = Section[msgspec.Struct] | NamedSection[msgspec.Struct]


def sections_of_parts() -> Sequence[AnySection]:
    """The sections of all parts. The list of parts is in a higher layer, so this imports it when settings are read."""
    return cast(Sequence[AnySection], import_module("headwater.parts").sections())
