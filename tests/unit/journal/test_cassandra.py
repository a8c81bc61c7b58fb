"""The tables of journals in Cassandra. What the store does with them is held by the contract suite, with a real node."""

from __future__ import annotations

import re
import subprocess
import sys

from headwater.journal.cassandra import TABLES

COLUMNS = {
    "journal": "id topic segment seq_nr timestamp partition offset origin version meta_record_id tags metadata payload_type payload_txt "
    "payload_bin headers",
    "metajournal": "topic segment id partition offset segment_size seq_nr delete_to created created_date updated expire_after expire_on "
    "record_id origin properties metadata",
    "pointer2": "topic partition offset created updated",
    "setting": "key value timestamp origin metadata",
    "locks": "id expiry_ms timestamp metadata",
}


def test_the_tables_are_those_of_kafka_journal() -> None:
    found = {}
    for statement in TABLES.steps[0].statements:
        if made := re.match(r"create table if not exists (\w+) \((.*)\)$", statement, re.DOTALL):
            lines = [line.split()[0] for line in made[2].strip().splitlines()]
            found[made[1]] = " ".join(line for line in lines if line != "primary")
    assert found == COLUMNS


def test_every_statement_may_be_run_twice() -> None:
    for step in TABLES.steps:
        for statement in step.statements:
            assert re.search(r"\bif not exists\b", statement), statement


def test_the_driver_is_imported_when_a_store_is_opened() -> None:
    program = "import sys, headwater.journal.cassandra; sys.exit('cassandra' in sys.modules or 'pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
