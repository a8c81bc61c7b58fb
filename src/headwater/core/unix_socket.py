"""Unix sockets in folders of any length: to listen on one for this user only, and to connect to one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from pathlib import Path


def listen_unix(folder: Path, name: str) -> socket.socket | None:
    """A listening socket for this user only; None where the file system has no sockets, or another file has the name.

    Replaces the socket of a killed server: the caller holds the directory's lock, so no living server listens there.
    """
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove_unix(folder, name)
        os.fchmod(sock.fileno(), 0o600)  # before it has a name, so that nobody else can connect in between
        sock.bind(f"/proc/self/fd/{place}/{name}")  # an address holds 107 bytes, a path may have more
        sock.listen(2048)
    except OSError:
        sock.close()
        return None
    finally:
        os.close(place)
    sock.setblocking(False)
    return sock


def remove_unix(folder: Path, name: str) -> None:
    """Remove the socket's file. Keeps a file that is no socket; a missing one is no error."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK((folder / name).lstat().st_mode):
            (folder / name).unlink()


async def connect_unix(path: Path) -> socket.socket:
    """Connect to a Unix socket with a path of any length. Errors: `OSError`."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        while True:
            try:
                sock.connect(f"/proc/self/fd/{folder}/{path.name}")  # an address holds 107 bytes
            except BlockingIOError:  # the server's queue is full; unlike TCP's, this connect has not begun
                await asyncio.sleep(0.005)
            else:
                return sock
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(folder)
