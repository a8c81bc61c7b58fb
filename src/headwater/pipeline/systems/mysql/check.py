"""Whether a server can fill its role, and what is missing: for `headwater pipeline test`. Changes nothing."""

from __future__ import annotations

from typing import Any

from headwater.core.errors import ReadOnly
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.mysql.link import Where, ask, connected
from headwater.pipeline.systems.mysql.tables import tables
from headwater.pipeline.systems.mysql.tail import prepare
from headwater.pipeline.systems.sql.table import COMMITTED


def source(where: Where, chosen: Namespaces, *, tail: bool) -> list[str]:
    """Errors: `NotFound` without a table, `Forbidden`, `BadConfig` where changes cannot be followed."""
    with connected(where) as link:
        lines = [_version(link, where), *(str(one) for one in tables(link, where.database, chosen))]
    if tail:
        cursor = prepare(where, chosen)
        lines.append(f"the binary log is at {cursor['file']}:{cursor['pos']}")
    return lines


def sink(where: Where) -> list[str]:
    """Errors: `ReadOnly` on a replica."""
    with connected(where) as link:
        if ask(link, "SELECT @@read_only")[0][0]:
            raise ReadOnly(f"MySQL at {where} is read only.", hint="Connect to the primary.")
        return [_version(link, where), f"what was taken is kept in {where.database}.{COMMITTED}: exactly once"]


def _version(link: Any, where: Where) -> str:
    return f"MySQL {ask(link, 'SELECT VERSION()')[0][0]} at {where}"
