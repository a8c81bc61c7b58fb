"""The fixed fields of many records at once, straight from mapped bytes, by numpy alone."""

from __future__ import annotations

import mmap
from functools import lru_cache
from typing import Any

import numpy as np

Column = np.ndarray[tuple[int], np.dtype[Any]]
HEAD_FIELDS = np.dtype([("offset", ">u8"), ("message", ">u4"), ("timestamp", ">u8"), ("mode", "u1"), ("key", ">u4")])
_FIXED = np.dtype([*HEAD_FIELDS.descr, ("first", "<u4")])  # what follows the fixed fields: the key's first bytes, in the order of the file
_RAW = f"V{_FIXED.itemsize}"


def gather(data: mmap.mmap, size: int, kind: str, at: Column) -> Column:
    """The numbers of type `kind` at any byte positions, as native ones: an overlapping view makes it one numpy call."""
    width = np.dtype(kind).itemsize
    overlapping: Column = np.ndarray((size - width + 1,), kind, data, 0, (1,))
    return overlapping[at]


def heads(data: mmap.mmap, size: int, starts: Column) -> Column:
    """The fixed fields of the records that begin at `starts`, and the four bytes behind them.

    A record's fields are taken at once: five times as fast as a `gather` for each of them.
    """
    fields: Column = gather(data, size, _RAW, starts).view(_FIXED)
    return fields


def wide_heads(data: mmap.mmap, size: int, starts: Column, width: int) -> Column | None:
    """As `heads`, and at once also `size` and `begin`: the data's length and its first four bytes, where keys have `width` bytes.

    Whether they have is not looked at. None where one of the records is said to begin where those fields cannot be.
    """
    kind = _wide(width)
    last = size - kind.itemsize
    if last < 0 or int(starts.min()) < 0 or int(starts.max()) > last:
        return None
    fields: Column = gather(data, size, f"V{kind.itemsize}", starts).view(kind)
    return fields


@lru_cache(maxsize=128)
def _wide(width: int) -> np.dtype[Any]:
    return np.dtype(
        {
            "names": ["offset", "message", "timestamp", "mode", "key", "first", "size", "begin"],
            "formats": [">u8", ">u4", ">u8", "u1", ">u4", "<u4", ">u4", "<u4"],
            "offsets": [0, 8, 12, 20, 21, 25, 25 + width, 29 + width],
            "itemsize": 33 + width,
        }
    )
