"""The socket in the data directory that programs on this machine reach the server by."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from headwater.client.presence import SOCKET


def listen_unix(data: Path, name: str = SOCKET) -> socket.socket | None:
    """A socket that is listening, for this user alone; None where the file system has none, or a file of that name is in the way.

    One that a killed server left is replaced: whoever calls holds the directory's lock, so no living server listens there.
    """
    folder = os.open(data, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove_unix(data, name)
        os.fchmod(sock.fileno(), 0o600)  # before it has a name: nobody else can connect in between
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
    """Remove the socket's name. Other files of the name stay; no name is no error."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK((data / name).lstat().st_mode):
            (data / name).unlink()
