"""The tables of documents in Cassandra. What the store does with them is held by the contract suite, with a real node."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from headwater.documents import cassandra
from headwater.store.migrations import read_migrations
from headwater.store.statements import read_statements

FOLDER = Path(cassandra.__file__).parent


def test_every_table_may_be_made_twice() -> None:
    for step in read_migrations("documents", FOLDER / "cassandra_tables", suffix="cql").steps:
        for statement in step.statements:
            assert re.search(r"\bif not exists\b", statement), statement


def test_every_write_names_its_time() -> None:
    for name, statement in read_statements(FOLDER / "cassandra.cql").items():
        if not statement.startswith("select"):
            assert "using timestamp ?" in statement, name


def test_the_driver_is_imported_when_a_store_is_opened() -> None:
    program = "import sys, headwater.documents.cassandra; sys.exit('cassandra' in sys.modules or 'pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
