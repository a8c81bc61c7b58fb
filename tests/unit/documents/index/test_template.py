from __future__ import annotations

from typing import Any

import pytest

from headwater.core.document_errors import BadFilter, BadPath, UnknownIndex
from headwater.core.errors import AlreadyExists, BadInput
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.template import TEMPLATES, IndexTemplate, new_template, no_template, templates_in
from headwater.documents.path import parse_path

BY_PRICE = IndexTemplate(id="by-price", template_uri="shop/*~", sort_by=(SortField("price", "desc", "decimal"),), filter_by="price > 0")


@pytest.mark.parametrize(
    ("template", "fits", "others"),
    [
        ("shop/*~", ["shop/a~", "shop/~", "shop/a.b~"], ["shop/a", "shop/a/b~", "shops/a~", "shop/a~/1"]),
        ("*/orders~", ["ann/orders~"], ["orders~", "a/b/orders~", "ann/orders~x"]),
        ("u/*/e*~", ["u/1/e~", "u/1/events~"], ["u/1/x~"]),
    ],
)
def test_a_star_is_anything_but_a_slash(template: str, fits: list[str], others: list[str]) -> None:
    made = IndexTemplate(id="i", template_uri=template)
    made.check()
    assert all(map(made.fits, fits))
    assert not any(map(made.fits, others))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"template_uri": "shop~"}, BadInput),
        ({"template_uri": "shop/*"}, BadInput),
        ({"template_uri": "a b/*~"}, BadPath),
        ({"template_uri": "a~/*~/b"}, BadPath),
        ({"template_uri": "*~", "filter_by": "b >"}, BadFilter),
        ({"template_uri": "*~", "sort_by": (SortField("a b"),)}, BadFilter),
    ],
)
def test_what_is_no_template_is_refused(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        IndexTemplate(id="i", **wrong).check()


def test_templates_are_kept_beside_other_settings() -> None:
    first = new_template(BY_PRICE).decide(b'{"other":1}')
    assert first is not None
    assert templates_in(first) == {"by-price": BY_PRICE}
    assert BY_PRICE.index == IndexDefinition(id="by-price", number=0, sort_by=BY_PRICE.sort_by, filter_by="price > 0")
    assert new_template(BY_PRICE).decide(first) is None
    with pytest.raises(AlreadyExists):
        new_template(IndexTemplate(id="by-price", template_uri="*~")).decide(first)
    assert no_template("by-price").decide(first) == b'{"other":1,"templates":{}}'
    with pytest.raises(UnknownIndex):
        no_template("none").decide(first)
    many = first
    for number in range(99):
        many = new_template(IndexTemplate(id=f"i{number}", template_uri="*~")).decide(many) or b""
    with pytest.raises(BadInput, match="100 templates"):
        new_template(IndexTemplate(id="one-more", template_uri="*~")).decide(many)


def test_no_client_can_write_what_holds_them() -> None:
    with pytest.raises(BadPath):
        parse_path(TEMPLATES)
