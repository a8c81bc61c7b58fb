"""Ranges of offsets as text: `17`, `17..20` with both ends included, `17..` without an end."""

from __future__ import annotations

import re

from headwater.core.errors import BadBounds

_RANGE = re.compile(r"([0-9]{1,18})(?:(\.\.)([0-9]{1,18})?)?", re.ASCII)


def read_range(text: str, what: str = "offsets") -> tuple[int, int | None]:
    """The first number and the last, both included; None where the range has no end. Errors: `BadBounds`."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise BadBounds(f"{text.strip()!r} is no range of {what}.", hint="Write one (17), a range (17..20) or all from one on (17..).")
    first = int(match[1])
    last = int(match[3]) if match[3] else None if match[2] else first
    if last is not None and last < first:
        raise BadBounds(f"{text} is the wrong way round.", hint=f"Write {last}..{first}.")
    return first, last


def read_closed_range(text: str, what: str = "messages") -> tuple[int, int]:
    """The same for a range that must have an end. Errors: `BadBounds`."""
    first, last = read_range(text, what)
    if last is None:
        raise BadBounds(f"{text!r} has no end.", hint=f"Write X..Y, both included, as in {first}..{first + 9}.")
    return first, last
