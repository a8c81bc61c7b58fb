"""Whether a server can fill its role, and what is missing: for `headwater pipeline test`. Changes nothing."""

from __future__ import annotations

from typing import Any

from headwater.adaptors.mysql.connection import Where, ask, code_of, connected, library, quote
from headwater.adaptors.mysql.sql import ATTEMPT_TO_CREATE, ATTEMPTS, STATEMENTS
from headwater.adaptors.mysql.tables import tables
from headwater.adaptors.mysql.tail import prepare
from headwater.adaptors.sql.table import COMMITTED
from headwater.core.errors import Forbidden, ReadOnly
from headwater.pipeline.namespaces import Namespaces

RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE")


def source(where: Where, chosen: Namespaces, *, tail: bool) -> list[str]:
    """Errors: `NotFound` without a table, `Forbidden`, `BadConfig` where changes cannot be followed."""
    with connected(where) as link:
        lines = [_version(link, where), *(str(one) for one in tables(link, where.database, chosen))]
    if tail:
        cursor = prepare(where, chosen)
        lines.append(f"the binary log is at {cursor['file']}:{cursor['pos']}")
    return lines


def sink(where: Where) -> list[str]:
    """Errors: `ReadOnly` on a replica, `Forbidden` where the sink's own tables cannot be made or written."""
    with connected(where) as link:
        if ask(link, "SELECT @@read_only")[0][0]:
            raise ReadOnly(f"MySQL at {where} is read only.", hint="Connect to the primary.")
        there = bool(ask(link, STATEMENTS.there))
        for attempt in (*ATTEMPTS, *(() if there else (ATTEMPT_TO_CREATE,))):
            _allowed(link, where, attempt)
        return [_version(link, where), f"what was taken is kept in {where.database}.{COMMITTED}: exactly once"]


def _allowed(link: Any, where: Where, attempt: str) -> None:
    """Try what changes nothing: a server looks at rights before it looks whether a table is there."""
    try:
        ask(link, attempt)
    except library().MySQLError as error:
        if code_of(error) in (1044, 1142):
            right = ", ".join(RIGHTS)
            raise Forbidden(
                f"What the sink has taken cannot be kept in {where.database}: {error.args[-1]}.",
                hint=f"Grant its user the rights: GRANT {right} ON {quote(where.database)}.* TO ...",
            ) from error
        if code_of(error) != 1146:  # no such table: so it may be made
            raise


def _version(link: Any, where: Where) -> str:
    return f"MySQL {ask(link, 'SELECT VERSION()')[0][0]} at {where}"
