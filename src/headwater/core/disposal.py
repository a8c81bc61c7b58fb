"""Disposal: what becomes of the file of a drained segment, one whose records are all deleted."""

from __future__ import annotations

from typing import Literal, get_args

Disposal = Literal["delete", "reset", "truncate", "secure-delete", "secure-reset", "secure-truncate"]
DISPOSALS: tuple[Disposal, ...] = get_args(Disposal)


def overwrites(disposal: Disposal) -> bool:
    """Whether the file's bytes are overwritten, and that is synced, before anything else happens to it."""
    return disposal.startswith("secure-")


def recycles(disposal: Disposal) -> bool:
    """Whether the file is kept, full of zeros, to become a later segment: at its length (reset), or at three blocks (truncate)."""
    return not disposal.endswith("delete")


def shortens(disposal: Disposal) -> bool:
    """Whether a kept file is cut down to three blocks."""
    return disposal.endswith("truncate")
