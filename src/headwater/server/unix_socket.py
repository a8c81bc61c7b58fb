"""The server's Unix socket in the data directory, for programs on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from headwater.client.presence import SOCKET


def listen_unix(data: Path, name: str = SOCKET) -> socket.socket | None:
    """A listening socket for this user only; None where the file system has no sockets, or another file has the name.

    Replaces the socket of a killed server: the caller holds the directory's lock, so no living server listens there.
    """
    folder = os.open(data, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove_unix(data, name)
        os.fchmod(sock.fileno(), 0o600)  # before it has a name, so that nobody else can connect in between
        sock.bind(f"/proc/self/fd/{folder}/{name}")  # an address holds 107 bytes, a path may have more
        sock.listen(2048)
    except OSError:
        sock.close()
        return None
    finally:
        os.close(folder)
    sock.setblocking(False)
    return sock


def remove_unix(data: Path, name: str = SOCKET) -> None:
    """Remove the socket's file. Keeps a file that is no socket; a missing one is no error."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK((data / name).lstat().st_mode):
            (data / name).unlink()
