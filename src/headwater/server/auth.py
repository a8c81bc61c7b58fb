"""Tokens and their callers, from a file; and the check of browsers' origins for a server without tokens."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.document_errors import BadPath
from headwater.core.errors import BadConfig, Denied, Forbidden
from headwater.documents.path import parse_path
from headwater.server.caller import Caller, Prefix, segments_of
from headwater.server.origins import AllowedOrigins
from headwater.server.path_rules import ACTIONS, ADDRESSES, PathRules
from headwater.server.tickets import ADDRESS, is_sealed, seal
from headwater.wire.operation import Role

_ROLES = {role.name.lower(): role for role in Role if role}
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_WORDS = ("name", "prefix", *ACTIONS)
_SHORTEST = 16  # characters: shorter tokens could be guessed over the network


class Tokens:
    """The callers of tokens. Holds only digests, so that no token can be printed."""

    def __init__(
        self,
        callers: Mapping[bytes, Caller],
        *,
        path: Path | None = None,
        more: Mapping[bytes, Caller] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`clock`: tells when tickets end."""
        self._callers, self._path, self._more, self._clock = dict(callers), path, dict(more or {}), clock or SystemClock()
        self._stamp = _stamp(path)
        self.generation = 0
        """Grows when the file was read anew: what was known of a token before need not hold any more."""

    @classmethod
    def load(cls, path: Path, *, clock: Clock | None = None) -> Tokens:
        """Read lines of `role token`, with `name=NAME`, `prefix=/ADDRESS`, `read=PATH`, `write=PATH` and `follow=PATH` behind them; skip
        empty lines and lines that begin with #.

        Errors: `BadConfig` for a file that cannot be read or that others on the machine can read, and for a bad line (never showing it).
        """
        tokens = cls({}, path=path, clock=clock)
        tokens._callers = _read(path)
        return tokens

    def with_operator(self, token: str) -> Tokens:
        """These tokens, and one more with the role operator."""
        more = {**self._more, _digest(token): Caller(Role.OPERATOR)}
        return Tokens(self._callers, path=self._path, more=more, clock=self._clock)

    def renew(self) -> None:
        """Read the file if it has changed. Logs an invalid file once and keeps the old tokens until the file changes again."""
        stamp = _stamp(self._path)
        if self._path is None or stamp == self._stamp:
            return
        self._stamp = stamp
        logger = logging.getLogger("headwater.server")
        try:
            self._callers = _read(self._path)
        except BadConfig as error:
            logger.error("the tokens of before stay in use: %s", error)
        else:
            self.generation += 1
            logger.info("the tokens in %s are in use", self._path)

    def caller(self, authorization: str | None) -> Caller:
        """The caller of an Authorization header. Errors: `Denied`."""
        if authorization is None:
            raise Denied("This server asks for a token.", hint="Send the header Authorization: Bearer TOKEN (or set HEADWATER_TOKEN).")
        scheme, _, token = authorization.partition(" ")
        digest = _digest(token.strip())
        match = self._match(lambda known: hmac.compare_digest(known, digest))
        if scheme.lower() != "bearer" or match is None:
            raise Denied("This token is not known here.", hint="Ask whoever runs the server for one: Authorization: Bearer TOKEN.")
        return match

    def ticket(self, authorization: str | None, raw_path: bytes, *, seconds: int) -> tuple[str, int]:
        """A ticket of the caller of this header for an address, and the date in ms at which it ends. Errors: `Denied`."""
        self.caller(authorization)
        until = self._clock.now_ms() + seconds * 1000
        return seal(_digest((authorization or "").partition(" ")[2].strip()), raw_path, until), until

    def holder(self, ticket: str, raw_path: bytes) -> Caller:
        """The caller of a ticket for an address, who may read. Errors: `Denied`."""
        now = self._clock.now_ms()
        match = self._match(lambda known: is_sealed(ticket, known, raw_path, now))
        if match is None:
            raise Denied("This ticket is not for this address, or its time is over.", hint=f"Ask for another with POST {ADDRESS}.")
        return msgspec.structs.replace(match, role=min(match.role, Role.READER))

    def _match(self, is_of: Callable[[bytes], bool]) -> Caller | None:
        match = None
        # Compare every digest, each in constant time: the duration tells nothing about the tokens.
        for callers in (self._callers, self._more):
            for known, caller in callers.items():
                if is_of(known):
                    match = caller
        return match


class OriginCheck:
    """Refuses requests of other sites' web pages to a server without tokens, which any browser on the machine can reach.

    A page can make the browser send requests to 127.0.0.1. Two checks prevent this: the Host must be a name of this machine, which a
    foreign name that resolves to 127.0.0.1 is not; and a request that changes something must not come from another site.
    """

    def __init__(self, *, hosts: Iterable[str] | None, origins: AllowedOrigins | None = None) -> None:
        """`hosts` None: allow every Host, because the server checks tokens. `origins`: whose pages may change something all the same."""
        self._hosts = None if hosts is None else frozenset(hosts)
        self.origins = origins or AllowedOrigins()

    def check(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
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
        foreign = method not in ("GET", "HEAD") and self.origins.of(headers) is None
        if foreign and (site == "cross-site" or (origin is not None and _site(origin) != host)):
            raise Forbidden(
                "A page of another site may not change anything here.",
                hint="Send the request from a program, or from the server's own pages.",
            )


def allowed_hosts(host: str) -> frozenset[str]:
    """The Host names that a server on `host` accepts without a token."""
    return frozenset({"127.0.0.1", "localhost", "[::1]", _name(host if ":" not in host else f"[{host}]")})


def _site(origin: str) -> str | None:
    """The host and port in an Origin header; None if it names none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(host: str) -> str:
    """The Host header without its port, in small letters; empty if invalid."""
    match = _HOST.fullmatch(host)
    return match[1].lower() if match else ""


def _read(path: Path) -> dict[bytes, Caller]:
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
    callers: dict[bytes, Caller] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            digest, caller = _entry(path, number, line.split())
            if digest in callers:
                raise BadConfig(f"{path}:{number}: this token is there already.", hint="Give each role a token of its own.")
            callers[digest] = caller
    if not callers:
        raise BadConfig(f"The token file {path} holds no token.", hint="Write lines such as: reader TOKEN")
    return callers


def _entry(path: Path, number: int, words: list[str]) -> tuple[bytes, Caller]:
    if len(words) < 2 or words[0] not in _ROLES or not all(word.partition("=")[0] in _WORDS and "=" in word for word in words[2:]):
        raise BadConfig(
            f"{path}:{number}: not a role and a token.",
            hint=f"Write such as: reader TOKEN, or: reader TOKEN name=shop prefix=/log/orders. The roles are {', '.join(_ROLES)}.",
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
    names = [word.removeprefix("name=") for word in words[2:] if word.startswith("name=")]
    if len(names) > 1 or not all(_NAME.fullmatch(name) for name in names):
        raise BadConfig(
            f"{path}:{number}: a token has one name, of up to 64 letters, digits, '.', '_', '@' and '-'.", hint="Write such as: name=shop"
        )
    prefixes = tuple(_prefix(path, number, word.removeprefix("prefix=")) for word in words[2:] if word.startswith("prefix="))
    given = [word.partition("=") for word in words[2:]]
    paths = {action: tuple(_ruled(path, number, text) for name, _, text in given if name == action) for action in ACTIONS}
    rules = PathRules(**paths) if any(paths.values()) else None
    if rules is not None and not prefixes:
        prefixes = (ADDRESSES,)  # the log has the same documents under other addresses
    return _digest(words[1]), Caller(_ROLES[words[0]], "".join(names), prefixes, rules)


def _ruled(path: Path, number: int, written: str) -> str:
    """The path of a rule."""
    ruled = written.removesuffix("/")
    try:
        return parse_path(ruled).text
    except BadPath as error:
        raise BadConfig(f"{path}:{number}: {error.message}", hint="Write a path of documents such as: read=shop/catalogue~") from None


def _prefix(path: Path, number: int, written: str) -> Prefix:
    segments = segments_of(written.rstrip("/").encode())
    if not written.startswith("/") or not all(segments) or b"." in segments or b".." in segments:
        raise BadConfig(
            f"{path}:{number}: a prefix is the beginning of an address.", hint="Write such as: prefix=/log/orders, percent-encoded."
        )
    return segments


def _stamp(path: Path | None) -> tuple[int, ...]:
    """What changes when a file is replaced or written, or who may read it; a missing file changes it, too."""
    try:
        at = None if path is None else path.stat()
    except OSError:
        at = None
    return () if at is None else (at.st_ino, at.st_size, at.st_mtime_ns, at.st_mode)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
