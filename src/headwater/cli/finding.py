"""What one check of `headwater doctor` has found."""

from __future__ import annotations

from typing import Any

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """`said` is what is the case; `todo` what to do about it, empty when nothing is to be done. Not `ok` makes doctor end with 6."""

    check: str
    ok: bool
    said: str
    todo: str = ""
    facts: dict[str, Any] = {}
