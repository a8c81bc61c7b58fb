"""Compares the tables that are followed with those that were copied: name, identity, key, and their place in the publication.

The server tells none of it as a change. A renamed table would be read under a name whose rows were never copied, one with another key would
leave documents under the old one, and one that has left the publication is not read at all.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from headwater.adaptors.postgres.connection import PostgresSession
from headwater.adaptors.postgres.tables import PostgresTable, tables
from headwater.core.errors import Differs, NotFound
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan

AGAIN = "Read everything anew: `headwater pipeline run FILE --again`"
_NAMES = """
SELECT c.oid::bigint, n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY(%s)
"""
# A table's entry in the publication; 0 for one that is published with its schema or with all tables.
_ENTRIES = """
SELECT c.oid::bigint, coalesce(r.oid, 0)::bigint
FROM pg_publication p JOIN pg_publication_tables t ON t.pubname = p.pubname
JOIN pg_namespace n ON n.nspname = t.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
WHERE p.pubname = %s AND c.oid = ANY(%s)
"""


# Every ALTER PUBLICATION of its options makes a new version of its row. Tables that join or leave do not.
_VERSION = "SELECT oid || '/' || xmin FROM pg_publication WHERE pubname = %s"


class WatchedTable(msgspec.Struct, frozen=True):
    namespace: str
    ids: tuple[str, ...]
    entry: int | None  # in the publication; None where that is not known


class TableWatch:
    """The tables by their OIDs, as they were when they were copied or when following began."""

    def __init__(self, publication: str, chosen: Namespaces, watched: dict[int, WatchedTable], version: str | None = None) -> None:
        """`version`: of the publication, where it is known."""
        self._publication, self._chosen, self._known, self._version = publication, chosen, watched, version
        self._told: set[int] = set()

    @classmethod
    def of_plan(cls, plan: CopyPlan, publication: str, chosen: Namespaces) -> TableWatch:
        entries = plan.identity.get("published", {})
        watched = {
            int(oid): WatchedTable(namespace, tuple(plan.ids.get(namespace, ())), entries.get(namespace))
            for namespace, (oid, _) in plan.identity.get("tables", {}).items()
            if namespace in chosen
        }
        return cls(publication, chosen, watched, plan.identity.get("publication"))

    @classmethod
    def of_now(cls, session: PostgresSession, publication: str, chosen: Namespaces) -> TableWatch:
        """The chosen tables that are published."""
        current = _tables(session, chosen)
        entries = published(session, publication, list(current))
        watched = {oid: WatchedTable(table.namespace, table.ids, entries[oid]) for oid, table in current.items() if oid in entries}
        return cls(publication, chosen, watched, session.one(_VERSION, (publication,)))

    def check(self, session: PostgresSession) -> list[PostgresTable]:
        """Look at the tables as they are now; returns those that are followed. Errors: `Differs` for changes that are missed.

        A table that was dropped is no error: as with other commands, its rows stay where they are. A chosen table that is not published
        is logged, once.
        """
        if self._version is not None and session.one(_VERSION, (self._publication,)) != self._version:
            raise Differs(
                f"The publication {self._publication} was altered since the copy: it may have left changes out meanwhile.", hint=f"{AGAIN}."
            )
        now = _tables(session, self._chosen)
        entries = published(session, self._publication, [*now, *self._known])
        gone = [oid for oid in self._known if oid not in now]
        elsewhere = dict(session.ask(_NAMES, (gone,))) if gone else {}
        names = {table.namespace for table in now.values()}
        for oid, watched in self._known.items():
            if oid in now or oid in elsewhere:
                table = now.get(oid)
                self._compare(watched, elsewhere[oid] if table is None else table.namespace, watched.ids if table is None else table.ids)
                self._check_entry(watched, entries.get(oid))
            elif watched.namespace in names:
                raise Differs(f"The table {watched.namespace} was dropped and created anew since it was copied.", hint=f"{AGAIN}.")
        for oid, table in now.items():
            if oid not in self._known:
                self._check_joined(oid, table.namespace, entries.get(oid))
        return [table for oid, table in now.items() if oid in self._known]

    def check_change(self, session: PostgresSession, oid: int, namespace: str, ids: tuple[str, ...]) -> None:
        """Look at the table of a change as the change tells of it. Errors: `Differs`."""
        if watched := self._known.get(oid):
            self._compare(watched, namespace, ids)
        elif namespace in self._chosen:
            self._check_joined(oid, namespace, published(session, self._publication, [oid]).get(oid, 0))

    def _compare(self, watched: WatchedTable, namespace: str, ids: tuple[str, ...]) -> None:
        if namespace != watched.namespace:
            raise Differs(
                f"The table {watched.namespace} is called {namespace} since it was copied.", hint=f"Name it as before. Or: {AGAIN}."
            )
        if ids != watched.ids:
            raise Differs(
                f"The rows of {namespace} are told apart by ({', '.join(ids)}), and were by ({', '.join(watched.ids)}) when it was copied.",
                hint=f"Give it its key again. Or: {AGAIN}.",
            )

    def _check_entry(self, watched: WatchedTable, entry: int | None) -> None:
        if entry is None:
            raise Differs(
                f"The publication {self._publication} has {watched.namespace} no more: its changes are not sent.", hint=f"{AGAIN}."
            )
        if watched.entry is not None and entry != watched.entry:
            raise Differs(
                f"{watched.namespace} has left the publication {self._publication} and joined it again: changes between were not sent.",
                hint=f"{AGAIN}.",
            )

    def _check_joined(self, oid: int, namespace: str, entry: int | None) -> None:
        if entry:
            raise Differs(
                f"The table {namespace} has joined the publication {self._publication} since the copy: its rows from before were not read.",
                hint=f"{AGAIN}, or choose a narrower namespace.",
            )
        if entry is None and oid not in self._told:
            self._told.add(oid)
            logging.getLogger("headwater.pipeline").warning(
                "The table %s matches the source's namespace and is not read: it was created since the copy. %s.", namespace, AGAIN
            )


def published(session: PostgresSession, publication: str, oids: list[int]) -> dict[int, int]:
    """The entries of the tables in the publication, by OID; without those that it does not have."""
    entries: dict[int, int] = dict(session.ask(_ENTRIES, (publication, oids)))
    return entries


def _tables(session: PostgresSession, chosen: Namespaces) -> dict[int, PostgresTable]:
    try:
        return {table.oid: table for table in tables(session, chosen, readable=False)}
    except NotFound:
        return {}


def with_entries(plan: CopyPlan, session: PostgresSession, publication: str) -> CopyPlan:
    """The plan with the tables' entries in the publication, for a later run to compare."""
    oids: dict[str, Any] = {namespace: oid for namespace, (oid, _) in plan.identity["tables"].items()}
    entries = published(session, publication, list(oids.values()))
    by_namespace = {namespace: entries[oid] for namespace, oid in oids.items() if oid in entries}
    version = session.one(_VERSION, (publication,))
    return msgspec.structs.replace(plan, identity={**plan.identity, "published": by_namespace, "publication": version})
