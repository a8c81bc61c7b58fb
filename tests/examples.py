"""How many examples a property test tries."""

from __future__ import annotations

import os

USUAL = 25
SOAK = int(os.environ.get("SOAK_EXAMPLES", "0"))


def examples(count: int = USUAL) -> int:
    """So many, and at least those of `make soak` where it runs. Every run tries others: many at once are for the soak."""
    return max(count, SOAK)
