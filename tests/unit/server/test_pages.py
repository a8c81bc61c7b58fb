"""Pages for people: every address is on them, whatever a description holds stays text, and nothing is fetched from elsewhere."""

from __future__ import annotations

from headwater import parts
from headwater.server.openapi import document
from headwater.server.own import OWN
from headwater.server.pages import front_page, reference_page


def test_every_operation_and_shape_is_on_the_page() -> None:
    described = document([*OWN, *parts.operations()], "1")
    page = reference_page(described)
    for methods in described["paths"].values():
        for operation in methods.values():
            assert f'id="{operation["operationId"]}"' in page
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
