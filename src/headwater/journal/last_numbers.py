"""The last numbers of a partition's journals, as its writer knows them, and the look-ups of those that it does not know.

A look-up may ask a store that is far away, or that does not answer. So it runs in a thread of its own, and the calls of its journal wait
for it; those of all other journals go on. What is appended meanwhile is folded into the answer, so that it is as exact as one of now.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from headwater.journal.action import ActionRecord, Append, Purge

MOST_LOOKUPS = 16
"""Threads of one partition that look journals up at once."""
Call = TypeVar("Call")


class Lookup(Generic[Call]):
    """A journal that is looked up. `calls`: those that wait for it. `error`: why it cannot be looked up. `outdated`: the answer may lack
    what was appended since."""

    __slots__ = ("answer", "base", "calls", "end", "error", "floor", "id", "outdated")

    def __init__(self, id: str, end: int, calls: Sequence[Call]) -> None:
        self.id, self.end, self.calls = id, end, list(calls)
        self.answer, self.floor = 0, 0
        self.base: int | None = None  # what is known whatever the answer is
        self.error: Exception | None = None
        self.outdated = False

    def fold(self, last: int) -> None:
        """Let an Append up to a number count."""
        if self.base is None:
            self.floor = max(self.floor, last)
        else:
            self.base = max(self.base, last)

    @property
    def last(self) -> int:
        """The last number now."""
        return max(self.answer, self.floor) if self.base is None else self.base


class LastNumbers(Generic[Call]):
    """Belongs to the writer's thread. `look`: the last number of a journal below an offset; it runs in other threads, too. `arrived` is
    called by them once a look-up has ended. `most`: journals whose numbers are kept."""

    def __init__(self, look: Callable[[str, int], int], *, arrived: Callable[[], None], most: int) -> None:
        self._look, self._arrived, self._most = look, arrived, most
        self.known: dict[str, int] = {}  # the least recently written one first
        self.fresh: set[str] = set()  # journals whose look-up has ended since the last commit
        self.waiting: dict[str, Lookup[Call]] = {}
        self.ended: deque[Lookup[Call]] = deque()
        self._guard = threading.Lock()
        self._todo: deque[Lookup[Call]] = deque()
        self._threads = 0

    def load(self, id: str, end: int, given: int) -> int:
        """Look a journal up now. `given`: -1 - n, where n is what the batch has given it."""
        last = self.known[id] = self._look(id, end)
        return max(last, -given - 1)

    def begin(self, id: str, end: int, calls: Sequence[Call]) -> None:
        """Look a journal up in another thread, for calls that wait. `end`: everything below this offset counts in the answer."""
        lookup = self.waiting[id] = Lookup(id, end, calls)
        with self._guard:
            self._todo.append(lookup)
            if self._threads == MOST_LOOKUPS:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name="headwater-journal-lookup", daemon=True).start()
        except (RuntimeError, MemoryError):  # no thread is to be had: this one does it
            self._work()

    def take_ended(self) -> Lookup[Call]:
        """The next look-up that has ended. Its journal is known from now on, unless it failed or is outdated."""
        lookup = self.ended.popleft()
        del self.waiting[lookup.id]
        if lookup.error is None and not lookup.outdated:
            self.known.setdefault(lookup.id, lookup.last)  # what is known there is newer
            self.fresh.add(lookup.id)
        return lookup

    def keep_fresh(self) -> None:
        """Forget all but the fresh ones: records of others may count that nobody has folded."""
        for id in self.known.keys() - self.fresh:
            del self.known[id]

    def fold(self, record: ActionRecord) -> None:
        """Let a record of another process count."""
        if not isinstance(record.action, Append | Purge):
            return
        if (last := self.known.get(record.id)) is not None:
            self.known[record.id] = max(last, record.action.last) if isinstance(record.action, Append) else 0
        if (lookup := self.waiting.get(record.id)) is not None:
            if isinstance(record.action, Append):
                lookup.fold(record.action.last)
            else:
                lookup.base = 0

    def settle(self, changed: Mapping[str, int]) -> None:
        """Let a batch of ours count: its journals' last numbers; -1 - n where nothing is known but that it gave n."""
        known = self.known
        for id, last in changed.items():
            known.pop(id, None)
            if last >= 0:
                known[id] = last
            if self.waiting and (lookup := self.waiting.get(id)) is not None:
                if last >= 0:
                    lookup.base = last
                else:
                    lookup.fold(-last - 1)
        if len(known) > self._most:
            for id in list(known)[: len(known) - self._most * 9 // 10]:
                del known[id]

    def clear(self) -> None:
        """After a failure: what was known may have been cut off, or lies before records that were never seen."""
        self.known.clear()
        self.fresh.clear()
        for lookup in self.waiting.values():
            lookup.outdated = True

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._todo:
                    self._threads -= 1
                    return
                lookup = self._todo.popleft()
            try:
                lookup.answer = self._look(lookup.id, lookup.end)
            except Exception as error:
                lookup.error = error
            self.ended.append(lookup)
            self._arrived()
