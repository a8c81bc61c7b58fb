"""The interface of a store of files by name: a folder, a prefix of an object store, a path of a Hadoop file system."""

from __future__ import annotations

from abc import ABC, abstractmethod


class PartStore(ABC):
    """Files by name. A name may have a folder: `work/owner.json`."""

    where: str  # for errors: never a secret

    @abstractmethod
    def list(self, prefix: str) -> list[str]:
        """The names with a prefix, in order. `prefix` may begin with a folder; files of folders below are left out."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a file; None where it does not exist."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file. A crash leaves the old or the new content, never a mix."""

    @abstractmethod
    def rename(self, name: str, new: str) -> None: ...

    @abstractmethod
    def delete(self, name: str) -> None: ...

    @abstractmethod
    def sync(self) -> None:
        """Make renames and deletes durable, where they are not so at once."""

    def replace(self, name: str, data: bytes) -> None:
        """`write`, if the file is as `read` returned it last. Errors: `Conflict` where it is not, and the store can tell."""
        self.write(name, data)
