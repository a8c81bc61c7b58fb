"""Connections to PostgreSQL, and its errors as headwater's. No error shows a password or the whole URI."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headwater.adaptors.sql.session import Session
from headwater.core.errors import (
    BadConfig,
    Denied,
    DiskFull,
    Forbidden,
    HeadwaterError,
    NotFound,
    ReadOnly,
    Timeout,
    Unavailable,
    Unreachable,
)

OLDEST = 140000
# Classes of SQLSTATE that are about the values in a statement: bad data, broken constraints, a view's check, a trigger's own error.
_DATA = ("21", "22", "23", "44", "P0")
_DATA_STATES = ("42804", "42846", "54000", "54001")  # a type that does not fit; a value too long for its index
_LOCKED = ("55006", "55P03")  # a lock, an object in use; and all of class 40: serialization and deadlock
# libpq's words for a server that answers, but not as the URI's sslmode demands. Waiting would not help.
_NO_TLS = ("certificate", "SSL was required")
_USUAL = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # notices a machine that is gone although something was just sent to it
    "application_name": "headwater",
}
ALL_ROWS = "SET row_security = off"  # rows that a policy hides are an error: a copy would lack them, and changes would tell of them
# These make text the same everywhere, whatever the server's own settings are. Synchronized sequential scans would change the order of rows.
_SESSION = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex -c extra_float_digits=1 -c synchronize_seqscans=off "
    "-c standard_conforming_strings=on"
)


class PostgresSession(Session):
    """One connection to PostgreSQL. `more`: further parameters of libpq. Errors: `BadConfig`, `Denied`, `NotFound`, `Unreachable`."""

    server: ClassVar[str] = "PostgreSQL"
    fails: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)

    def __init__(self, uri: str, **more: Any) -> None:
        super().__init__(place(uri))
        parameters = conninfo_to_dict(uri)
        # JSON is in UTF-8, whatever the encoding of the database or the machine is.
        own: dict[str, Any] = {name: value for name, value in _USUAL.items() if name not in parameters} | {"client_encoding": "UTF8"}
        own["options"] = f"{parameters.get('options', '')} {_SESSION}"  # ours last: the last setting of a name holds
        try:
            self.link: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(uri, autocommit=True, **(own | more))
        except psycopg.Error as error:
            raise self.meaning(error) from None  # the cause could hold the URI

    def ask(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        return self.link.execute(statement, parameters).fetchall()

    def do(self, statement: str | bytes, parameters: Any = None) -> int:
        return self.link.execute(statement, parameters).rowcount

    def transaction(self) -> AbstractContextManager[Any]:
        return self.link.transaction()

    def there_already(self, error: BaseException) -> bool:
        # Of two tasks that create one table at once, the second violates a unique index of the catalog.
        return getattr(error, "sqlstate", None) in ("23505", "42P07", "42P06", "42701")

    def said(self, error: BaseException) -> str:
        return " ".join(str(error).split())

    def fileno(self) -> int:
        return self.link.fileno()

    def close(self) -> None:
        self.link.close()

    def version(self) -> str:
        """A line about the server. Errors: `BadConfig` for one that is too old."""
        number = self.link.info.server_version
        if number < OLDEST:
            raise BadConfig(f"PostgreSQL at {self.where} is version {number // 10000}.", hint="14 or newer is needed.")
        return f"PostgreSQL {number // 10000}.{number % 10000} at {self.where}"

    @staticmethod
    def about_data(error: BaseException) -> bool:
        if isinstance(error, psycopg.Error) and error.sqlstate is None:
            # psycopg's own: a value that it cannot send, such as text with a zero in it.
            return isinstance(error, psycopg.DataError)
        state = getattr(error, "sqlstate", None) or ""
        return state[:2] in _DATA or state in _DATA_STATES

    @staticmethod
    def about_tables(error: BaseException) -> bool:
        state = getattr(error, "sqlstate", None) or ""
        return (state[:2] in ("42", "54") and state != "42501") or (state == "" and isinstance(error, psycopg.DataError))

    @staticmethod
    def explained(error: Any, where: object) -> HeadwaterError:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        state, server = error.sqlstate or "", f"PostgreSQL at {where}"
        if state == "57014" or isinstance(error, psycopg.errors.ConnectionTimeout):
            return Timeout(f"{server} took too long: {reason}.", hint="Give the sink a longer timeout, or look at the server's locks.")
        if state[:2] == "53":
            kind = DiskFull if state == "53100" else Unavailable
            return kind(f"{server} has run out of a resource: {reason}.", hint="Make room there, then start again.")
        if state[:2] == "28" or (not state and "password authentication failed" in reason) or "no password supplied" in reason:
            return Denied(f"{server} refuses the login: {reason}.", hint="Check user and password in the URI.")
        if state == "42501" and "row-level security" in reason:
            hint = "Grant the URI's user the right to see all rows: ALTER ROLE ... BYPASSRLS. Or choose other tables."
            return Forbidden(f"{server} would leave rows out: {reason}.", hint=hint)
        if state == "42501":
            return Forbidden(f"{server} forbids it: {reason}.", hint="Grant the missing right to the URI's user.")
        if state == "25006":
            return ReadOnly(f"{server} is read only: {reason}.", hint="Connect to the primary.")
        if state == "3D000" or (not state and "does not exist" in reason and "database" in reason):
            return NotFound(f"{server}: {reason}.", hint="Create the database, or correct the URI.")
        if not state and any(word in reason for word in _NO_TLS):
            return BadConfig(
                f"{server} cannot be trusted as the URI demands: {reason}.",
                hint="Give the authority that signed its certificate (sslrootcert=...), the host that it names, or another sslmode.",
            )
        if state[:2] == "40" or state in _LOCKED:
            return Unreachable(f"{server} cannot do it now: {reason}.", hint="Start again: another transaction was in the way.")
        if state[:2] in ("57", "58", "08") or (not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)):
            return Unreachable(
                f"{server} does not answer: {reason}.", hint="Check host and port in the URI and see whether it runs, then start again."
            )
        return Unavailable(f"{server} cannot do it: {reason}.", hint="See the server's log.")


def place(uri: str) -> str:
    """The part of a URI that may be shown: host:port/database. Errors: `BadConfig` for text that is no URI."""
    try:
        parts = conninfo_to_dict(uri)
    except psycopg.Error:
        hint = "It looks like postgresql://user:password@host:5432/database."
        raise BadConfig("The URI of PostgreSQL cannot be understood.", hint=hint) from None
    return f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}/{parts.get('dbname') or parts.get('user') or ''}"
