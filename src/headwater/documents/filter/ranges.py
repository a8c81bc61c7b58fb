"""Sets of values as ranges of their byte keys: what `a > 5`, `a = "x"` and `a != null` leave of a field's values.

A range is low <= key < high. No key is the beginning of another, so that the bytes of a key and FF behind them lie after this key and
before the next, whatever follows it in the row of an index.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from headwater.core import bytekeys
from headwater.documents.filter.tree import Constant
from headwater.documents.filter.values import NULL, NUMBER, TEXT, kind

AFTER: Final = b"\xff"
BOTTOM: Final = b"\x05"  # the key of null
TOP: Final = b"\xff"
_NUMBERS: Final = (b"\x10", b"\x13")
_TEXTS: Final = (b"\x20\0\0", b"\x21")  # from the empty text on
_LISTS: Final = (b"\x40", b"\x41")
_OBJECTS: Final = (b"\x41", b"\x42")
_INVERTED: Final = bytes(range(255, -1, -1))


class KeyRange(NamedTuple):
    """low <= key < high."""

    low: bytes
    high: bytes

    @property
    def point(self) -> bytes | None:
        """The only key of the range, where it has but one."""
        return self.low if self.high == self.low + AFTER else None

    def inverted(self) -> KeyRange:
        """The range of the keys with every byte inverted, as those of a descending field."""
        return KeyRange(next_prefix(invert(self.high)), next_prefix(invert(self.low)))


class KeyRanges(NamedTuple):
    """A set of values: ranges in their order, with gaps between them."""

    ranges: tuple[KeyRange, ...]

    def intersection(self, other: KeyRanges) -> KeyRanges:
        """The values of both."""
        ranges: list[KeyRange] = []
        left = right = 0
        while left < len(self.ranges) and right < len(other.ranges):
            left_range, right_range = self.ranges[left], other.ranges[right]
            low, high = max(left_range.low, right_range.low), min(left_range.high, right_range.high)
            if low < high:
                ranges.append(KeyRange(low, high))
            if left_range.high <= right_range.high:
                left += 1
            else:
                right += 1
        return KeyRanges(tuple(ranges))

    def union(self, other: KeyRanges) -> KeyRanges:
        """The values of either."""
        return united((self, other))

    def complement(self) -> KeyRanges:
        """All other values."""
        edges = [BOTTOM, *(edge for each in self.ranges for edge in each), TOP]
        return KeyRanges(tuple(KeyRange(low, high) for low, high in list(pairwise(edges))[::2] if low < high))

    def within(self, other: KeyRanges) -> bool:
        """Whether every value is one of the other's."""
        return self.intersection(other) == self

    @property
    def hull(self) -> KeyRange:
        """The least range that holds all."""
        return KeyRange(self.ranges[0].low, self.ranges[-1].high) if self.ranges else KeyRange(b"", b"")


ALL: Final = KeyRanges((KeyRange(BOTTOM, TOP),))
NONE: Final = KeyRanges(())
ALL_TEXTS: Final = KeyRanges((KeyRange(*_TEXTS),))
ALL_LISTS: Final = KeyRanges((KeyRange(*_LISTS),))
CONTAINERS: Final = KeyRanges((KeyRange(*_TEXTS), KeyRange(_LISTS[0], _OBJECTS[1])))


def united(sets: Iterable[KeyRanges]) -> KeyRanges:
    """The values of any of these sets."""
    ranges: list[KeyRange] = []
    for each in sorted(each for values in sets for each in values.ranges):
        if ranges and each.low <= ranges[-1].high:
            ranges[-1] = KeyRange(ranges[-1].low, max(ranges[-1].high, each.high))
        else:
            ranges.append(each)
    return KeyRanges(tuple(ranges))


def point(key: bytes) -> KeyRanges:
    """The set of one value."""
    return KeyRanges((KeyRange(key, key + AFTER),))


def compared(operator: str, constant: Constant) -> KeyRanges:
    """The values for which `value operator constant` is true; the operator is =, !=, <, <=, > or >=."""
    match operator:
        case "=":
            return point(constant.key)
        case "!=":
            return point(constant.key).complement()
    match kind(constant.value):
        case k if k == NUMBER:
            least, most = _NUMBERS
        case k if k == TEXT:
            least, most = _TEXTS
        case k if k == NULL and operator in ("<=", ">="):
            return point(constant.key)
        case _:
            return NONE
    match operator:
        case "<":
            key_range = KeyRange(least, constant.key)
        case "<=":
            key_range = KeyRange(least, constant.key + AFTER)
        case ">":
            key_range = KeyRange(constant.key + AFTER, most)
        case _:
            key_range = KeyRange(constant.key, most)
    return KeyRanges((key_range,)) if key_range.low < key_range.high else NONE


def invert(key: bytes) -> bytes:
    """The key of a descending field."""
    return key.translate(_INVERTED)


def next_prefix(prefix: bytes) -> bytes:
    """The first bytes behind all that begin with a prefix; empty where there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b""


def text_of(bound: bytes) -> str | None:
    """The text at a bound of a range of texts, with a zero behind it where the bound lies after the text; None where it is no text's."""
    if len(bound) <= 1:
        return None
    after = bound.endswith(AFTER)
    [text] = bytekeys.decode(bound[:-1] if after else bound)
    return f"{text}\0" if after else str(text)
