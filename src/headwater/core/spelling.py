"""Hints for unknown names, and the ends of sentences."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

_MOST = 1000  # the most names to compare: a typo must not cost a million comparisons


def meant(name: str, known: Iterable[str]) -> str:
    """The known name nearest to an unknown one; empty when none is near. What was created meanwhile under the same name is not meant."""
    near = difflib.get_close_matches(name, [candidate for candidate in islice(known, _MOST) if candidate != name], 1)
    return near[0] if near else ""


def sentence(text: str) -> str:
    """The text with one mark at its end: a full stop, unless it ends with a question mark or an exclamation mark."""
    text = text.strip()
    return text if text.endswith(("?", "!")) else f"{text.rstrip('.')}."


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, or with all of them when none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(names)}."
