"""What a queue still knows of rows that are done: their results by id, and keys that must not be put again for a while.

Part of the fold: it reads no clock. What is over is forgotten when a record begins whose time is behind its date; whoever looks at it
before that compares the date. A queue that keeps neither has nothing here.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from headwater.queue.date_heap import NEVER

MOST_BYTES = 256 << 20
"""Memory that the results of a queue may take, about; beyond it the oldest are forgotten before their date."""
SAME = 2
"""The form of a result that is that of another row, whose id it has: the row which took up this one, a follow-up."""
_COST = 320  # bytes of a result in memory, beside its own
_PART = 32  # bytes of either in a record, beside its own
_SPARE = 1024
_AT_ONCE = 500


class KeptResult(NamedTuple):
    """What a row's worker has said of it, until `expires`."""

    expires: int
    form: int
    data: bytes
    home: int


class DoneKey(NamedTuple):
    """A key whose row was done: which row, when, and until when that is remembered."""

    id: int
    done: int
    until: int
    home: int


class Finished:
    """Results by id, and done keys; both in the order of their homes."""

    def __init__(self, enter_home: Callable[[], int], leave_home: Callable[[int], None]) -> None:
        """`enter_home`: the record that is being made is the home of one thing more; returns its sequence."""
        self._enter_home, self._leave_home = enter_home, leave_home
        self.results: OrderedDict[int, KeptResult] = OrderedDict()  # a plain dict passes all that was removed before its first entry
        self.keys: OrderedDict[bytes, DoneKey] = OrderedDict()
        self.result_bytes = self.key_bytes = 0
        self.earliest = NEVER
        """Nothing is over before this date."""
        self._dates: list[tuple[int, int]] = []
        self._key_dates: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return len(self.results) + len(self.keys)

    @property
    def size(self) -> int:
        """Bytes that all of it takes in records."""
        return self.result_bytes + self.key_bytes + _PART * len(self)

    @property
    def oldest_home(self) -> int:
        """The first record that is the home of something here; `NEVER`: none is."""
        result = next(iter(self.results.values())).home if self.results else NEVER
        return min(result, next(iter(self.keys.values())).home if self.keys else NEVER)

    def keep(self, id: int, expires: int, form: int, data: bytes) -> None:
        """Keep the result of a row; one that the row had is replaced."""
        known = self.results.pop(id, None)
        if known is not None:
            self.result_bytes -= len(known.data)
            self._leave_home(known.home)
        self.results[id] = KeptResult(expires, form, data, self._enter_home())
        self.result_bytes += len(data)
        if known is None or known.expires != expires:
            heapq.heappush(self._dates, (expires, id))
            self.earliest = min(self.earliest, expires)
            if len(self._dates) > 2 * len(self.results) + _SPARE:
                self._dates = sorted((result.expires, id) for id, result in self.results.items())

    def remember(self, key: bytes, id: int, done: int, until: int) -> None:
        """A key is done. Where it was done before, and that is remembered for longer, the longer time counts."""
        known = self.keys.pop(key, None)
        if known is not None:
            until = max(until, known.until)
            self._leave_home(known.home)
        else:
            self.key_bytes += len(key)
        self.keys[key] = DoneKey(id, done, until, self._enter_home())
        if known is None or known.until != until:
            heapq.heappush(self._key_dates, (until, key))
            self.earliest = min(self.earliest, until)
            if len(self._key_dates) > 2 * len(self.keys) + _SPARE:
                self._key_dates = sorted((done_key.until, key) for key, done_key in self.keys.items())

    def forget(self, ids: Iterable[int]) -> None:
        """Forget results before their date."""
        for id in ids:
            known = self.results.pop(id, None)
            if known is not None:
                self.result_bytes -= len(known.data)
                self._leave_home(known.home)

    def forget_until(self, now: int) -> None:
        """Forget what is over."""
        while self._dates and self._dates[0][0] <= now:
            date, id = heapq.heappop(self._dates)
            if (result := self.results.get(id)) is not None and result.expires == date:
                self.forget((id,))
        while self._key_dates and self._key_dates[0][0] <= now:
            date, key = heapq.heappop(self._key_dates)
            if (known := self.keys.get(key)) is not None and known.until == date:
                del self.keys[key]
                self.key_bytes -= len(key)
                self._leave_home(known.home)
        self.earliest = min(
            self._dates[0][0] if self._dates else NEVER,
            self._key_dates[0][0] if self._key_dates else NEVER,
        )

    def surplus(self) -> list[int]:
        """The ids of the oldest results, those beyond `MOST_BYTES`, as many as one record forgets. The newest is never among them."""
        size, ids = self.result_bytes + _COST * len(self.results), list[int]()
        if size > MOST_BYTES:
            for id, result in self.results.items():
                if size <= MOST_BYTES or len(ids) == min(len(self.results) - 1, _AT_ONCE):
                    break
                ids.append(id)
                size -= len(result.data) + _COST
        return ids
