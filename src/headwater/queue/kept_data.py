"""Large data that a queue keeps in memory beside the log, so that rows which are claimed soon are not read.

The first that come are kept, up to a limit; they go with their rows. A queue that is longer than that gives out the kept ones first:
keeping the last that came would let go of the very rows that are claimed next.
"""

from __future__ import annotations

from headwater.queue.data_place import DataPlace


class KeptData:
    """Data by their places. What is not kept is on the log."""

    __slots__ = ("_data", "limit", "size")

    def __init__(self, limit: int = 0) -> None:
        """`limit`: bytes that are kept at most."""
        self._data: dict[DataPlace, bytes] = {}
        self.limit, self.size = limit, 0

    def add(self, place: DataPlace, data: bytes) -> None:
        """Keep data where there is room."""
        if self.size + len(data) <= self.limit:
            self._data[place] = data
            self.size += len(data)

    def get(self, place: DataPlace) -> bytes:
        """The data; the place itself where they are not kept."""
        return self._data.get(place, place)

    def remove(self, place: DataPlace) -> None:
        """A row of these data is gone."""
        data = self._data.pop(place, None)
        if data is not None:
            self.size -= len(data)
