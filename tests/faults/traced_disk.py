"""A disk built from recorded system calls, which knows what a loss of power may leave of it.

Bytes are durable by fsync or fdatasync of their file, names by fsync of their directory; a sync covers what was there when it began, once
it has ended. All else may be there or not: page by page, each as it was at some moment since the last sync, and name by name. Changes of
one file's length keep their order. What is stored through memory maps is no call: it is told by `mapped`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from strace import Call

Fate = Literal["lost", "kept", "mixed"]  # what becomes of all that is not synced
PAGE, SECTOR = 4096, 512


class Written(NamedTuple):
    position: int
    data: bytes


class Cut(NamedTuple):
    length: int


@dataclass(eq=False)
class File:
    """An inode with bytes: as it was when last synced, and what was done to it since."""

    durable: bytes = b""
    pending: list[Written | Cut] = field(default_factory=list)
    mapped: list[bytes] = field(default_factory=list)

    def states(self) -> list[bytes]:
        """The durable bytes, and the bytes after each change since."""
        found = [self.durable]
        for change in self.pending:
            now = bytearray(found[-1])
            if isinstance(change, Cut):
                now = now[: change.length].ljust(change.length, b"\0")
            else:
                now.extend(bytes(max(0, change.position - len(now))))
                now[change.position : change.position + len(change.data)] = change.data
            found.append(bytes(now))
        return found

    def synced(self, changes: int) -> None:
        """The first `changes` of the pending changes are on disk."""
        self.durable = self.states()[changes]
        del self.pending[:changes]

    def after_cut(self, fate: Fate, random: Random) -> bytes:
        """What the power leaves."""
        if self.mapped:
            return random.choice([b"", bytes(PAGE), *self.mapped[-3:]])
        states = self.states()
        if fate != "mixed":
            return states[0 if fate == "lost" else -1]
        moment = random.randrange(len(states))  # of the length that reached the disk
        image = bytearray(len(states[moment]))
        unit = random.choice([PAGE, PAGE, SECTOR])
        for at in range(0, len(image), unit):
            image[at : at + unit] = self._piece(states, random.randrange(len(states)), moment, at, min(at + unit, len(image)))
        return bytes(image)

    def _piece(self, states: list[bytes], written: int, moment: int, begin: int, end: int) -> bytes:
        """Bytes [begin, end) as they were written back at one moment, in a file whose length is of another."""
        low = len(states[written])
        for change in self.pending[written:moment]:  # cut off after it was written back: those bytes are gone for good
            if isinstance(change, Cut):
                low = min(low, change.length)
        if written > moment and begin >= low:
            return states[moment][begin:end]  # a cut that did not reach the disk left whole pages as they were
        return states[written][begin : min(end, max(begin, low))].ljust(end - begin, b"\0")


@dataclass(eq=False)
class Folder:
    """An inode with names."""

    durable: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[list[tuple[str, File | Folder | None]]] = field(default_factory=list)  # what one call did to this folder's names

    def names(self, changes: int | None = None) -> dict[str, File | Folder]:
        found = dict(self.durable)
        for change in self.pending[:changes]:
            for name, inode in change:
                if inode is None:
                    found.pop(name, None)
                else:
                    found[name] = inode
        return found

    def synced(self, changes: int) -> None:
        self.durable = self.names(changes)
        del self.pending[:changes]

    def after_cut(self, fate: Fate, random: Random) -> dict[str, File | Folder]:
        if fate != "mixed":
            return self.names(0 if fate == "lost" else None)
        if any(isinstance(inode, Folder) and len(change) > 1 for change in self.pending for _, inode in change):
            return self.names(random.randint(0, len(self.pending)))  # a folder that was renamed is never nowhere, and never twice
        found = {}
        moments = [self.names(count) for count in range(len(self.pending) + 1)]
        for name in sorted({name for moment in moments for name in moment}):
            inode = random.choice(moments).get(name)
            if inode is not None:
                found[name] = inode
        return found


class Disk:
    """The folder `root`, which is there and empty at first, as the calls change it."""

    def __init__(self, root: Path, notes: Path) -> None:
        self.root, self.notes = root, notes
        self.top = Folder()
        self.said: list[bytes] = []  # lines written to `notes`, in order
        self._descriptors: dict[int, dict[int, File | Folder | Path]] = {}
        self._syncing: dict[int, tuple[File | Folder, int]] = {}
        self._forking: dict[int, dict[int, File | Folder | Path]] = {}

    def mapped(self, path: Path, data: bytes) -> None:
        """A file that is changed through memory holds `data` now."""
        inode = self._inode(os.fspath(path))
        if isinstance(inode, File):
            inode.mapped.append(data)

    def build(self, into: Path, fate: Fate, random: Random) -> None:
        """Write into `into` what a loss of power now could leave."""
        self._build(self.top, into, fate, random)

    def _build(self, folder: Folder, into: Path, fate: Fate, random: Random) -> None:
        into.mkdir(parents=True, exist_ok=True)
        for name, inode in folder.after_cut(fate, random).items():
            if isinstance(inode, Folder):
                self._build(inode, into / name, fate, random)
            else:
                (into / name).write_bytes(inode.after_cut(fate, random))

    # -- calls ----------------------------------------------------------------------------------------------

    def apply(self, call: Call) -> bool:
        """Take in one call; whether it changed anything that a loss of power could show."""
        table = self._table(call)
        if call.name in ("fsync", "fdatasync"):
            return self._sync(call, table)
        if call.name == "close":
            # As it begins: by its end, which may be told late, another thread may have been given the number anew.
            if call.begins:
                table.pop(_number(call, 0), None)
            return False
        if not call.ends:
            if call.name in ("clone", "clone3", "fork", "vfork") and "CLONE_THREAD" not in call.arguments:
                self._forking[call.process] = table
            return False
        if call.result is None or call.result < 0:
            return False
        handler = getattr(self, f"_{_FAMILIES.get(call.name, call.name)}", None)
        if handler is None:
            raise ValueError(f"the replay does not know what {call.name} does to a disk")
        return bool(handler(call, table))

    def _table(self, call: Call) -> dict[int, File | Folder | Path]:
        if call.process not in self._descriptors:
            # The child of a fork may speak before its parent is told of it.
            parents = list(self._forking.values())
            self._descriptors[call.process] = dict(parents[-1]) if parents else {}
        return self._descriptors[call.process]

    def _clone(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        self._forking.pop(call.process, None)
        child = call.result or 0
        if "CLONE_THREAD" in call.arguments:
            self._descriptors[child] = table
        elif child not in self._descriptors:
            self._descriptors[child] = dict(table)
        return False

    def _openat(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        path, flags = self._path(call, table), call.arguments
        fd = call.result or 0
        table.pop(fd, None)
        if path == os.fspath(self.notes):
            table[fd] = self.notes
        if not self._inside(path):
            return False
        inode, changed = self._inode(path), False
        if inode is None:
            if "O_CREAT" not in flags and call.name != "creat":
                raise ValueError(f"{path} was there before the trace began, or the replay has missed how it was made")
            inode, changed = File(), True
            self._enter(path, inode)
        elif "O_TRUNC" in flags and isinstance(inode, File) and len(inode.states()[-1]):
            inode.pending.append(Cut(0))
            changed = True
        table[fd] = inode
        return changed

    def _dup(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        if call.name == "fcntl" and "F_DUPFD" not in call.arguments:
            return False
        inode = table.get(_number(call, 0))
        if inode is not None:
            table[call.result or 0] = inode
        return False

    def _write(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        inode, data = table.get(_number(call, 0)), b"".join(call.strings)
        if inode == self.notes:
            self.said.append(data)
            return False
        if not isinstance(inode, File):
            return False
        if call.name not in ("pwrite64", "pwritev", "pwritev2"):
            raise ValueError(f"{call.name} writes where the descriptor stands, which the replay does not follow")
        position = int(call.plain[3])
        inode.pending.append(Written(position, data[: call.result]))
        return True

    def _truncate(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        inode = table.get(_number(call, 0)) if call.name == "ftruncate" else self._inode(self._path(call, table))
        if isinstance(inode, File):
            inode.pending.append(Cut(int(call.plain[1])))
        return isinstance(inode, File)

    def _fallocate(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        inode = table.get(_number(call, 0))
        if isinstance(inode, File) and "KEEP_SIZE" not in call.arguments:
            length = int(call.plain[2]) + int(call.plain[3])
            if length > len(inode.states()[-1]):
                inode.pending.append(Cut(length))
                return True
        return False

    def _sync(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        inode = table.get(_number(call, 0))
        if call.begins and isinstance(inode, File | Folder):
            self._syncing[call.process] = inode, len(inode.pending)
        begun = self._syncing.pop(call.process, None) if call.ends else None
        if begun is not None and call.result == 0:
            begun[0].synced(begun[1])
            for process, (other, count) in list(self._syncing.items()):
                if other is begun[0]:
                    self._syncing[process] = other, max(0, count - begun[1])
        return begun is not None

    def _rename(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        old, new = (os.fsdecode(one) for one in call.strings)
        if not self._inside(old):
            return False
        inode = self._inode(old)
        source, target = self._parent(old), self._parent(new)
        if source is target:
            source.pending.append([(os.path.basename(old), None), (os.path.basename(new), inode)])
        else:
            source.pending.append([(os.path.basename(old), None)])
            target.pending.append([(os.path.basename(new), inode)])
        return True

    def _link(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        old, new = (os.fsdecode(one) for one in call.strings)
        if self._inside(new):
            self._enter(new, self._inode(old) or File())
        return self._inside(new)

    def _unlink(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        path = self._path(call, table)
        if self._inside(path) and self._inode(path) is not None:
            self._parent(path).pending.append([(os.path.basename(path), None)])
            return True
        return False

    def _mkdir(self, call: Call, table: dict[int, File | Folder | Path]) -> bool:
        path = self._path(call, table)
        if self._inside(path):
            self._enter(path, Folder())
        return self._inside(path)

    # -- names ----------------------------------------------------------------------------------------------

    def _inside(self, path: str) -> bool:
        return path == os.fspath(self.root) or path.startswith(f"{self.root}/")

    def _path(self, call: Call, table: dict[int, File | Folder | Path]) -> str:
        path = os.fsdecode(call.strings[0])
        if path.startswith("/") or not call.arguments[:1].isdigit():
            return path
        folder = table.get(_number(call, 0))
        return os.path.join(self._where(folder), path) if isinstance(folder, Folder) else path

    def _where(self, wanted: Folder) -> str:
        """The path of a folder that was opened: it may have been renamed since."""
        waiting = [(self.top, os.fspath(self.root))]
        while waiting:
            folder, path = waiting.pop()
            if folder is wanted:
                return path
            waiting += [(inode, f"{path}/{name}") for name, inode in folder.names().items() if isinstance(inode, Folder)]
        return "?"

    def _inode(self, path: str) -> File | Folder | None:
        found: File | Folder | None = self.top
        for name in [one for one in path.removeprefix(f"{self.root}").split("/") if one]:
            found = found.names().get(name) if isinstance(found, Folder) else None
        return found

    def _parent(self, path: str) -> Folder:
        found = self._inode(os.path.dirname(path))
        if not isinstance(found, Folder):
            raise ValueError(f"the replay has no folder for {path}")
        return found

    def _enter(self, path: str, inode: File | Folder) -> None:
        self._parent(path).pending.append([(os.path.basename(path), inode)])


_FAMILIES = {
    **dict.fromkeys(("open", "creat"), "openat"),
    **dict.fromkeys(("clone3", "fork", "vfork"), "clone"),
    **dict.fromkeys(("dup2", "dup3", "fcntl"), "dup"),
    **dict.fromkeys(("writev", "pwrite64", "pwritev", "pwritev2"), "write"),
    "ftruncate": "truncate",
    **dict.fromkeys(("renameat", "renameat2"), "rename"),
    "linkat": "link",
    **dict.fromkeys(("unlinkat", "rmdir"), "unlink"),
    "mkdirat": "mkdir",
}


def _number(call: Call, at: int) -> int:
    match = re.match(r"-?\d+", call.plain[at])
    return int(match[0]) if match else -1
