"""The answers to puts that have names of their own, for as long as the same put is answered alike.

Part of the fold: it reads no clock. What is over is forgotten when a record begins whose time is behind its date; whoever looks at it
before that compares the date. They take a limited amount of memory: the oldest go first. That needs no record: a fold of a log that begins
later forgets the same ones, as what is kept are always the last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from headwater.queue.date_heap import NEVER
from headwater.queue.named_answer import Answered, answer_size
from headwater.queue.sized_dict import text_size

MOST_BYTES = 256 << 20
"""Memory that the answers of a queue may take, about; beyond it the oldest are forgotten before their date."""
_COST, _PUT_COST = 450, 180  # bytes of an answer in memory, beside its name, and of each of its puts


class KeptAnswers:
    """Answers by name, in the order of their homes."""

    def __init__(self, enter_home: Callable[[], int], leave_home: Callable[[int], None]) -> None:
        """`enter_home`: the record that is being made is the home of one thing more; returns its sequence."""
        self._enter_home, self._leave_home = enter_home, leave_home
        self._by_name: OrderedDict[str, Answered] = OrderedDict()  # a plain dict passes all that was removed before its first entry
        self.size = 0
        """Bytes that all of them take in records."""
        self._memory = 0
        self.earliest = NEVER
        """None is forgotten before this date."""

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[tuple[str, Answered]]:
        return iter(self._by_name.items())

    @property
    def oldest_home(self) -> int:
        """The first record that is the home of an answer; `NEVER`: none is."""
        return next(iter(self._by_name.values())).home if self._by_name else NEVER

    def get(self, name: str) -> Answered | None:
        return self._by_name.get(name)

    def keep(self, expires: int, name: str, digest: bytes, puts: list[tuple[int, int, int, int]]) -> None:
        """Keep an answer; one that the name had is replaced."""
        if name in self._by_name:
            self._forget(name)
        self._by_name[name] = Answered(expires, digest, puts, self._enter_home())
        self.size += answer_size(len(puts)) + text_size(name)
        self._memory += _COST + _PUT_COST * len(puts) + len(name)
        if len(self._by_name) == 1:
            self.earliest = expires
        while self._memory > MOST_BYTES and len(self._by_name) > 1:
            self._forget(next(iter(self._by_name)))

    def forget_until(self, now: int) -> None:
        """Forget what is over, as far as nothing older is kept before it."""
        while self._by_name and (first := next(iter(self._by_name.items())))[1].expires <= now:
            self._forget(first[0])

    def _forget(self, name: str) -> None:
        known = self._by_name.pop(name)
        self.size -= answer_size(len(known.puts)) + text_size(name)
        self._memory -= _COST + _PUT_COST * len(known.puts) + len(name)
        self._leave_home(known.home)
        self.earliest = next(iter(self._by_name.values())).expires if self._by_name else NEVER
