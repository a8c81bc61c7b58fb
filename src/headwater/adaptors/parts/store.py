"""A place that holds things under names: a folder, a prefix of an object store, a path of a file system that Hadoop knows."""

from __future__ import annotations

from abc import ABC, abstractmethod


class PartStore(ABC):
    """Names below one place. A name may lie in a folder below: `work/owner.json`."""

    where: str  # for messages: never a secret

    @abstractmethod
    def list(self, prefix: str) -> list[str]:
        """The names that begin so, in order. `prefix` may begin with a folder's name; what lies in folders below is left out."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """What is there under a name; None where nothing is."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Put something there, in place of what may be there. A crash leaves the one or the other, never half of both."""

    @abstractmethod
    def rename(self, name: str, new: str) -> None: ...

    @abstractmethod
    def delete(self, name: str) -> None: ...

    @abstractmethod
    def sync(self) -> None:
        """Make what was renamed and deleted durable, where it is not so at once."""

    def replace(self, name: str, data: bytes) -> None:
        """`write` over what `read` gave last. Errors: `Conflict` where somebody else has written meanwhile and the store can tell."""
        self.write(name, data)
