"""Ownership of partitions with a single writer (rule P4): one process at a time owns a partition, and the others can find it.

Two implementations keep one promise: `local` (lock files below the data directory, one machine) and `kafka` (the consumer group, several
machines). Ownership decides which process may claim; the log's claim (`Log.claim`) fences a process that wrongly believes to be the owner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from headwater.core.errors import Fenced, NotOwner
from headwater.log import Writer

__all__ = ["OwnedPartition", "Ownership", "PartitionOwner", "lost_to_another", "not_owner"]


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

    Write with `writer` alone. Once it raises `Fenced`, another process has taken over: release this, and read before owning it again.
    """

    topic: str
    partition: int
    writer: Writer

    def use(self) -> bool:
        """Whether nobody in this process has used it before: for parts of which only one may write as its owner."""
        user = object()
        return self.__dict__.setdefault("_user", user) is user  # one step, whichever threads call it

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether this process knows that it has lost the partition. False proves nothing: only a write does."""

    def overtaken(self) -> bool:
        """Whether another process has taken the partition by now, as far as one look at the log tells. Includes `lost`. Blocking."""
        return self.lost

    @abstractmethod
    def renew(self) -> Writer:
        """Claim the partition again, after a write of unknown outcome; return the new `writer`. Records under way no longer count.

        Errors: `Fenced` where another process is the owner by now: it keeps the partition.
        """

    @abstractmethod
    def release(self) -> None:
        """Let another process own it. Releasing twice is no error."""

    def release_deleted(self) -> None:
        """`release` of a partition whose topic is deleted: nothing is kept of who owned it."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


class Ownership(ABC):
    """The partitions of one log that this process owns, and who owns the others. Blocking, and safe to call from several threads at once.

    Guarantees
      - While the owner lives, `own` in another process raises `NotOwner`, and changes nothing.
      - A dead owner's partition can be owned at once (local), or once the group has noticed (kafka).
      - With `take_over`, `own` also takes the partition of a living owner, whose later writes raise `Fenced`.
      - `owner` changes nothing.

    Errors: `UnknownTopic`, `UnknownPartition`, `Timeout` when another process hangs while it takes ownership, `Closed`.
    """

    @abstractmethod
    def own(self, topic: str, partition: int, *, take_over: bool = False, part: str = "") -> OwnedPartition:
        """Become the owner, and the log's only writer of the partition. Returns the same object for a partition that it owns already.

        `part`: as for `Log.claim`. Errors: `NotOwner` with the owner's address; `OwnedTopic`.
        """

    @abstractmethod
    def owner(self, topic: str, partition: int) -> PartitionOwner | None:
        """The living owner; None where there is none."""

    def unowned(self, places: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Those of some partitions that have no living owner."""
        return [place for place in places if self.owner(*place) is None]

    def forget_owner(self, address: str) -> None:  # noqa: B027
        """Look for the owner anew where the process at this address was remembered as one: it could not be reached, or has said that it is
        none."""

    @abstractmethod
    def close(self) -> None:
        """Release everything. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def lost_to_another(topic: str, partition: int) -> Fenced:
    """The `Fenced` error of an owner whose partition another process has taken."""
    return Fenced(f"{topic}/{partition} is owned by another process now.", hint="Release it, and read before owning it again.")


def not_owner(topic: str, partition: int, owner: PartitionOwner | None) -> NotOwner:
    """The `NotOwner` error for a partition of another process."""
    if owner is None:
        return NotOwner(f"{topic}/{partition} is being given to another process.", hint="Try again in a moment.")
    if owner.address:
        hint = f"Ask that one, such as with --server {owner.address}, or stop it."
    else:
        hint = "Stop that one first: it serves at no address. Several programs use a directory through `headwater serve`."
    return NotOwner(f"{topic}/{partition} is owned by {owner}.", address=owner.address, hint=hint)
