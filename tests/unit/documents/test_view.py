"""Definitions and positions of views."""

from __future__ import annotations

import msgspec
import pytest

from headwater.core.errors import AlreadyExists, BadInput
from headwater.documents.feed_event import FeedEvent
from headwater.documents.view import (
    FILLING,
    ViewDefinition,
    later_position,
    mirrored_id,
    moved_view,
    new_view,
    no_view,
    view_settings,
)

SHOP = ViewDefinition(template_uri="shop/{*}")


@pytest.mark.parametrize(
    ("template", "path", "id"),
    [
        ("shop/{*}", "shop/hat", "hat"),
        ("shop/{*}", "shop/hat/more", None),
        ("shop/{*}", "shop/hats~", None),  # a collection is no document
        ("shop/{*}", "shop.x", None),
        ("shop~/{*}", "shop~/hat", "hat"),
        ("{*}/settings", "me/settings", "me"),
        ("users/{*}/mail~/last", "users/me/mail~/last", "me"),
    ],
)
def test_the_id_in_a_view(template: str, path: str, id: str | None) -> None:
    assert ViewDefinition(template_uri=template).id_of(path) == id


def test_where_a_view_reads() -> None:
    assert (SHOP.collection, SHOP.prefix) == ("", "shop/")
    assert ViewDefinition(template_uri="shop~/{*}").collection == "shop~"
    assert ViewDefinition(template_uri="{*}/settings").prefix == ""


def test_the_deletion_of_a_collection_below() -> None:
    definition = ViewDefinition(template_uri="users/{*}/mail~/last")
    deleted = FeedEvent(kind="feed", method="delete", path="users/me/mail~")
    assert mirrored_id(definition, deleted) == "me"
    assert mirrored_id(definition, FeedEvent(kind="feed", method="put", path="users/me/mail~/last", item="last")) == "me"
    assert mirrored_id(SHOP, FeedEvent(kind="feed", method="delete", path="shop/hats~")) is None
    assert mirrored_id(SHOP, FeedEvent(kind="feed", method="delete", path="shop/hat")) == "hat"


@pytest.mark.parametrize("template", ["a/b", "{*}", "a/x{*}", "{*}/{*}", "a/{*}/c~", "a~/b~/{*}", "v~/{*}"])
def test_templates_that_fit_or_not(template: str) -> None:
    if template == "{*}":
        ViewDefinition(template_uri=template).check("v~")
        return
    with pytest.raises(BadInput):
        ViewDefinition(template_uri=template).check("v~")


def test_settings_keep_what_else_they_hold() -> None:
    made = new_view("v~", SHOP).decide(b'{"schema":{"type":"object"}}')
    assert made is not None
    assert view_settings(made).view == SHOP
    moved = moved_view("v~", "7").decide(made)
    assert moved is not None
    assert view_settings(moved).position == "7"
    assert moved_view("v~", "7").decide(moved) is None
    assert new_view("v~", SHOP).decide(moved) is None
    with pytest.raises(AlreadyExists):
        new_view("v~", ViewDefinition(template_uri="x/{*}")).decide(moved)
    ended = no_view("v~").decide(moved)
    assert ended is not None
    assert msgspec.json.decode(ended) == {"schema": {"type": "object"}}
    assert moved_view("v~", "8").decide(ended) is None
    assert no_view("v~").decide(b"") is None


def test_the_later_position() -> None:
    assert later_position("", "") == ""
    assert later_position("7", FILLING) == "7"
    assert later_position("7", "12") == "12"
    assert later_position("00000001:5,9", "00000001:6.1,3") == "00000001:6.1,9"
    assert later_position("00000001:5,9", "00000002:6,3") == "00000001:5,9"
