"""The schema in the settings of a collection."""

from __future__ import annotations

import pytest

from headwater.core.document_errors import DocumentNotFound, UnfitBody, ViewModification
from headwater.core.errors import BadInput, TooLarge
from headwater.documents.schema.settings import MOST_BYTES, check_item, new_schema, no_schema, read_schema, schema_in
from headwater.documents.view import ViewDefinition, new_view

PRICED = {"required": ["price"]}


def test_a_schema_is_kept_beside_other_settings() -> None:
    given = new_schema("c~", PRICED).decide(b'{"other":1}')
    assert given is not None
    assert schema_in(given, "c~") == b'{"required":["price"]}'
    assert new_schema("c~", PRICED).decide(given) is None
    other = new_schema("c~", True).decide(given)
    assert other is not None
    assert schema_in(other, "c~") == b"true"
    without = no_schema("c~").decide(other)
    assert without == b'{"other":1}'
    assert no_schema("c~").decide(without) is None
    for settings in (b"", without):
        with pytest.raises(DocumentNotFound):
            schema_in(settings, "c~")


def test_a_view_has_none() -> None:
    view = new_view("c~", ViewDefinition(template_uri="d~/{*}")).decide(b"")
    assert view is not None
    with pytest.raises(ViewModification):
        new_schema("c~", PRICED).decide(view)
    both = new_view("c~", ViewDefinition(template_uri="d~/{*}")).decide(new_schema("c~", PRICED).decide(b"") or b"")
    assert both is not None
    check_item(both, "c~/1", {"id": "1"})  # what it mirrors is as it is


def test_the_id_is_checked_where_the_schema_names_it() -> None:
    closed = new_schema("c~", {"additionalProperties": False}).decide(b"") or b""
    check_item(closed, "c~/1", {"id": "1"})
    with pytest.raises(UnfitBody, match="/a of c~/1 is not allowed"):
        check_item(closed, "c~/1", {"id": "1", "a": 1})
    long = new_schema("c~", {"properties": {"id": {"minLength": 2}}}).decide(b"") or b""
    check_item(long, "c~/11", {"id": "11"})
    with pytest.raises(UnfitBody, match="/id of c~/1 has 1 characters"):
        check_item(long, "c~/1", {"id": "1"})


def test_what_is_no_schema_is_refused() -> None:
    assert read_schema(b'{"type": "object"}') == {"type": "object"}
    for body in (b"", b"{", b"1", b'{"tpye": "object"}'):
        with pytest.raises(BadInput):
            read_schema(body)
    with pytest.raises(TooLarge):
        read_schema(b'"' + b"x" * MOST_BYTES + b'"')
