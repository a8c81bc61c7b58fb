"""Pages of lists: a part of a list, its cursor, and the Link header of the next page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from headwater.core.errors import BadInput
from headwater.wire.operation import Paging


def page_of(paging: Paging, items: Sequence[Any], cursor: str | None, limit: int) -> tuple[Sequence[Any], str | None]:
    """The items after a cursor, and the cursor of the next page; None at the end. The cursor of a sorted list is the last item's sort key:
    it stays valid while others remove items.
    """
    start = 0 if cursor is None else _start(paging, items, cursor)
    page = items[start : start + limit]
    if start + limit >= len(items):
        return page, None
    return page, "/".join(str(value) for value in _key(paging, page[-1])) if paging.by else str(start + limit)


def link_to_next(path: str, query: Mapping[str, Any], cursor: str, following: str | None) -> dict[str, str] | None:
    """The header that leads to the next page. What outranks its place is left out: with `after` it would lead to the same page for ever."""
    if following is None:
        return None
    outranks = "after" if cursor == "from" else ""
    parameters = {name: value for name, value in {**query, cursor: following}.items() if value is not None and name != outranks}
    written = urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in parameters.items()})
    return {"Link": f'<{path}?{written}>; rel="next"'}


def _start(paging: Paging, items: Sequence[Any], cursor: str) -> int:
    if not paging.by:
        return int(cursor)  # the parameter's pattern has been checked
    words = cursor.rsplit("/", len(paging.by) - 1)
    if items:
        try:
            words = [type(value)(word) for word, value in zip(words, _key(paging, items[0]), strict=True)]
        except ValueError:
            raise BadInput(f"`cursor` cannot be {cursor!r}.", hint="Give the `next` of the page before.") from None
    return sum(1 for item in items if _key(paging, item) <= tuple(words))


def _key(paging: Paging, item: Any) -> tuple[Any, ...]:
    return tuple(getattr(item, name) for name in paging.by)
