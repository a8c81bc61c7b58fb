"""Finds the server of a data directory: `<data>/server.json` holds its address, and a lock beside it shows whether it lives.

A process id would not do: the system reuses the number after a kill, and it means nothing in another container. The system releases the
lock however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import BadConfig, Conflict, DiskFull
from headwater.core.files import FileLock, Files, explained, make_dirs, replace

SOCKET = "server.sock"
_FILE, _LOCK = "server.json", "server.lock"
_PROBES = 1.0  # seconds: a client that checks holds the lock for microseconds, a server for its whole life


class Serving(msgspec.Struct, frozen=True):
    """A running server, as `server.json` describes it."""

    url: str
    pid: int
    started: str  # ISO 8601
    socket: str = ""
    """The name of its socket in the directory; empty where it has none."""

    def unix(self, data: Path) -> Path | None:
        """The path of that socket."""
        return data / self.socket if self.socket and "/" not in self.socket else None


def serving(data: Path) -> Serving | None:
    """The living server of a directory, or None. Ignores the `server.json` of a killed server."""
    try:
        text = (data / _FILE).read_bytes()
        fd = os.open(data / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    try:
        if not _held(fd):
            return None
        return msgspec.json.decode(text, type=Serving)
    except msgspec.MsgspecError:
        return None
    finally:
        os.close(fd)


def answers(server: Serving, data: Path, *, patience: float) -> bool:
    """Whether a server says anything within `patience` seconds: a byte, or the end of the connection. A stopped one says nothing.

    True where no connection is made for another reason: the call that comes next says which.
    """
    try:
        with _connected(server, data, patience) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            connection.recv(1)
    except (TimeoutError, BlockingIOError):  # BlockingIOError: so many wait for it that the system takes no more
        return False
    except OSError:
        pass
    return True


def _connected(server: Serving, data: Path, patience: float) -> socket.socket:
    unix = server.unix(data)
    if unix is not None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(patience)
        try:
            connection.connect(str(unix))
        except (TimeoutError, BlockingIOError):
            connection.close()
            raise
        except OSError:  # its path is too long, or it is another user's: the same server listens on the port
            connection.close()
        else:
            return connection
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname or "", address.port or 80), patience)


class Presence:
    """The right to serve a directory, from `take` to `leave` or the end of the process."""

    def __init__(self, data: Path, *, files: Files, clock: Clock) -> None:
        self._data, self._files, self._clock = data, files, clock
        self._lock: FileLock | None = None

    def take(self) -> None:
        """Errors: `Conflict` naming the server that has it, `BadConfig` for a file, `ReadOnly`."""
        if self._data.exists() and not self._data.is_dir():
            raise BadConfig(f"The data directory {self._data} is no directory.", hint="Name a directory with --data or the setting `data`.")
        try:
            make_dirs(self._files, self._data)
            lock = FileLock(self._files, self._data / _LOCK)
        except OSError as error:
            raise explained(error, self._data) from error
        patience, never = self._clock.monotonic() + _PROBES, threading.Event()
        while not lock.try_exclusive():
            if self._clock.monotonic() >= patience:
                lock.close()
                raise self._taken()
            self._clock.wait(never, 0.01)
        self._lock = lock
        # Otherwise clients would use a killed server's address from now on, because the lock is held again.
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(self._data / _FILE)

    def announce(self, url: str, *, pid: int, started: str, socket: str = "") -> None:
        """Write `server.json`, whole or not at all. Errors: `DiskFull`, `ReadOnly`."""
        text = msgspec.json.format(msgspec.json.encode(Serving(url, pid, started, socket)), indent=2) + b"\n"
        try:
            replace(self._files, self._data / _FILE, text)
        except OSError as error:
            problem = explained(error, self._data / _FILE)
            if isinstance(problem, DiskFull):
                problem = DiskFull(
                    f"The disk of {self._data} is full: there is no room for {_FILE}, by which clients find the server. Nothing is served.",
                    hint="Free some space there, then start the server again. Without it, `headwater log delete-before TOPIC OFFSET` "
                    f"and `headwater log compact` free space with --data {self._data}, and reading goes on. What takes it: "
                    f"`du -xh --max-depth=1 {self._data.parent}`.",
                )
            raise problem from error

    def leave(self) -> None:
        """Remove `server.json`, then release the lock. Leaving twice is no error."""
        if self._lock is None:
            return
        with contextlib.suppress(OSError):
            self._files.unlink(self._data / _FILE)
        self._lock.close()
        self._lock = None

    def _taken(self) -> Conflict:
        other = serving(self._data)
        named = f" at {other.url} (process {other.pid}, since {other.started})" if other else ", just starting or stopping"
        return Conflict(
            f"{self._data} is served already{named}.",
            hint="Use that one, stop it first, or give another directory with --data.",
        )


def _held(fd: int) -> bool:
    """Whether a server holds the lock. This check locks it shared for an instant, so that checks do not disturb each other."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
