"""Connections to MariaDB and MySQL, and their errors as headwater's. No error shows a password or the whole URI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext, SSLError
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pymysql

from headwater.adaptors.sql.session import Session
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

# Errors about the values in a statement that PyMySQL does not class as data errors: too long, no such value, a check, a trigger's own.
_DATA = frozenset(
    {1048, 1062, 1118, 1216, 1217, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1416, 1451, 1452, 1526, 1644, 1690, 1697}
    | {3140, 3141, 3819, 3903, 4025, 4038, 4078}
)
# A name, a type or a count of columns that the server does not take; 4092 and 4161 are MariaDB's.
_TABLES = frozenset({1059, 1060, 1064, 1069, 1070, 1071, 1074, 1102, 1103, 1113, 1117, 1118, 1166, 1170, 1171, 1300, 4092, 4161})
_UNMADE = (139, 140, 185)  # the engine's reasons: a row that is too long, options that go together with nothing, too many columns
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
# PyMySQL's words for a server that answers, but not as the URI's ssl_ca demands. Waiting would not help.
_NO_TLS = ("CERTIFICATE_VERIFY_FAILED", "SSL is required")
_REACH = "Check host and port in the URI and see whether it runs, then start again."


class MySQLAddress(msgspec.Struct, frozen=True):
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


class MySQLConnection(pymysql.connections.Connection):  # type: ignore[misc]
    """PyMySQL's connection, which loads no authorities where the URI names none.

    Without one, TLS is used if the server offers it and nobody is verified. PyMySQL reads all authorities of the machine nevertheless, for
    every connection, which takes ten times as long as connecting.
    """

    def _create_ssl_ctx(self, options: Any) -> SSLContext:
        if options:
            context: SSLContext = super()._create_ssl_ctx(options)
            return context
        bare = SSLContext(PROTOCOL_TLS_CLIENT)
        bare.check_hostname = False
        bare.verify_mode = CERT_NONE
        return bare


def parsed(uri: str) -> MySQLAddress:
    """The URI's parts. Errors: `BadConfig`, which never shows the URI."""
    try:
        parts = urlsplit(uri)
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or set(options) - {"ssl_ca"}:
            raise ValueError
        user, password, database = (unquote(text or "") for text in (parts.username, parts.password, parts.path.strip("/")))
        return MySQLAddress(parts.hostname, parts.port or 3306, user, password, database, options.get("ssl_ca", ""))
    except ValueError:
        hint = "It looks like mysql://user:password@host:3306/database, perhaps with ?ssl_ca=/path/to/ca.pem."
        raise BadConfig("The URI of MySQL cannot be understood.", hint=hint) from None


def settings(where: MySQLAddress, **more: Any) -> dict[str, Any]:
    """The parameters of a connection of PyMySQL."""
    parameters: dict[str, Any] = {
        "host": where.host,
        "port": where.port,
        "user": where.user,
        "password": where.password,
        "charset": "utf8mb4",
        "connect_timeout": 10,
    }
    if where.database:
        parameters["database"] = where.database
    if where.ca:
        parameters["ssl"] = {"ca": where.ca}
    return parameters | more


class MySQLSession(Session):
    """One connection to MariaDB or MySQL. `more`: parameters of PyMySQL. Errors: `BadConfig`, `Denied`, `NotFound`, `Unreachable`."""

    server: ClassVar[str] = "MySQL"
    fails: ClassVar[tuple[type[Exception], ...]] = (pymysql.MySQLError, OSError)

    def __init__(self, where: MySQLAddress, **more: Any) -> None:
        super().__init__(str(where))
        self.database = where.database
        self._depth = 0
        flags = pymysql.constants.CLIENT.FOUND_ROWS  # an UPDATE that changes nothing has still found its row
        # Strict, so that a value that does not fit is refused and not cut short; UTC, so that timestamps mean the same everywhere.
        first = "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
        try:
            self.link = MySQLConnection(**settings(where, autocommit=True, client_flag=flags, init_command=first, **more))
        except pymysql.MySQLError as error:
            raise self.meaning(error) from None
        except (SSLError, FileNotFoundError) as error:  # of the authority's file
            raise _untrusted(where, f"{where.ca}: {error}") from None
        except (OSError, ValueError) as error:
            raise Unreachable(f"MySQL at {where} cannot be reached: {error}.", hint=_REACH) from None

    def ask(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with self.link.cursor() as cursor:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall())

    def do(self, statement: str | bytes, parameters: Any = None) -> int:
        with self.link.cursor() as cursor:
            return int(cursor.execute(statement, parameters))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        point = f"SAVEPOINT headwater_{self._depth}" if self._depth else ""
        self.do(point or "BEGIN")
        self._depth += 1
        try:
            yield
        except BaseException:
            # A lost connection rolls back by itself, and a deadlock has rolled back already, savepoints included.
            with suppress(*self.fails):
                if self.link.open:
                    self.do(f"ROLLBACK TO {point}" if point else "ROLLBACK")
            raise
        finally:
            self._depth -= 1
        self.do(f"RELEASE {point}" if point else "COMMIT")

    def there_already(self, error: BaseException) -> bool:
        return code_of(error) in (1007, 1050, 1060)  # a database, a table, a column of the name

    def said(self, error: BaseException) -> str:
        return str(error.args[-1])

    def fileno(self) -> int:
        return int(self.link._sock.fileno())

    def close(self) -> None:
        if self.link.open:
            self.link.close()

    def version(self) -> str:
        return f"MySQL {self.one('SELECT VERSION()')} at {self.where}"

    def variable(self, name: str) -> str | None:
        """A variable of the server; None where it has none of this name."""
        rows = self.ask("SHOW GLOBAL VARIABLES LIKE %s", (name,))
        return str(rows[0][1]) if rows else None

    @staticmethod
    def about_data(error: BaseException) -> bool:
        return isinstance(error, pymysql.err.DataError | pymysql.err.IntegrityError) or code_of(error) in _DATA

    @staticmethod
    def about_tables(error: BaseException) -> bool:
        code = code_of(error)
        return code in _TABLES or (code in (1005, 1025) and any(f"errno: {number} " in str(error.args[-1]) for number in _UNMADE))

    @staticmethod
    def explained(error: Any, where: object) -> HeadwaterError:
        code = code_of(error)
        reason = (str(error.args[1]) if len(error.args) > 1 else str(error)) or type(error).__name__
        if code in _MEANINGS:
            kind, hint = _MEANINGS[code]
            return kind(f"MySQL at {where}: {reason}.", hint=hint)
        if any(word in reason for word in _NO_TLS):
            return _untrusted(where, reason)
        if 2000 <= code < 2100 or isinstance(error, OSError | pymysql.err.OperationalError | pymysql.err.InterfaceError):
            return Unreachable(f"MySQL at {where} does not answer: {reason}.", hint=_REACH)
        return Unavailable(f"MySQL at {where} cannot do it: {reason}.", hint="See the server's log.")


def code_of(error: BaseException) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _untrusted(where: object, reason: str) -> BadConfig:
    return BadConfig(
        f"MySQL at {where} cannot be trusted as the URI demands: {reason}.",
        hint="Give the authority that signed its certificate (ssl_ca=...) and the host that it names, or leave ssl_ca out.",
    )


def abandon(link: Any, cursor: Any) -> None:
    """Close a cursor, and with unread rows the connection: closing the cursor alone, or dropping it, would first read the rest."""
    if cursor._result is not None and cursor._result.unbuffered_active:
        cursor._result.unbuffered_active = False
        cursor._result.connection = None
        link._force_close()
    cursor.close()


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
