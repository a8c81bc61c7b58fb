"""Encrypted journals in Spark: tasks open the events with the configured keys, and say so where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import headwater
from headwater.journal.master_keys import new_master_key

pytestmark = pytest.mark.spark
PROGRAM = """
import sys
import headwater.spark

spark = headwater.spark.session(archive="use")

def table(**options):
    return spark.read.format("headwater").option("data", "data").options(**options).load("journal:people")

if sys.argv[1] == "key":
    rows = table().orderBy("id", "seq_nr").collect()
    print([(row.id, row.seq_nr, bytes(row.payload).decode(), row.payload_type, row.encrypted) for row in rows])
else:
    rows = table(undecryptable="null").orderBy("id", "seq_nr").collect()
    print([(row.id, row.seq_nr, row.payload, row.encrypted) for row in rows])
    print(table(view="heads").count(), table(view="actions").count())
    try:
        table().collect()
    except Exception as error:
        print("journal.key_file" in str(error))
"""


def test_spark_opens_encrypted_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "master.keys").write_text(new_master_key("first"))
    monkeypatch.setenv("HEADWATER_JOURNAL__KEY_FILE", str(tmp_path / "master.keys"))
    with headwater.open_blocking(tmp_path / "data", create=True) as hw:
        hw.journals.create("people", partitions=2, cipher="aes-256-gcm")
        people = hw.journals("people")
        for id in ("alice", "bob", "carol"):
            people[id].append({"of": id}, "text")
        people["bob"].erase(why="asked")

    def told(how: str, **more: str) -> list[str]:
        environ = {name: value for name, value in os.environ.items() if name != "HEADWATER_JOURNAL__KEY_FILE"} | more
        ran = subprocess.run([sys.executable, "-c", PROGRAM, how], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    seen = [(id, number, payload) for id in ("alice", "carol") for number, payload in ((1, f'{{"of":"{id}"}}'), (2, "text"))]
    opened = [(id, number, payload, "json" if number == 1 else "text", False) for id, number, payload in seen]
    assert told("key", HEADWATER_JOURNAL__KEY_FILE=str(tmp_path / "master.keys")) == [str(opened)]
    assert told("none") == [str([(id, number, None, True) for id, number, _ in seen]), "2 4", "True"]
