"""Ids are a collaborator, too: tests pass a counter where the product passes randomness."""

from __future__ import annotations

import secrets
from collections.abc import Callable

Ids = Callable[[], str]


def random_id() -> str:
    """128 random bits as 32 hex digits."""
    return secrets.token_hex(16)
