"""Pages of collections as HAL."""

from __future__ import annotations

from headwater.documents.hal import hal_page
from headwater.wire import json


def test_items_stand_as_they_are_stored() -> None:
    page = hal_page("a~", {"size": "2"}, [b'{"id":"1","n":1.10}', b'{"id":"2"}'], next="c", count=None)
    assert page.startswith(b'{"_embedded":{"els":[{"id":"1","n":1.10},{"id":"2"}]},')
    assert json.decoder(dict)(page)["_links"] == {
        "self": {"href": "/hyper-storage/content/a~?size=2"},
        "next": {"href": "/hyper-storage/content/a~?size=2&cursor=c"},
    }


def test_an_empty_page_is_a_page() -> None:
    assert json.decoder(dict)(hal_page("a~", {}, [], count=0)) == {
        "_embedded": {"els": []},
        "_links": {"self": {"href": "/hyper-storage/content/a~"}},
        "count": 0,
    }
