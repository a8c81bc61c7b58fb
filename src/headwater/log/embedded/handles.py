"""The open partitions of a log: keeps their number below the limit of open files, and closes unused ones."""

from __future__ import annotations

import resource
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError

Key = tuple[str, int]  # topic and partition
IDLE = 30.0  # seconds after which unused descriptors are closed


class Handle(Protocol):
    """Something that holds descriptors."""

    @property
    def busy(self) -> bool:
        """Whether a call is using it."""
        ...

    def close(self) -> None: ...

    def forget(self) -> None:
        """In a forked child: let go of the descriptors, which are the parent's, too."""
        ...


H = TypeVar("H", bound=Handle)


def most_handles() -> int:
    """How many partitions may be open at once for writing, and twice how many for reading: five descriptors of sixteen, and seventeen of
    thirty-two, where records are read by offset in many segments of each."""
    return max(4, min(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 16))


class Handles(dict[Key, H], Generic[H]):
    """Handles by topic and partition. Its owner locks around changes, and closes what it gives out to be closed."""

    def __init__(self, *, clock: Clock, most: int) -> None:
        self._clock, self._most = clock, most
        self._used: dict[Key, float] = {}

    def touch(self, key: Key) -> None:
        """Note a use."""
        self._used[key] = self._clock.monotonic()

    def put(self, key: Key, handle: H) -> None:
        """Keep a handle, for which there is `room`."""
        self[key] = handle
        self.touch(key)

    def room(self) -> list[H]:
        """Take out what has to make room for one more: the least recently used ones that nobody is using.

        To be closed before the next one is opened: where busy ones have taken all descriptors, it could not be opened otherwise.
        """
        excess = len(self) + 1 - self._most
        if excess <= 0:
            return []
        others = [place for place in sorted(self, key=self._used.__getitem__) if not self[place].busy]
        return [self.take(place) for place in others[:excess]]

    def idle(self) -> list[H]:
        """Remove and return those that nobody has used for a while."""
        since = self._clock.monotonic() - IDLE
        return [self.take(key) for key, used in list(self._used.items()) if used <= since and not self[key].busy]

    def of_topic(self, topic: str) -> list[H]:
        """Remove and return those of a topic."""
        return [self.take(key) for key in list(self) if key[0] == topic]

    def take(self, key: Key) -> H:
        """Remove and return one."""
        del self._used[key]
        return self.pop(key)


def close_all(handles: Iterable[Handle]) -> None:
    """Close them all. An error of one does not keep the others open; the next process to open that partition gets it again."""
    for handle in handles:
        try:
            handle.close()
        except (HeadwaterError, OSError):
            continue
