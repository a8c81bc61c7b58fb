"""Pages of collections as HAL: items in `_embedded.els`, links in `_links`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from headwater.documents.answers import HalLink, content_address
from headwater.wire import json


def hal_page(path: str, query: Mapping[str, str], items: Iterable[bytes], *, next: str | None = None, **more: Any) -> bytes:
    """A page, of items as they are stored. `query`: what was asked for. `next`: the cursor of the next page. `more`: what else it tells;
    None is left out."""
    address = content_address(path)
    links = {"self": HalLink(_asked(address, query))}
    if next is not None:
        links["next"] = HalLink(_asked(address, {**query, "cursor": next}))
    fields = {"_links": links, **{name: value for name, value in more.items() if value is not None}}
    return b'{"_embedded":{"els":[%b]},%b' % (b",".join(items), json.encode(fields)[1:])


def _asked(address: str, query: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(query)}" if query else address
