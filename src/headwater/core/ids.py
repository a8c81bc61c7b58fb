"""Random ids. Code that needs ids takes a function, so that tests pass a counter."""

from __future__ import annotations

import secrets
from collections.abc import Callable

Ids = Callable[[], str]


def random_id() -> str:
    """128 random bits as 32 hex digits."""
    return secrets.token_hex(16)
