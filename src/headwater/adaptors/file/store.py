"""A store of parts in a folder of the local file system."""

from __future__ import annotations

from pathlib import Path

from headwater.adaptors.parts.store import PartStore
from headwater.core.errors import BadConfig
from headwater.core.files import Files, explained, replace


def no_folder(path: Path | str) -> BadConfig:
    """The error of a folder that cannot be made: there is a file of that name."""
    return BadConfig(f"{path} is no folder: there is a file of that name, or above.", hint="Name another folder, or move the file away.")


class FolderStore(PartStore):
    """A folder. Writes are durable at once, renames after `sync`."""

    def __init__(self, folder: Path, files: Files, where: str = "") -> None:
        self._folder, self._files = folder, files
        self.where = where or str(folder)

    def list(self, prefix: str) -> list[str]:
        inside, _, begin = prefix.rpartition("/")
        entries = (self._folder / inside).iterdir() if (self._folder / inside).is_dir() else ()
        return sorted(f"{inside}/{entry.name}" if inside else entry.name for entry in entries if entry.name.startswith(begin))

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            raise no_folder(self.where) from error
        except OSError as error:
            raise explained(error, self._folder / name, reading=True) from error

    def write(self, name: str, data: bytes) -> None:
        replace(self._files, self._folder / name, data)

    def rename(self, name: str, new: str) -> None:
        (self._folder / new).parent.mkdir(exist_ok=True)
        self._files.rename(self._folder / name, self._folder / new)

    def delete(self, name: str) -> None:
        self._files.unlink(self._folder / name)

    def sync(self) -> None:
        self._files.sync_dir(self._folder)
