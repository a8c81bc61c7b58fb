"""The result of one check of `headwater doctor`."""

from __future__ import annotations

from typing import Any

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """`said` is the fact; `todo` the next step, empty if none. A finding that is not `ok` makes doctor end with 6."""

    check: str
    ok: bool
    said: str
    todo: str = ""
    facts: dict[str, Any] = {}
