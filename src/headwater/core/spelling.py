"""Hints for names that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

_MOST = 1000  # names that are compared: a typo must not cost a look at a million of them


def meant(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest to one that nobody knows; empty when none is near."""
    near = difflib.get_close_matches(name, list(islice(known, _MOST)), 1)
    return near[0] if near else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest of the known names, and all of them when none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(names)}."
