"""Connections to PostgreSQL, and what its errors mean here. No error of ours ever shows a password or the whole URI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

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

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

# Classes of SQLSTATE that are about the values in a statement: bad data, broken constraints, a view's check, a trigger's own error.
_DATA = ("21", "22", "23", "44", "P0")
_DATA_STATES = ("42804", "42846", "54000", "54001")  # a type that does not fit; a value too long for its index
_IN_THE_WAY = ("55006", "55P03")  # a lock, an object in use; and all of class 40: serialization and deadlock
# What libpq says of a server that is there, but not as the URI's sslmode wants it. Waiting would not help.
_NO_TLS = ("certificate", "SSL was required")
# What makes text the same everywhere, whatever the server's own settings are. Seqscans that join one another would change the order.
_SESSION = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex -c extra_float_digits=1 -c synchronize_seqscans=off"
)


def library() -> Any:
    """psycopg. Errors: `BadConfig` where it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise BadConfig(
            "PostgreSQL needs the package psycopg, which is not installed.", hint='`pip install "headwater[postgres]"`.'
        ) from error
    return psycopg


def connect(uri: str, **more: Any) -> Connection:
    """A connection in autocommit. Errors: `BadConfig`, `Denied`, `NotFound`, `Unreachable`."""
    psycopg = library()
    where = place(uri)
    try:
        given = psycopg.conninfo.conninfo_to_dict(uri)
        usual = {
            "connect_timeout": 10,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,  # a machine that is gone is missed although something was just sent to it
            "application_name": "headwater",
        }
        # JSON is in UTF-8, whatever the database's own encoding or the machine's is.
        own = {name: value for name, value in usual.items() if name not in given} | {"client_encoding": "UTF8"}
        session = f"{given.get('options', '')} {_SESSION}"  # ours last, so that they hold
        link: Connection = psycopg.connect(uri, autocommit=True, **{**own, "options": session, **more})
    except psycopg.Error as error:
        raise meaning(error, where) from None  # the cause could hold the URI
    return link


def place(uri: str) -> str:
    """What may be shown of a URI: host:port/database. Errors: `BadConfig` for text that is none."""
    psycopg = library()
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(uri)
    except psycopg.Error:
        raise BadConfig(
            "The URI of PostgreSQL cannot be understood.", hint="It looks like postgresql://user:password@host:5432/database."
        ) from None
    return f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}/{parts.get('dbname') or parts.get('user') or ''}"


def about_data(error: BaseException) -> bool:
    """Whether an error of the server is about the values given, and no machine's fault."""
    psycopg = library()
    if isinstance(error, psycopg.Error) and error.sqlstate is None:
        # psycopg's own: a value that it cannot send, such as text with a zero in it.
        return isinstance(error, psycopg.DataError)
    state = getattr(error, "sqlstate", None) or ""
    return state[:2] in _DATA or state in _DATA_STATES


def meaning(error: Any, where: str) -> HeadwaterError:
    """The error of ours that an error of psycopg's is."""
    psycopg = library()
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    state = error.sqlstate or ""
    if state == "57014" or isinstance(error, psycopg.errors.ConnectionTimeout):
        return Timeout(
            f"PostgreSQL at {where} took too long: {said}.", hint="Give the sink a longer timeout, or look at the server's locks."
        )
    if state[:2] == "53":
        kind = DiskFull if state == "53100" else Unavailable
        return kind(f"PostgreSQL at {where} has run out of something: {said}.", hint="Make room there, then start again.")
    if state[:2] == "28" or (not state and "password authentication failed" in said) or "no password supplied" in said:
        return Denied(f"PostgreSQL at {where} does not let us in: {said}.", hint="Check user and password in the URI.")
    if state == "42501":
        return Forbidden(f"PostgreSQL at {where} forbids it: {said}.", hint="Grant the missing right to the URI's user.")
    if state == "25006":
        return ReadOnly(f"PostgreSQL at {where} is read only: {said}.", hint="Connect to the primary.")
    if state == "3D000" or (not state and "does not exist" in said and "database" in said):
        return NotFound(f"PostgreSQL at {where}: {said}.", hint="Create the database, or correct the URI.")
    if not state and any(word in said for word in _NO_TLS):
        return BadConfig(
            f"PostgreSQL at {where} cannot be trusted as the URI wants it: {said}.",
            hint="Give the authority that signed its certificate (sslrootcert=...), the host that it names, or another sslmode.",
        )
    if state[:2] == "40" or state in _IN_THE_WAY:
        return Unreachable(f"PostgreSQL at {where} cannot do it now: {said}.", hint="Start again: another transaction was in the way.")
    if state[:2] in ("57", "58", "08") or (not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)):
        return Unreachable(
            f"PostgreSQL at {where} does not answer: {said}.",
            hint="Check host and port in the URI and see whether it runs, then start again.",
        )
    return Unavailable(f"PostgreSQL at {where} cannot do it: {said}.", hint="See the server's log.")


def fail(error: Any, where: str) -> NoReturn:
    """Raise what the error means."""
    raise meaning(error, where) from error


@contextmanager
def translated(where: str) -> Iterator[None]:
    """psycopg's errors inside become ours."""
    try:
        yield
    except library().Error as error:
        fail(error, where)
