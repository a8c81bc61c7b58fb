"""Views: what a collection mirrors, and where its mirror goes on.

The definition is in the settings of the view's collection, `{"view": {...}, "position": "..."}`. Every record of a view carries the
position behind the source's changes that it mirrors. So the newest record says where to go on; the position in the settings says it where
the view has been filled, or where nothing was mirrored for long.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from headwater.core.errors import AlreadyExists, BadInput
from headwater.documents.body import state_value
from headwater.documents.calls import SettingsCall
from headwater.documents.feed_event import FeedEvent
from headwater.documents.feed_position import FeedPlace, FeedPosition
from headwater.documents.filter.evaluate import compile_filter
from headwater.documents.path import ResourcePath, parse_path
from headwater.wire import json

WILDCARD = "{*}"
FILLING = "fill"
"""The source of records that fill a view: a mirror that finds it newest, and no position in the settings, fills the view again."""


class ViewDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`template_uri`: a path in which {*} stands for one segment, which becomes the id in the view. `filter`: what its items fulfil."""

    template_uri: str
    filter: str = ""

    def check(self, uri: str) -> None:
        """Errors: `BadPath`, `BadInput`, `BadFilter`."""
        if self.template_uri.count(WILDCARD) != 1 or WILDCARD not in self.template_uri.split("/"):
            raise BadInput(
                f"The template {self.template_uri!r:.80} needs one segment {WILDCARD}.", hint="Write it such as shop/{*} or shop~/{*}."
            )
        example = parse_path(self.template_uri.replace(WILDCARD, "x"))
        if example.is_collection:
            raise BadInput("A view shows documents and items, not collections.", hint=f"For the items: {self.template_uri}/x.")
        if self.filter:
            compile_filter(self.filter)
        if self.id_of(f"{uri}/x") is not None:
            raise BadInput(f"The view {uri} would show itself.", hint="Give it another name or template.")

    @property
    def collection(self) -> str:
        """The collection whose items are mirrored; empty where documents are, or items of many collections."""
        uri, _, item = self.template_uri.rpartition("/")
        return uri if item == WILDCARD and uri.endswith("~") else ""

    @property
    def prefix(self) -> str:
        """The prefix below which everything lies that is mirrored."""
        return self.template_uri.partition(WILDCARD)[0]

    def id_of(self, path: str) -> str | None:
        """The id in the view of a document or item; None: it is not mirrored."""
        match = _pattern(self.template_uri).fullmatch(path)
        return None if match is None or parse_path(path).is_collection else match[1]

    def id_below(self, collection: str) -> str | None:
        """The id of the one item in the view that lies in a collection, where the template names many collections; None: none does."""
        uri = self.template_uri.rpartition("/")[0]
        match = _pattern(uri).fullmatch(collection) if WILDCARD in uri else None
        return None if match is None else match[1]


def _pattern(template: str) -> re.Pattern[str]:
    before, _, after = template.partition(WILDCARD)
    return re.compile(f"{re.escape(before)}([^/]+){re.escape(after)}")


class ViewSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a collection's settings that makes it a view."""

    view: ViewDefinition | None = None
    position: str = ""


def view_settings(settings: bytes) -> ViewSettings:
    """The view of a collection; without a definition where it is none."""
    return msgspec.convert(state_value(settings), ViewSettings) if settings else ViewSettings()


def new_view(uri: str, definition: ViewDefinition) -> SettingsCall:
    """Make a collection a view. Nothing changes where it is this view already. Errors of the call: `AlreadyExists`."""

    def decide(settings: bytes) -> bytes | None:
        before = view_settings(settings).view
        if before == definition:
            return None
        if before is not None:
            raise AlreadyExists(f"{uri} is a view of {before.template_uri}.", hint="Delete it first, so that what it shows goes with it.")
        return _changed(settings, {"view": definition})

    return SettingsCall(uri, decide)


def moved_view(uri: str, position: str) -> SettingsCall:
    """Note where the mirror of a view goes on; with an empty position it fills the view again."""

    def decide(settings: bytes) -> bytes | None:
        now = view_settings(settings)
        return None if now.view is None or now.position == position else _changed(settings, {"position": position})

    return SettingsCall(uri, decide)


def no_view(uri: str) -> SettingsCall:
    """Make a view an ordinary collection."""

    def decide(settings: bytes) -> bytes | None:
        return None if view_settings(settings).view is None else _changed(settings, {"view": None, "position": ""})

    return SettingsCall(uri, decide)


def _changed(settings: bytes, changes: dict[str, Any]) -> bytes:
    before: dict[str, Any] = state_value(settings) if settings else {}
    return json.encode({name: value for name, value in {**before, **changes}.items() if value})


def later_position(left: str, right: str) -> str:
    """The later of two positions of one mirror. Either may be empty or `FILLING`, which is no position."""
    positions = [position for position in (left, right) if position not in ("", FILLING)]
    if len(positions) < 2:
        return positions[0] if positions else ""
    if ":" not in left or ":" not in right:
        return str(max(map(int, positions)))
    first, second = map(FeedPosition.read, positions)
    if first.mark != second.mark or len(first.places) != len(second.places):
        return left
    return str(FeedPosition(first.mark, tuple(FeedPlace(*max(pair)) for pair in zip(first.places, second.places, strict=True))))


def mirrored_id(definition: ViewDefinition, event: FeedEvent) -> str | None:
    """The item of a view that an event of its source changes; None: none, or all of them."""
    path = ResourcePath(event.path.removesuffix(f"/{event.item}"), event.item) if event.item else parse_path(event.path)
    return definition.id_below(path.uri) if path.is_collection else definition.id_of(event.path)
