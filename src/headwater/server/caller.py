"""The caller of a request: the name, role and prefixes of a token."""

from __future__ import annotations

import pwd
import socket
import struct
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import msgspec

from headwater.core.errors import Forbidden
from headwater.server.path_rules import PathRules
from headwater.wire.operation import Role

if TYPE_CHECKING:
    from starlette.types import Scope

Prefix = tuple[bytes, ...]
FORWARDED = b"headwater-forwarded-for"  # the header in which a worker tells its owner where a request came from
_CREDENTIALS = struct.Struct("3i")  # process, user, group of a Unix socket's other end


class Caller(msgspec.Struct, frozen=True):
    """The holder of a token. Without prefixes it may call every address that its role allows."""

    role: Role
    name: str = ""
    prefixes: tuple[Prefix, ...] = ()
    rules: PathRules | None = None
    """What it may do with documents; None: what its role allows."""

    @property
    def who(self) -> str:
        """The name for the audit: the token's name, or its role where it has none. `origin_of` tells the address."""
        return f"http {self.name or self.role.name.lower()}"

    def reaches(self, raw_path: bytes) -> bool:
        """Whether an address, as it came, lies below one of the prefixes.

        Compares whole segments, each decoded once, as the router does: `/log/orders%2Fx` and `/log/orders-old` are not below `/log/orders`.
        A path with `.` or `..`, which a proxy might resolve, is below no prefix.
        """
        if not self.prefixes:
            return True
        segments = segments_of(raw_path)
        if b"." in segments or b".." in segments:
            return False
        return any(segments[: len(prefix)] == prefix for prefix in self.prefixes)


def segments_of(raw_path: bytes) -> Prefix:
    """The segments of a path, each decoded once."""
    return tuple(unquote_to_bytes(segment) if b"%" in segment else segment for segment in raw_path[1:].split(b"/"))


def is_job(raw_path: bytes) -> bool:
    """Whether a path is that of one job: whoever has started it may see and cancel it, whatever the token's prefixes are."""
    segments = segments_of(raw_path)
    return len(segments) == 2 and segments[0] == b"jobs" and segments[1] not in (b"", b".", b"..")


def beyond_prefixes() -> Forbidden:
    """The error for an address that is not below the token's prefixes."""
    return Forbidden("The token may not call this address.", hint="Ask whoever runs the server for a token with this prefix.")


ANYBODY = Caller(Role.NOBODY)
OWNER = Caller(Role.OPERATOR)
"""Whoever reaches a server that asks for no token."""


def origin_of(scope: Scope) -> str:
    """Where a request comes from, for the audit: the address of the connection, or the user of this machine behind a Unix socket.

    A worker forwards requests to the part's owner over a Unix socket, and says in a header where they came from. Only whoever may use that
    socket, which is this user alone, is believed. No header of a proxy is.
    """
    client = scope.get("client")
    if client:
        return str(client[0])
    for name, value in scope["headers"]:
        if name == FORWARDED:
            text: str = value.decode("latin-1")
            return text
    from headwater.server.connection import CONNECTION  # which imports this module

    connection = scope.get("state", {}).get(CONNECTION)
    sock = None if connection is None else connection.transport.get_extra_info("socket")
    if sock is None or sock.family != socket.AF_UNIX:
        return "an unknown address"
    _, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return f"user {_name_of(user)}"


@lru_cache(maxsize=64)
def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
