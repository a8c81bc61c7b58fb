"""Connections to MariaDB and MySQL, and what their errors mean here. No error of ours ever shows a password or the whole URI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext, SSLError
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from headwater.core.errors import (
    BadConfig,
    Denied,
    DiskFull,
    Forbidden,
    HeadwaterError,
    NotFound,
    OffsetGone,
    ReadOnly,
    Timeout,
    Unavailable,
    Unreachable,
)

# Errors about the values in a statement that the library does not call data errors: too long, no such value, a check, a trigger's own.
_DATA = frozenset(
    {1048, 1062, 1118, 1216, 1217, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1416, 1451, 1452, 1526, 1644, 1690, 1697}
    | {3140, 3141, 3819, 3903, 4025, 4038}
)
_MEANINGS: dict[int, tuple[type[HeadwaterError], str]] = {
    1021: (DiskFull, "Make room there, then start again."),
    1040: (Unavailable, "Raise max_connections, or use less parallelism."),
    1044: (Forbidden, "Grant the missing right to the URI's user."),
    1045: (Denied, "Check user and password in the URI."),
    1049: (NotFound, "Create the database, or correct the URI."),
    1114: (DiskFull, "Make room there, then start again."),
    1142: (Forbidden, "Grant the missing right to the URI's user."),
    1205: (Timeout, "Give the sink a longer timeout, or see what holds the rows."),
    1213: (Unavailable, "Start again: two transactions waited for each other."),
    1227: (Forbidden, "Grant REPLICATION SLAVE and REPLICATION CLIENT (BINLOG MONITOR) to the URI's user."),
    1236: (OffsetGone, "Begin the copy anew; and let the server keep its binary log for longer."),
    1290: (ReadOnly, "Connect to the primary."),
    1698: (Denied, "Check user and password in the URI."),
    1836: (ReadOnly, "Connect to the primary."),
    1969: (Timeout, "Give the sink a longer timeout."),
    3024: (Timeout, "Give the sink a longer timeout."),
}


# What PyMySQL says of a server that is there, but not as the URI's ssl_ca wants it. Waiting would not help.
_NO_TLS = ("CERTIFICATE_VERIFY_FAILED", "SSL is required")


class Where(msgspec.Struct, frozen=True):
    """A URI in its parts."""

    host: str
    port: int
    user: str
    password: str
    database: str
    ca: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    __repr__ = __str__


def library() -> Any:
    """PyMySQL. Errors: `BadConfig` where it is not installed."""
    try:
        import pymysql
    except ImportError as error:
        raise BadConfig("MySQL needs the package PyMySQL, which is not installed.", hint='`pip install "headwater[mysql]"`.') from error
    return pymysql


@cache
def connection() -> Any:
    """PyMySQL's class of connections, but for one thing: where no authority is given, none is loaded.

    Without one, TLS is used if the server offers it and nobody is verified. PyMySQL reads all authorities of the machine nevertheless, for
    every connection, which takes ten times as long as connecting.
    """

    class Connection(library().connections.Connection):  # type: ignore[misc]
        def _create_ssl_ctx(self, given: Any) -> SSLContext:
            if given:
                made: SSLContext = super()._create_ssl_ctx(given)
                return made
            bare = SSLContext(PROTOCOL_TLS_CLIENT)
            bare.check_hostname = False
            bare.verify_mode = CERT_NONE
            return bare

    return Connection


def parsed(uri: str) -> Where:
    """The URI's parts. Errors: `BadConfig`, without a word of what is in it."""
    hint = "It looks like mysql://user:password@host:3306/database, perhaps with ?ssl_ca=/path/to/ca.pem."
    try:
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        port = parts.port or 3306
    except ValueError:
        raise BadConfig("The URI of MySQL cannot be understood.", hint=hint) from None
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or set(options) - {"ssl_ca"}:
        raise BadConfig("The URI of MySQL cannot be understood.", hint=hint)
    return Where(
        parts.hostname,
        port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        unquote(parts.path.strip("/")),
        options.get("ssl_ca", ""),
    )


def settings(where: Where, **more: Any) -> dict[str, Any]:
    """What PyMySQL connects by."""
    found: dict[str, Any] = {
        "host": where.host,
        "port": where.port,
        "user": where.user,
        "password": where.password,
        "charset": "utf8mb4",
        "connect_timeout": 10,
    }
    if where.database:
        found["database"] = where.database
    if where.ca:
        found["ssl"] = {"ca": where.ca}
    return found | more


@contextmanager
def connected(where: Where, **more: Any) -> Iterator[Any]:
    """A connection in autocommit, closed in the end; the library's errors inside become ours."""
    pymysql = library()
    try:
        with closing(connect(where, **more)) as link:
            yield link
    except pymysql.MySQLError as error:
        raise meaning(error, where) from error


def connect(where: Where, **more: Any) -> Any:
    """A connection in autocommit. Errors: `Denied`, `NotFound`, `Unreachable`."""
    pymysql = library()
    flags = pymysql.constants.CLIENT.FOUND_ROWS  # an UPDATE that changes nothing has still found its row
    # Strict, so that a value that does not fit is refused and not cut short; UTC, so that timestamps mean the same everywhere.
    first = "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
    try:
        return connection()(**settings(where, autocommit=True, client_flag=flags, init_command=first, **more))
    except pymysql.MySQLError as error:
        raise meaning(error, where) from None
    except (SSLError, FileNotFoundError) as error:  # of the authority's file
        raise _untrusted(where, f"{where.ca}: {error}") from None
    except (OSError, ValueError) as error:
        raise Unreachable(
            f"MySQL at {where} cannot be reached: {error}.",
            hint="Check host and port in the URI and see whether it runs, then start again.",
        ) from None


def code_of(error: BaseException) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def about_data(error: BaseException) -> bool:
    """Whether an error is about the values given, and no machine's fault."""
    pymysql = library()
    return isinstance(error, pymysql.err.DataError | pymysql.err.IntegrityError) or code_of(error) in _DATA


def meaning(error: Any, where: Where) -> HeadwaterError:
    """The error of ours that an error of PyMySQL's is."""
    code = code_of(error)
    said = (str(error.args[1]) if len(error.args) > 1 else str(error)) or type(error).__name__
    if code in _MEANINGS:
        kind, hint = _MEANINGS[code]
        return kind(f"MySQL at {where}: {said}.", hint=hint)
    if any(word in said for word in _NO_TLS):
        return _untrusted(where, said)
    pymysql = library()
    if 2000 <= code < 2100 or isinstance(error, OSError | pymysql.err.OperationalError | pymysql.err.InterfaceError):
        return Unreachable(
            f"MySQL at {where} does not answer: {said}.", hint="Check host and port in the URI and see whether it runs, then start again."
        )
    return Unavailable(f"MySQL at {where} cannot do it: {said}.", hint="See the server's log.")


def _untrusted(where: Where, said: str) -> BadConfig:
    return BadConfig(
        f"MySQL at {where} cannot be trusted as the URI wants it: {said}.",
        hint="Give the authority that signed its certificate (ssl_ca=...) and the host that it names, or leave ssl_ca out.",
    )


def ask(link: Any, question: str, given: Any = None) -> list[tuple[Any, ...]]:
    """A statement's rows."""
    with link.cursor() as cursor:
        cursor.execute(question, given)
        return list(cursor.fetchall())


def do(link: Any, statement: str | bytes, given: Any = None) -> int:
    """A statement's count of rows."""
    with link.cursor() as cursor:
        return int(cursor.execute(statement, given))


def abandon(link: Any, cursor: Any) -> None:
    """Close a cursor; in the middle of an answer the connection with it. Closing it alone, or forgetting it, would first read the rest."""
    if cursor._result is not None and cursor._result.unbuffered_active:
        cursor._result.unbuffered_active = False
        cursor._result.connection = None
        link._force_close()
    cursor.close()


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
