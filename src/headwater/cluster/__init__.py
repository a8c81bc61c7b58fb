"""Who may write a partition that has one owner (rule P4): one process at a time, which the others can find.

Two ways keep one promise: `local` (lock files below the data directory, one machine) and `kafka` (the consumer group, several).
Ownership says who may claim; the log's claim (`Log.claim`) shuts out whoever still believes to be the owner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

import msgspec

from headwater.core.errors import NotOwner
from headwater.log import Writer

__all__ = ["OwnedPartition", "Ownership", "PartitionOwner", "not_owner"]


class PartitionOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that owns a partition. `address`: where it serves, or empty."""

    host: str
    pid: int
    address: str = ""
    epoch: int = 0
    """Of its claim; 0 where only the owner itself knows it."""

    def __str__(self) -> str:
        name = f"process {self.pid}" if self.pid else "a process"
        return f"{name} on {self.host}" + (f", which serves at {self.address}" if self.address else "")


class OwnedPartition(ABC):
    """A partition that this process owns, until `release`, the end of the process, or another's claim.

    Write with `writer` alone. Once it says `Fenced`, another process has taken over: release this, and read before owning it again.
    """

    topic: str
    partition: int
    writer: Writer

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether this process is known not to own it any more. False proves nothing: only a write does."""

    @abstractmethod
    def release(self) -> None:
        """Let another process own it. Releasing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


class Ownership(ABC):
    """The partitions of one log that this process owns, and who owns the others. Blocking, and safe to call from several threads at once.

    Guarantees
      - While the owner lives, `own` in another process raises `NotOwner`, and changes nothing.
      - A dead owner's partition can be owned at once (local), or once the group has noticed (kafka).
      - With `take_over` a living owner's can be owned, too; nothing that the other one writes afterwards is acknowledged: `Fenced`.
      - Looking (`owner`) changes nothing.

    Errors: `UnknownTopic`, `UnknownPartition`, `Timeout` when another process stands still in the midst of owning, `Closed`.
    """

    @abstractmethod
    def own(self, topic: str, partition: int, *, take_over: bool = False) -> OwnedPartition:
        """Become the owner, and the log's only writer of the partition. What this object owns already is given again.

        Errors: `NotOwner` with the owner's address.
        """

    @abstractmethod
    def owner(self, topic: str, partition: int) -> PartitionOwner | None:
        """The living owner; None where there is none."""

    @abstractmethod
    def close(self) -> None:
        """Release everything. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def not_owner(topic: str, partition: int, owner: PartitionOwner | None) -> NotOwner:
    """The error for whoever may not own a partition."""
    if owner is None:
        return NotOwner(f"{topic}/{partition} is being given to another process.", hint="Try again in a moment.")
    if owner.address:
        hint = f"Ask that one, such as with --server {owner.address}, or stop it."
    else:
        hint = "Stop that one first: it serves at no address."
    return NotOwner(f"{topic}/{partition} is owned by {owner}.", address=owner.address, hint=hint)
