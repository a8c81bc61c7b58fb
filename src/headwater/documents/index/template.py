"""Templates of indexes: every collection whose path fits a template gets its index.

The templates are in the settings of one reserved document, whose path no client can write.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from headwater.core.document_errors import UnknownIndex
from headwater.core.errors import AlreadyExists, BadInput
from headwater.documents.body import state_value
from headwater.documents.calls import SettingsCall
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.definition import checked_index
from headwater.documents.path import parse_path
from headwater.wire import json

TEMPLATES: Final = "{templates}"
"""The document that holds them: braces are in no path."""
_MOST: Final = 100


class IndexTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`template_uri`: the path of collections, in which * stands for any characters but a slash."""

    id: str
    template_uri: str
    sort_by: tuple[SortField, ...] = ()
    filter_by: str = ""
    materialize: bool = False

    def check(self) -> None:
        """Errors: `BadPath`, `BadInput`, `BadFilter`."""
        if "*" not in self.template_uri:
            raise BadInput(f"The template {self.template_uri!r:.80} has no *.", hint="Make an index of the collection itself.")
        if not parse_path(self.template_uri.replace("*", "x")).is_collection:
            raise BadInput(f"The template {self.template_uri!r:.80} names no collections.", hint="End it with ~, such as shop/*~.")
        checked_index(self.index)

    @property
    def index(self) -> IndexDefinition:
        """The index that a collection gets."""
        return IndexDefinition(id=self.id, number=0, sort_by=self.sort_by, filter_by=self.filter_by, materialize=self.materialize)

    def fits(self, uri: str) -> bool:
        """Whether a collection gets the index."""
        return _pattern(self.template_uri).fullmatch(uri) is not None


@lru_cache(maxsize=1024)
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(map(re.escape, template.split("*"))))


def templates_in(settings: bytes) -> dict[str, IndexTemplate]:
    """The templates by id."""
    templates = _settings(settings).get("templates", {})
    return {id: msgspec.convert(template, IndexTemplate) for id, template in sorted(templates.items())}


def new_template(template: IndexTemplate) -> SettingsCall:
    """Add a template. Nothing changes where it is there. Errors of the call: `AlreadyExists` where its id has another one; `BadInput`."""

    def decide(settings: bytes) -> bytes | None:
        templates = templates_in(settings)
        before = templates.get(template.id)
        if before == template:
            return None
        if before is not None:
            raise AlreadyExists(
                f"The template {template.id} is of {before.template_uri}.",
                hint=f"Delete it first: `headwater doc template delete {template.id}`.",
            )
        if len(templates) >= _MOST:
            raise BadInput(f"There are {len(templates)} templates.", hint=f"At most {_MOST}: each is looked at with every new collection.")
        return _kept(settings, {**templates, template.id: template})

    return SettingsCall(TEMPLATES, decide)


def no_template(id: str) -> SettingsCall:
    """Take a template away; the indexes that it made stay. Errors of the call: `UnknownIndex`."""

    def decide(settings: bytes) -> bytes | None:
        templates = templates_in(settings)
        if id not in templates:
            raise unknown_template(id)
        return _kept(settings, {name: template for name, template in templates.items() if name != id})

    return SettingsCall(TEMPLATES, decide)


def unknown_template(id: str) -> UnknownIndex:
    """The error for a template that is not there."""
    return UnknownIndex(f"There is no template {id!r:.60} of indexes.", hint="List them with `headwater doc template list`.")


def _kept(settings: bytes, templates: dict[str, IndexTemplate]) -> bytes:
    return json.encode({**_settings(settings), "templates": templates})


def _settings(settings: bytes) -> dict[str, Any]:
    fields = state_value(settings) if settings else {}
    return fields if isinstance(fields, dict) else {}
