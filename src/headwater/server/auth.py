"""Tokens and their roles, from a file; and which browsers may speak to a server that asks for no token."""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from headwater.core.errors import BadConfig, Denied, Forbidden
from headwater.wire.operation import Role

_ROLES = {role.name.lower(): role for role in Role if role}
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_SHORTEST = 16  # characters: fewer could be guessed over the network


class Tokens:
    """Who a token stands for. Holds digests only: no token can be printed by accident."""

    def __init__(self, digests: Iterable[tuple[bytes, Role]]) -> None:
        self._digests = tuple(digests)

    @classmethod
    def load(cls, path: Path) -> Tokens:
        """Lines of `role token`; empty lines and lines that begin with # are left out.

        Errors: `BadConfig` for a file that cannot be read or that others on the machine can read, and for a bad line (never showing it).
        """
        try:
            mode = path.stat().st_mode
            lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
            raise BadConfig(
                f"The token file {path} cannot be read: {reason}.", hint="Name a text file with lines such as: reader TOKEN"
            ) from None
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            raise BadConfig(f"Everybody on this machine can read or write the token file {path}.", hint=f"Run: chmod 600 {path}")
        found: dict[bytes, Role] = {}
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.lstrip().startswith("#"):
                digest, role = _entry(path, number, line.split())
                if digest in found:
                    raise BadConfig(f"{path}:{number}: this token is there already.", hint="Give each role a token of its own.")
                found[digest] = role
        if not found:
            raise BadConfig(f"The token file {path} holds no token.", hint="Write lines such as: reader TOKEN")
        return cls(found.items())

    def with_operator(self, token: str) -> Tokens:
        """These, and one more that may do everything."""
        return Tokens((*self._digests, (_digest(token), Role.OPERATOR)))

    def role(self, authorization: str | None) -> Role:
        """The role behind an Authorization header. Errors: `Denied`."""
        if authorization is None:
            raise Denied("This server asks for a token.", hint="Send the header Authorization: Bearer TOKEN (or set HEADWATER_TOKEN).")
        scheme, _, token = authorization.partition(" ")
        digest = _digest(token.strip())
        role = Role.NOBODY
        # Every digest is compared, each in constant time: how long the answer takes tells nothing about the tokens.
        for known, its in self._digests:
            if hmac.compare_digest(known, digest):
                role = its
        if scheme.lower() != "bearer" or role is Role.NOBODY:
            raise Denied("This token is not known here.", hint="Ask whoever runs the server for one: Authorization: Bearer TOKEN.")
        return role


class Guard:
    """Keeps web pages of other sites away from a server on this machine, which any browser on it can reach.

    A page can make the browser send requests to 127.0.0.1. Without tokens two checks stand in the way: the Host must be a name of this
    machine (a foreign name that was pointed at 127.0.0.1 is not), and a request that changes something must not come from another site.
    """

    def __init__(self, *, hosts: Iterable[str] | None) -> None:
        """`hosts` None: every Host is fine, because tokens are asked for."""
        self._hosts = None if hosts is None else frozenset(hosts)

    def check(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Errors: `Forbidden`."""
        host = origin = site = None
        for name, value in headers:
            if name == b"host":
                host = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
            elif name == b"sec-fetch-site":
                site = value.decode("latin-1")
        if self._hosts is not None and (host is None or _name(host) not in self._hosts):
            raise Forbidden(
                f"The Host {host!r} is no name of this server.",
                hint="Use its address, or give the server a token file to serve other names.",
            )
        if method not in ("GET", "HEAD") and (site == "cross-site" or (origin is not None and _site(origin) != host)):
            raise Forbidden(
                "A page of another site may not change anything here.",
                hint="Send the request from a program, or from the server's own pages.",
            )


def allowed_hosts(host: str) -> frozenset[str]:
    """The names under which a server that listens on `host` may be addressed without a token."""
    return frozenset({"127.0.0.1", "localhost", "[::1]", _name(host if ":" not in host else f"[{host}]")})


def _site(origin: str) -> str | None:
    """The host and port that an Origin header names; None for one that names none, as far as anybody can tell."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(host: str) -> str:
    """The Host header without its port, in small letters; empty for what is none."""
    found = _HOST.fullmatch(host)
    return found[1].lower() if found else ""


def _entry(path: Path, number: int, words: list[str]) -> tuple[bytes, Role]:
    if len(words) != 2 or words[0] not in _ROLES:
        raise BadConfig(
            f"{path}:{number}: not a role and a token.", hint=f"Write such as: reader TOKEN. The roles are {', '.join(_ROLES)}."
        )
    if len(words[1]) < _SHORTEST:
        raise BadConfig(
            f"{path}:{number}: the token is shorter than {_SHORTEST} characters.",
            hint="Make one with: python -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    if not words[1].isascii():
        raise BadConfig(
            f"{path}:{number}: the token holds letters that cannot be sent as a header.",
            hint="Use the letters a to z, digits, '-' and '_'.",
        )
    return _digest(words[1]), _ROLES[words[0]]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
