"""Compares the tables that are followed with those that were copied: their keys, and what statements in the binary log have done to them.

The log has no rows for a table that is renamed, created anew or loses a partition: its rows at the sink would be those from before. Rows
under another key would leave documents under the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from headwater.adaptors.mysql.connection import MySQLSession
from headwater.adaptors.mysql.statements import Effect, LoggedStatement, TableName
from headwater.adaptors.mysql.tables import SYSTEM
from headwater.adaptors.mysql.unlogged import HINT, unlogged
from headwater.adaptors.sql.table import COMMITTED, EPOCH, OWNER
from headwater.core.errors import BadConfig, Differs, OffsetGone
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan

AGAIN = "Read everything anew: `headwater pipeline run --again`"
REMEMBERED = 100  # dropped tables: a cursor that grows with each of them would become too large to write with every piece
_TABLES = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"
_KEYS = "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE INDEX_NAME = 'PRIMARY'"
_SHOWN = 120  # letters of a statement
Keys = dict[str, tuple[str, ...]]


class MysqlTableWatch:
    """The tables that are followed, by their keys."""

    def __init__(
        self,
        chosen: Namespaces,
        database: str,
        *,
        keys: Mapping[str, tuple[str, ...]],
        look: Callable[[str, str], Keys],
        untold: Callable[[str, str], str | None] = lambda schema, name: None,
        folding: int = 0,
    ) -> None:
        """`look` returns the key of one table as it is now, `untold` why its changes cannot be followed. `folding`: the server's
        lower_case_table_names."""
        self._chosen, self._database, self._folding = chosen, database, folding
        self._keys, self._look, self._untold = dict(keys), look, untold
        self.dropped: list[str] = []  # to be kept with the cursor; of a database, its name and a point

    def example(self) -> str | None:
        """One of the followed tables, by its namespace; None where there is none."""
        return next((name for name in self._keys if name in self._chosen), None)

    def stated(self, statement: LoggedStatement, schema: str, text: str) -> list[str]:
        """Look at a statement of a session whose database is `schema`; returns the tables that it has emptied.

        Errors: `Differs` where rows come or go that the log does not have; `OffsetGone` where it has a statement in place of rows.
        """
        if statement.effect == Effect.NONE:
            return []
        namespaces = [name for table in statement.tables if table[1] and (name := self._name(table, schema)) is not None]
        match statement.effect:
            case Effect.ROWS if namespaces or (statement.anything and self._ours(schema)):
                raise OffsetGone(
                    "A session has logged a statement instead of the rows that it changed in "
                    f"{namespaces[0] if namespaces else 'the tables of ' + schema}, so the rows are missing.",
                    hint="Let every session log rows (binlog_format), then begin the copy anew.",
                )
            case Effect.UNKNOWN if namespaces or statement.anything:
                self._refuse("The binary log has a statement that may have changed followed tables", text)
            case Effect.REPLACE if namespaces:
                self._refuse(f"The rows of {namespaces[0]} have changed by a statement, not row by row", text)
            case Effect.DROP:
                namespaces += [f"{table[0]}." for table in statement.tables if not table[1] and self._ours(table[0])]
                self.dropped = [*(namespace for namespace in self.dropped if namespace not in namespaces), *namespaces][-REMEMBERED:]
                self._keys = {name: key for name, key in self._keys.items() if not {name, _database(name)} & set(namespaces)}
            case Effect.CREATE if namespaces:
                if {namespaces[0], _database(namespaces[0])} & set(self.dropped):
                    raise Differs(f"The table {namespaces[0]} was dropped and created anew since it was copied.", hint=f"{AGAIN}.")
                self._check_logged(namespaces[0])
            case Effect.ALTER if namespaces:
                self._check_key(namespaces[0])
                self._check_logged(namespaces[0])
        return namespaces if statement.effect == Effect.TRUNCATE else []

    def _check_key(self, name: str) -> None:
        for namespace, key in self._look(*name.split(".", 1)).items():
            _compare(namespace, key, self._keys.setdefault(namespace, key))

    def _check_logged(self, name: str) -> None:
        if (why := self._untold(*name.split(".", 1))) is not None:
            raise Differs(why, hint=f"{HINT} Then: {AGAIN}.")

    def _refuse(self, reason: str, text: str) -> NoReturn:
        shown = " ".join(text.split())
        raise Differs(f"{reason}: {shown[:_SHOWN]}{'…' if len(shown) > _SHOWN else ''}", hint=f"{AGAIN}.")

    def _name(self, table: TableName, usual: str) -> str | None:
        """The namespace of a followed table, as the server calls it; None for another one."""
        schema, name = table[0] or usual, table[1]
        if not self._ours(schema) or name in (COMMITTED, EPOCH, OWNER):
            return None
        exact, folded = f"{schema}.{name}", f"{schema}.{name}".lower()
        names = {0: [exact], 1: [folded]}.get(self._folding, [exact, folded])
        return next((spelling for spelling in names if spelling in self._chosen), None)

    def _ours(self, schema: str) -> bool:
        if self._folding:
            return schema.lower() not in SYSTEM and self._database.lower() in ("", schema.lower())
        return schema not in SYSTEM and self._database in ("", schema)


def check_keys(session: MySQLSession, plan: CopyPlan, chosen: Namespaces) -> None:
    """Errors: `Differs` for a table that has another key than the plan says; `BadConfig` for one whose changes cannot be followed by now.

    A table that was dropped is no error: its rows stay.
    """
    now = primary_keys(session)
    for namespace, ids in plan.ids.items():
        if namespace in chosen and namespace in now:
            _compare(namespace, now[namespace], tuple(ids))
    refuse_unlogged(session, chosen)


def refuse_unlogged(session: MySQLSession, chosen: Namespaces) -> None:
    """Errors: `BadConfig` for a table whose rows change otherwise than the binary log says."""
    if (why := unlogged(session, chosen)) is not None:
        raise BadConfig(why, hint=HINT)


def primary_keys(session: MySQLSession, schema: str = "", name: str = "") -> Keys:
    """The key of each table, or of one, of the session's database where it has one; empty for a table without a key."""
    schema = schema or session.database
    parameters = tuple(text for text in (schema, name) if text)
    test = " AND TABLE_SCHEMA = %s" * bool(schema) + " AND TABLE_NAME = %s" * bool(name)
    keys: dict[str, list[str]] = {f"{row[0]}.{row[1]}": [] for row in session.ask(_TABLES + test, parameters)}
    for of, table, column in session.ask(f"{_KEYS}{test} ORDER BY SEQ_IN_INDEX", parameters):
        keys.setdefault(f"{of}.{table}", []).append(column)
    return {namespace: tuple(columns) for namespace, columns in keys.items()}


def _database(namespace: str) -> str:
    return namespace[: namespace.index(".") + 1]


def _compare(namespace: str, now: Iterable[str], before: Iterable[str]) -> None:
    if tuple(now) != tuple(before):
        raise Differs(
            f"The rows of {namespace} are told apart by ({', '.join(now)}), and were by ({', '.join(before)}) when it was copied.",
            hint=f"Give it its key again. Or: {AGAIN}.",
        )
