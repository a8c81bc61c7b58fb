"""Tables whose rows change otherwise than the binary log says: by the rules of a foreign key, or with system versioning.

The engine itself deletes and changes the rows that refer to a deleted one: the log has nothing of it. Of a table with system versioning,
the log has a delete as an update, and rows of the past as new ones.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from headwater.adaptors.mysql.connection import MySQLSession, quote
from headwater.pipeline.namespaces import Namespaces

HINT = "Let the application change such rows itself (ON DELETE RESTRICT), or choose a narrower namespace, or copy without tail=True."
VERSIONED = "SYSTEM VERSIONED"
# The rules are in another table of the schema, which a user who may only read does not see.
_REFERRING = "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL"
_VERSIONED = f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = '{VERSIONED}'"
_RULE = re.compile(r"^\s*CONSTRAINT .*\bFOREIGN KEY\b.*\bON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)\b", re.MULTILINE)
_SEQUENCE = frozenset({"next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size"})


def unlogged(session: MySQLSession, chosen: Namespaces, schema: str = "", name: str = "") -> str | None:
    """Why changes of a chosen table, or of this one, cannot be followed; None where they can."""

    def matching_tables(question: str) -> list[tuple[str, str]]:
        parameters = tuple(text for text in (schema or session.database, name) if text)
        test = " AND TABLE_SCHEMA = %s" * bool(schema or session.database) + " AND TABLE_NAME = %s" * bool(name)
        return [(row[0], row[1]) for row in session.ask(question + test, parameters) if f"{row[0]}.{row[1]}" in chosen]

    for of, table in matching_tables(_VERSIONED):
        return f"The table {of}.{table} has system versioning: the binary log has its deletes as updates, so they cannot be followed."
    for of, table in matching_tables(_REFERRING):
        definition = session.ask(f"SHOW CREATE TABLE {quote(of)}.{quote(table)}")[0][1]
        if rule := _RULE.search(str(definition)):
            shown = " ".join(rule[0].split())
            return f"Rows of {of}.{table} change by a foreign key's rule, which the binary log does not have: {shown}."
    return None


def is_sequence(columns: Collection[str]) -> bool:
    """Whether the columns are those of a sequence of MariaDB, whose steps are logged as rows of a table."""
    return set(columns) >= _SEQUENCE
