"""Who uses a server: test runs put their name down, and the last one to leave stops it, unless a person wants it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tools.services.process import Process


def add(folder: Path, user: Process) -> None:
    """Put a process down as a user of the server in `folder`. The caller holds the server's lock."""
    users = folder / "users"
    users.mkdir(parents=True, exist_ok=True)
    (users / _name(user)).write_bytes(msgspec.json.encode(user))


def remove(folder: Path, user: Process) -> bool:
    """Take it off again; False when it was not there."""
    try:
        (folder / "users" / _name(user)).unlink()
    except FileNotFoundError:
        return False
    return True


def present(folder: Path) -> list[Process]:
    """The users that still run. A run that was killed could not take itself off: it does not count."""
    users = []
    for path in (folder / "users").glob("*"):
        try:
            user = msgspec.json.decode(path.read_bytes(), type=Process)
        except (FileNotFoundError, msgspec.DecodeError):
            continue  # just leaving, or just coming
        if user.alive():
            users.append(user)
        else:
            path.unlink(missing_ok=True)
    return users


def _name(user: Process) -> str:
    return f"{user.pid}-{user.began}"
