"""Locations: when two of them are one, or one lies in the other."""

from __future__ import annotations

import pytest

from headwater.pipeline.location import EVERYWHERE, Location
from headwater.pipeline.namespaces import Namespaces


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (Location("s", "a"), Location("s", "a"), True),
        (Location("s", "a"), Location("t", "a"), False),
        (Location("s", "a"), Location("s", "A"), False),
        (Location("s", "a", folded=True), Location("s", "A"), True),
        (Location("s", "a/", within=True), Location("s", "a/b"), True),
        (Location("s", "a/b/", within=True), Location("s", "a/", within=True), True),
        (Location("s", "a/", within=True), Location("s", "ab/", within=True), False),
        (Location("s", chosen=Namespaces("^shop")), Location("s", "shop.a"), True),
        (Location("s", chosen=Namespaces("^shop")), Location("s", "bar.a"), False),
        (Location("s", chosen=Namespaces("^shop"), schema="shop."), Location("s", "shop.a"), True),
        (Location("s", chosen=Namespaces("^shop"), schema="shop."), Location("s", "shop_copy.a"), False),
        (Location("s", chosen=Namespaces("^shop"), schema="Shop.", folded=True), Location("s", "SHOP.a"), True),
    ],
)
def test_they_meet_whichever_is_asked(one: Location, other: Location, meet: bool) -> None:
    assert one.meets(other) is meet
    assert other.meets(one) is meet


def test_everywhere_holds_every_name() -> None:
    assert EVERYWHERE.holds("")
    assert EVERYWHERE.holds("public.orders")
