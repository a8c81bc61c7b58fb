"""Where the actions of a partition's journals lie, in 16 bytes each: what a head cache had to drop is found without a scan."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

_CHUNK = 1 << 16  # actions that are sorted together


class _Chunk:
    """Actions in the order of their keys' hashes. `newest`: the last offset."""

    __slots__ = ("_hashes", "_offsets", "newest")

    def __init__(self, hashes: array[int], offsets: array[int]) -> None:
        unsorted: npt.NDArray[np.int64] = np.frombuffer(hashes, np.int64)
        order = np.argsort(unsorted, kind="stable")  # so that one key's offsets stay in order
        self._hashes, self._offsets = unsorted[order], np.frombuffer(offsets, np.int64)[order]
        self.newest = offsets[-1]

    def find(self, hashed: int) -> Iterator[int]:
        low, high = np.searchsorted(self._hashes, hashed, "left"), np.searchsorted(self._hashes, hashed, "right")
        yield from self._offsets[low:high].tolist()


class OffsetIndex:
    """Offsets by key, from `since` on. Add them in order. Two keys may share a hash: whoever reads the records looks at their keys.

    Not safe for several threads. `most`: actions that it holds; beyond that the oldest go, and `since` moves up.
    """

    def __init__(self, since: int, *, most: int) -> None:
        self.since, self._most = since, most
        self._chunks: list[_Chunk] = []
        self._hashes, self._offsets = array("q"), array("q")
        self._newest: dict[int, list[int]] = {}  # those that are not in a chunk yet

    def __len__(self) -> int:
        return len(self._chunks) * _CHUNK + len(self._offsets)

    def add(self, key: bytes, offset: int) -> None:
        """An action of a journal lies at an offset."""
        hashed = hash(key)
        self._hashes.append(hashed)
        self._offsets.append(offset)
        self._newest.setdefault(hashed, []).append(offset)
        if len(self._offsets) == _CHUNK:
            self._chunks.append(_Chunk(self._hashes, self._offsets))
            self._hashes, self._offsets, self._newest = array("q"), array("q"), {}
            while len(self._chunks) * _CHUNK > self._most:
                self.since = self._chunks.pop(0).newest + 1

    def find(self, key: bytes, start: int, end: int) -> list[int]:
        """Offsets in [start, end) that may be of a journal, ascending. Those below `since` are missing."""
        hashed = hash(key)
        offsets = [offset for chunk in self._chunks if chunk.newest >= start for offset in chunk.find(hashed)]
        offsets += self._newest.get(hashed, ())
        return [offset for offset in offsets if start <= offset < end]

    def forget(self, pointer: int) -> None:
        """Forget what lies up to `pointer`, chunk by chunk."""
        while self._chunks and self._chunks[0].newest <= pointer:
            self._chunks.pop(0)
        if not self._chunks and self._offsets and self._offsets[-1] <= pointer:
            self._hashes, self._offsets, self._newest = array("q"), array("q"), {}
        self.since = max(self.since, pointer + 1)
