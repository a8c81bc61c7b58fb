"""Schemas and doing agree: what `/openapi.json` allows is taken, what it does not allow is refused, and every answer is as described.

schemathesis makes the requests from the description. The names in them are real: topics with records, a pipeline that stands at a record
which its sink refused, and messages that were put aside. With names that do not exist, every request would end at 404.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from forked_program import ForkedProgram
from program import Program, environment
from test_pipelines_http import NO_SPARK, SHOP

from headwater.documents.operations import DOCUMENTS
from headwater.journal.operations import JOURNAL
from headwater.server.spawned import SpawnedServer

# What is not looked at here: these need a token file, or are about resources that other requests take away at the same time.
LEFT_OUT = ("ignored_auth", "missing_required_header", "use_after_free", "ensure_resource_availability", "object_level_authorization")
REAL = {
    "job": ["a1"],
    "topic": ["orders", "compacted", "pipeline-shop", "journal-bank"],
    "name": ["shop"],
    "sink": ["archive", "report", "careful"],
    "offset": [13, 14, 15],
    "number": [1, 2],
    "namespace": ["wal"],
    "region": [7, 8],
    "table": [1, 2, 3],
    "queue": ["pages", "mail"],
    "key": ["k0", "k1", "k2"],
    "token": ["0-1-1"],
    "id": [65536],
    "path": ["a", "c~", "d"],
    "index": ["by-n"],
    "transaction": ["0-0-1", "1-0-1"],
}
ENDLESS = ("wal_events", "queue_listen", "journal_follow")  # events that go on until the client leaves
UNWRITTEN = (
    "journal_append_many",
    "journal_import_lines",
    "documents_batch",
)  # their body is lines alone, which schemathesis does not write
GIVEN_UP = {"log_delete_topic": ("topic", "spare"), "queue_delete": ("queue", "spare")}
CREATES = ("log_create_topic", "wal_create", "queue_create", "journal_create")
# Statuses with which a request that has the right shape may be refused: what it names is not there, or does not fit what is there now.
REFUSED = ["2xx", "404", "409", "410", "413", "422"]
# A list in the path is sent as it is printed: a question mark in it ends the path, and the request goes to another address.
HOOKS = """
import schemathesis


@schemathesis.hook
def filter_path_parameters(context, path_parameters):
    return not any("?" in str(value) for value in (path_parameters or {}).values() if not isinstance(value, str))
"""
JOURNALS = ", ".join(f'"{operation.id}"' for operation in JOURNAL.operations if "{id}" in operation.path)
DOCUMENTED = ", ".join(f'"{operation.id}"' for operation in DOCUMENTS.operations)
TOML = (
    'hooks = "hooks"\n\n'
    + "\n".join(f"[checks.{name}]\nenabled = false" for name in LEFT_OUT)
    + f"""

[checks.positive_data_acceptance]
expected-statuses = {json.dumps(REFUSED)}

# JSON Schema cannot say which sizes a segment may have, which paths a document has, which expressions Python reads, nor numbers in a text;
# nor which durations, dates and schedules there are, nor that a row has a date or a delay;
# nor that a mark has a name, and If-Match a number; nor that a topic is encrypted, or which numbers a journal has;
# nor which filters, orders, cursors and tags of documents there are, and which methods a collection has.
[[operations]]
include-operation-id = ["log_create_topic", "pipeline_edit", "pipeline_messages", "wal_create", "wal_scan_lines", "queue_create",
  "queue_put", "queue_get", "queue_claim", "queue_extend", "queue_fail", "queue_release",
  "journal_create", "journal_append", "journal_append_many", "journal_mark", "journal_erase",
  "journal_rotate", "journal_snapshots_find", "journal_snapshots_save", "journal_snapshots_delete", {DOCUMENTED}]
[operations.checks.positive_data_acceptance]
enabled = false

# A namespace without regions has an empty list of them, a key that was never put no history, any text is the id of a journal, and any
# preference may be left unheeded; any JSON is a document.
[[operations]]
include-operation-id = ["wal_regions_of", "queue_history", "queue_claim", {JOURNALS}, {DOCUMENTED}]
[operations.checks.negative_data_rejection]
enabled = false
"""
)


@pytest.fixture
def server(tmp_path: Path, forked_program: ForkedProgram) -> Iterator[SpawnedServer]:
    program = Program(tmp_path, forked_program)
    (tmp_path / "shop.py").write_text(SHOP)
    lines = [f'{{"_id": {n}, "price": 2.10, "qty": {"null" if n == 14 else n}}}\n' for n in range(30)]
    (tmp_path / "orders.jsonl").write_text("".join(lines))
    assert program("pipeline", "run", "shop.py", **NO_SPARK).code == 9
    with SpawnedServer(program.data, environ=environment(**NO_SPARK)) as running:
        yield running


def described(http: httpx2.Client) -> dict[str, Any]:
    """The server's description, with real names in place. What would take them away is left to one topic of its own."""
    document: dict[str, Any] = http.get("/openapi.json").json()
    for methods in document["paths"].values():
        for operation in methods.values():
            real: dict[str, Any] = {**REAL, "partition": [0, 1]}
            if operation["operationId"] in GIVEN_UP:
                name, spare = GIVEN_UP[operation["operationId"]]
                real[name] = [spare]
            # Where Accept chooses among operations, these requests are for the first: schemathesis writes no Accept of its own.
            first = next(iter(operation.pop("x-operations", {"": operation}).values()))
            # A write may have to be durable sooner than it can be.
            operation["parameters"] = [parameter for parameter in first["parameters"] if parameter["name"] != "timeout"]
            for parameter in operation["parameters"]:
                if parameter["in"] == "path" and operation["operationId"] not in CREATES:
                    parameter["schema"] = {"enum": real[parameter["name"]]}
    return document


def prepared(http: httpx2.Client) -> None:
    for name in ("orders", "compacted", "spare"):
        assert http.put(f"/log/{name}", json={"partitions": 2, "settings": {"segment": "1KiB"}}).status_code == 201
        for number in range(20):
            assert http.post(f"/log/{name}/0/records", json={"key": f"k{number % 3}", "value": {"n": number}}).status_code == 201
    assert http.delete("/log/compacted/0/records?before=5").status_code == 200
    for region in (7, 8):
        assert http.put(f"/wal/wal/{region}").status_code == 201
        for table in (1, 2, 3):
            assert http.post(f"/wal/wal/{region}/tables/{table}/entries", json={"payloads": ["a", "b"]}).status_code == 201

    assert http.put("/hyper-storage/content/a", json={"n": 1}).status_code == 201
    for number in range(3):
        assert http.put(f"/hyper-storage/content/c~/{number}", json={"n": number}).status_code == 201
    assert http.put("/hyper-storage/indexes/c~/by-n", json={"sortBy": [{"fieldName": "n"}]}).status_code == 201
    assert http.put("/journals/bank").status_code == 201
    assert http.post("/journals/bank/65536/events", json={"events": [{"payload": 1}]}).status_code == 201
    for queue in ("pages", "mail", "spare"):
        assert http.put(f"/queues/{queue}", json={"lease": "1s"}).status_code == 201
        assert http.post(f"/queues/{queue}/rows", json=[{"key": f"k{number}"} for number in range(3)]).status_code == 201


def tried(server: SpawnedServer, folder: Path, phases: str, *which: str) -> None:
    endless = (
        [word for one in (*ENDLESS, *UNWRITTEN) for word in ("--exclude-operation-id", one)]
        if "--include-operation-id" not in which
        else []
    )
    command = [sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--url", server.url, *which, *endless]
    more = ["--phases", phases, "--request-timeout", "60", "--no-color", "--warnings", "off"]
    ended = subprocess.run([*command, *more], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def run(server: SpawnedServer, folder: Path, *, seconds: int) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=60) as http:
        prepared(http)
        (folder / "openapi.json").write_text(json.dumps(described(http)))
        (folder / "schemathesis.toml").write_text(TOML)
        (folder / "hooks.py").write_text(HOOKS)
        # The cases that the description itself names are all tried, however long that takes; random ones for so many seconds.
        others = [word for one in CREATES for word in ("--exclude-operation-id", one)]
        tried(server, folder, "coverage", *others)
        tried(server, folder, "fuzzing", *others, "--max-time", str(seconds))
        # Last: what they make has a name that is none of the real ones, and would be found by requests that should meet none.
        for one in CREATES:
            tried(server, folder, "coverage,fuzzing", "--include-operation-id", one, "--max-time", str(3 + seconds // 6))
        metrics = http.get("/metrics").text
    assert 'status="500"' not in metrics
    assert "Traceback" not in server.errors()


def test_the_server_does_what_its_description_says(server: SpawnedServer, tmp_path: Path) -> None:
    run(server, tmp_path, seconds=10)


@pytest.mark.soak
def test_the_server_does_what_its_description_says_for_an_hour(server: SpawnedServer, tmp_path: Path) -> None:
    run(server, tmp_path, seconds=3600)
