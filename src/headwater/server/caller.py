"""The caller of a request: the name, role and prefixes of a token."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import msgspec

from headwater.wire.operation import Role

Prefix = tuple[bytes, ...]


class Caller(msgspec.Struct, frozen=True):
    """The holder of a token. Without prefixes it may call every address that its role allows."""

    role: Role
    name: str = ""
    prefixes: tuple[Prefix, ...] = ()

    @property
    def who(self) -> str:
        """The name for the audit: the token's name, or its role where it has none."""
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


ANYBODY = Caller(Role.NOBODY)
OWNER = Caller(Role.OPERATOR)
"""Whoever reaches a server that asks for no token."""
