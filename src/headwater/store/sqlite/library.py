"""The SQLite library apsw: checks its version, opens connections, and translates its errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from headwater.core.errors import (
    BadInput,
    Damaged,
    DiskFull,
    HeadwaterError,
    OutcomeUnknown,
    ReadOnly,
    Timeout,
    Unavailable,
    Unsupported,
)

if TYPE_CHECKING:
    import apsw

_CHECKPOINT_PAGES = 16_384
_CACHE_KIB = 65_536
_WAL_LIMIT = 256 << 20  # bytes that the -wal file keeps after a checkpoint


def check_version(version: str) -> None:
    """Refuse a library whose WAL mode can damage a file.

    All from 3.7.0 on have a race: one connection starts the -wal file anew while another, which writes or checkpoints, still goes by its
    old beginning. Pages are lost, and the file is damaged. 3.51.3 has mended it, and so have 3.50.7 and 3.44.6 for their lines.
    Errors: `Unsupported`.
    """
    number = tuple(int(part) for part in version.split(".")[:3])
    mended = number >= (3, 51, 3) or (3, 50, 7) <= number < (3, 51) or (3, 44, 6) <= number < (3, 45)
    if not mended:
        raise Unsupported(
            f"SQLite {version} can damage a file that several processes write.",
            hint="Install apsw with SQLite 3.51.3 or later: `pip install -U apsw`.",
        )


@cache
def library() -> None:
    """Import apsw, and check it once. Errors: `Unsupported`."""
    import apsw

    check_version(apsw.sqlite_lib_version())


def apsw_errors() -> type[apsw.Error]:
    """The root of the library's errors."""
    library()
    import apsw

    return apsw.Error


def connect(path: Path | str, *, timeout: float, read_only: bool = False, vfs: str | None = None) -> apsw.Connection:
    """A connection to a file, which is made when it is missing, unless `read_only`. `timeout`: seconds that a statement waits for locks.

    Errors: `Unsupported`, and those of `explaining`.
    """
    with explaining(path, timeout=timeout):
        return open_file(path, timeout=timeout, read_only=read_only, vfs=vfs)


def open_file(path: Path | str, *, timeout: float, read_only: bool = False, vfs: str | None = None) -> apsw.Connection:
    """`connect` for callers that explain errors themselves: those of apsw come as they are.

    Errors: `Unsupported`; `BadInput` for a name with a null character.
    """
    library()
    import apsw

    name = os.fsencode(Path(path).absolute())
    if b"\0" in name:
        raise BadInput(f"{path!r} is no name of a file.", hint="Leave out the null character: SQLite would open what is named before it.")
    kind = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    # As an address: a name such as ":memory:" or "file:x" is a file's name here, and nothing else.
    connection = apsw.Connection(f"file:{quote(name)}", flags=kind | apsw.SQLITE_OPEN_URI, vfs=vfs)
    connection.set_busy_timeout(int(timeout * 1000))
    return connection


def close_connection(connection: apsw.Connection) -> None:
    """Close. An error is of the checkpoint that the last connection makes: what is committed lies in the -wal file, and stays there."""
    with suppress(apsw_errors()):
        connection.close(force=True)


def prepare(connection: apsw.Connection, *, synced: bool, secure: bool = False) -> None:
    """WAL mode, and how durable a commit is: `synced` means on disk; otherwise a loss of power takes the last ones, each whole.
    `secure`: deleted bytes are overwritten with zeros.

    Errors of apsw as they are: call it inside `explaining`.
    """
    # The mode is kept in the file, and changing it needs the file alone. So it is looked at first.
    if connection.pragma("journal_mode") != "wal" and connection.pragma("journal_mode", "wal") != "wal":
        raise Unsupported(f"{connection.filename} cannot be used in WAL mode.", hint="Keep it on a disk of this machine.")
    connection.pragma("synchronous", "full" if synced else "normal")
    connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
    connection.pragma("journal_size_limit", _WAL_LIMIT)
    connection.pragma("cache_size", -_CACHE_KIB)
    connection.pragma("foreign_keys", "on")
    if secure:
        connection.pragma("secure_delete", "on")


@contextmanager
def explaining(path: Path | str, *, timeout: float, committing: bool = False) -> Iterator[None]:
    """Whatever SQLite refuses inside is raised as an error of ours. `committing`: a failing disk leaves open whether it is there."""
    try:
        yield
    except apsw_errors() as error:
        raise explained(error, path, timeout=timeout, committing=committing) from error


def explained(error: apsw.Error, path: Path | str, *, timeout: float, committing: bool = False) -> HeadwaterError:
    """The headwater error for an error of SQLite on `path`."""
    import apsw

    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Timeout(
                f"{path} is being written by another program for more than {timeout:g} s.",
                hint="See which program has it open, then try again.",
            )
        case apsw.FullError():
            return DiskFull(f"No space left on the disk of {path}; nothing was written.", hint="Free some space, then try again.")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return ReadOnly(f"{path} cannot be written by this process.", hint="Change its permissions and those of its folder.")
        case apsw.CorruptError() | apsw.NotADBError():
            return Damaged(f"{path} is damaged: {error}.", hint="Move it away, and make it anew from the log or from a backup.")
        case apsw.CantOpenError():
            return Unavailable(f"{path} cannot be opened: {error}.", hint="Its folder must be there, and may be written by this process.")
        case apsw.IOError() if committing:
            return OutcomeUnknown(f"Writing {path} failed: {error}.", hint="Read what is there before you write it again.")
        case apsw.IOError() | apsw.NoMemError() | apsw.ProtocolError() | apsw.InterruptError() | apsw.NoLFSError():
            return Unavailable(f"{path} cannot be used now: {error}; nothing was written.", hint="Look at the machine, then try again.")
        case _:
            return BadInput(f"SQLite refuses it: {error}.", hint=f"The file is {path}.")
