"""The tables of the key store in Cassandra. What the store does with them is held by the contract suite, with a real node."""

from __future__ import annotations

import re

from headwater.journal.cassandra_keys import _STATEMENTS, _TABLES


def test_every_statement_may_be_run_twice() -> None:
    for step in _TABLES.steps:
        for statement in step.statements:
            assert re.search(r"\bif not exists\b", statement), statement


def test_every_write_is_conditional() -> None:
    """Cassandra orders conditional writes among themselves alone: a plain one beside them could bring a destroyed key back."""
    for name, statement in _STATEMENTS.items():
        if not statement.startswith("select"):
            assert re.search(r"\bif\b", statement), name
