"""Whether a database can fill its role, and what is missing: for `headwater pipeline test`. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.adaptors.postgres.connection import connect, place, translated
from headwater.adaptors.postgres.publication import check as check_publication
from headwater.adaptors.postgres.slot import place_of
from headwater.adaptors.postgres.tables import followable, logical, may_replicate, quote, tables
from headwater.adaptors.sql.table import COMMITTED
from headwater.core.errors import BadConfig, Forbidden, ReadOnly
from headwater.pipeline.namespaces import Namespaces

if TYPE_CHECKING:
    from headwater.adaptors.postgres.connection import Connection

OLDEST = 140000


def source(uri: str, chosen: Namespaces, slot: str | None, publication: str) -> list[str]:
    """Errors: `NotFound` without a table, `Forbidden`, `BadConfig` where changes cannot be followed."""
    with connect(uri) as link, translated(place(uri)):
        lines = [_version(link, uri)]
        found = tables(link, chosen)
        lines += [str(one) for one in found]
        if slot is not None:
            lines += _tail(link, slot)
            followable(found)
            check_publication(link, publication, found)
    return lines


def sink(uri: str, state: str, chosen: Namespaces) -> list[str]:
    """Errors: `Forbidden` where the sink's own tables cannot be made, `ReadOnly` on a standby."""
    with connect(uri) as link, translated(place(uri)):
        lines = [_version(link, uri)]
        if _one(link, "SELECT pg_is_in_recovery()"):
            raise ReadOnly(f"PostgreSQL at {place(uri)} is a standby.", hint="Connect to the primary.")
        there = _one(link, "SELECT to_regclass(%s) IS NOT NULL", f"{quote(state)}.{COMMITTED}")
        if there:
            allowed = _one(link, "SELECT has_table_privilege(%s, 'INSERT, DELETE')", f"{quote(state)}.{COMMITTED}")
        else:
            allowed = _one(
                link, "SELECT count(*) > 0 AND bool_and(has_schema_privilege(oid, 'CREATE')) FROM pg_namespace WHERE nspname = %s", state
            )
        if not allowed:
            raise Forbidden(
                f"What the sink has taken cannot be kept in the schema {state}.",
                hint="Grant CREATE on it, or name another: state_schema=...",
            )
        lines.append(f"what was taken is kept in {state}.{COMMITTED}: exactly once")
    return lines


def _tail(link: Connection, slot: str) -> list[str]:
    logical(link)
    may_replicate(link)
    if place_of(link, slot) is not None:
        return [f"the slot {slot} is there"]
    free = _one(link, "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots")
    if free <= 0:
        raise BadConfig("The server has no free replication slot.", hint="Raise max_replication_slots, or drop one that nobody uses.")
    return [f"the slot {slot} will be made; {free} are free"]


def _version(link: Connection, uri: str) -> str:
    if link.info.server_version < OLDEST:
        raise BadConfig(f"PostgreSQL at {place(uri)} is version {link.info.server_version // 10000}.", hint="14 or newer is needed.")
    return f"PostgreSQL {link.info.server_version // 10000}.{link.info.server_version % 10000} at {place(uri)}"


def _one(link: Connection, question: str, *given: Any) -> Any:
    row = link.execute(question, given or None).fetchone()
    return row[0] if row else None
