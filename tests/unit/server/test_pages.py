"""Pages for people: every address is on them, whatever a description holds stays text, and nothing is fetched from elsewhere."""

from __future__ import annotations

from html import escape

from headwater import parts
from headwater.server.openapi import document
from headwater.server.own import OWN
from headwater.server.pages import front_page, reference_page
from headwater.wire.request import shape_of


def test_every_operation_and_shape_is_on_the_page() -> None:
    described = document([*OWN, *parts.operations()], "1")
    page = reference_page(described)
    entries = {entry.partition('"')[0]: entry for entry in page.split('<details id="')[1:]}
    for operation in [*OWN, *parts.operations()]:
        shape, entry = shape_of(operation), entries[operation.id]
        assert f"<code>{operation.path}</code>" in entry
        assert escape(operation.says) in entry
        for parameter in [*shape.path.values(), *shape.query.values(), *shape.paging, *shape.headers]:
            assert f"<code>{parameter.name}</code>" in entry, operation.id
        assert ("with a ticket" in entry) == (operation.kind == "stream"), operation.id
    for name in described["components"]["schemas"]:
        assert f'id="shape-{name}"' in page
        assert f'href="#shape-{name}"' in page, name
    assert "//" not in page.replace("</", "")
    assert "<script" not in page


def test_what_a_description_holds_stays_text() -> None:
    described = document(OWN, "<b>1</b>")
    described["paths"]["/healthz"]["get"]["summary"] = "<script>alert(1)</script>"
    assert "<script" not in reference_page(described)
    assert "<b>1" not in reference_page(described) + front_page("<b>1</b>", "embedded")
