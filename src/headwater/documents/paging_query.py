"""The seed's way to ask for the next page: `?size=50&id>"abc"` means the filter `id>"abc"`."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_plus

_NAMED = re.compile(rb"[A-Za-z_]+(?:=|$)")
_FILTER = re.compile(r"\s*[A-Za-z_$`][\w$.`]*\s*(?:[<>]=?|!?=)")


def filter_of_paging(query: bytes) -> bytes:
    """The query with a bare expression as its filter, together with the filter that is given. Other queries stay as they are."""
    if b">" not in query and b"<" not in query and b"%3" not in query.lower():
        return query
    parts = query.split(b"&")
    bare = [part for part in parts if not _NAMED.match(part) and _FILTER.match(_decoded(part))]
    if not bare:
        return query
    rest = [part for part in parts if part not in bare]
    filters = [_decoded(part.removeprefix(b"filter=")) for part in rest if part.startswith(b"filter=") and part != b"filter="]
    wanted = [*filters, *map(_decoded, bare)]
    joined = wanted[0] if len(wanted) == 1 else " and ".join(f"({expression})" for expression in wanted)
    return b"&".join([*(part for part in rest if not part.startswith(b"filter=")), b"filter=" + quote(joined, safe="").encode()])


def _decoded(part: bytes) -> str:
    return unquote_plus(part.decode("latin-1"), errors="replace")
