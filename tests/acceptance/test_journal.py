"""Journals through the real program: commands and HTTP on one directory."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from forked_program import ForkedProgram
from program import Program
from tests.until import until

import headwater
from headwater.log.address import LogAddress
from headwater.log.opening import open_log
from headwater.log.record import Record
from headwater.server.spawned import SpawnedServer

THROUGH = pytest.mark.parametrize("through", ["directory", "server"])


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path, forked_program)


def done(home: Program, *words: str, stdin: str = "") -> Any:
    ran = home("journal", *words, "--json", stdin=stdin)
    assert ran.code == 0, ran.err
    return ran


def served(home: Program, through: str) -> Any:
    return SpawnedServer(home.data) if through == "server" else nullcontext()


# -- commands -----------------------------------------------------------------------------------------------------


@THROUGH
def test_a_journal_by_commands_alone(home: Program, through: str) -> None:
    assert done(home, "create", "mail").json["created"]
    with served(home, through):
        assert done(home, "create", "bank", "--dry-run").json == {
            "topic": "journal-bank", "partitions": 2, "writers": "owner", "generation": "", "cipher": None, "created": True,
            "dry_run": True,
        }  # fmt: skip
        assert [one["topic"] for one in done(home, "topics").json] == ["journal-mail"]
        assert done(home, "create", "bank", "--partitions", "1").json["created"]
        assert not done(home, "create", "bank").json["created"]
        first = done(home, "append", "bank", "alice", '{"type": "opened"}', '{"eur": 1.10}', "--expected", "0", "--tag", "a").json
        assert (first["first"], first["last"], first["partition"], first["offset"]) == (1, 2, 0, 0)
        more = ("--header", "trace=7", "--metadata", '{"by": "me"}', "--header-metadata", "5", "--expire-after", "30d")
        done(home, "append", "bank", "alice", '"text"', '{"$binary": "AP8="}', "--expected", "2", *more)
        lines = '{"payload": 5, "tags": ["b"]}\n\n{"payload": [6]}\n'
        assert done(home, "append", "bank", "alice", "--format", "event", stdin=lines).json["last"] == 6
        assert done(home, "append", "bank", "bob", "a plain text", "--format", "text").json["last"] == 1
        events = done(home, "read", "bank", "alice").lines
        assert [event["seq_nr"] for event in events] == [1, 2, 3, 4, 5, 6]
        assert [event["payload"] for event in events] == [{"type": "opened"}, {"eur": 1.1}, "text", {"$binary": "AP8="}, 5, [6]]
        assert [event["tags"] for event in events] == [["a"], ["a"], [], [], ["b"], []]
        assert (events[2]["headers"], events[2]["metadata"], events[2]["header_metadata"]) == ({"trace": "7"}, {"by": "me"}, 5)
        assert [event["seq_nr"] for event in done(home, "read", "bank", "alice", "--from", "2", "--to", "5", "--limit", "2").lines] == [
            2,
            3,
        ]
        for consistency, count in (("end", 6), ("mark", 6), ("store", 0)):
            if consistency != "store" or through == "directory":  # a server may have copied them already
                assert len(done(home, "read", "bank", "alice", "--consistency", consistency).lines) == count
        head = done(home, "pointer", "bank", "alice").json
        assert (head["seq_nr"], head["delete_to"]) == (6, 0)
        assert done(home, "pointer", "bank", "nobody").json is None
        assert done(home, "read", "bank", "nobody").lines == []
        assert home("journal", "read", "bank", "nobody", "--fail-empty").code == 10
        assert done(home, "ids", "bank").lines == ["alice", "bob"]
        assert done(home, "ids", "bank", "--limit", "1").lines == ["alice"]
        found = done(home, "follow", "bank", "--id", "alice", "--tag", "b", "--tag", "a", "--count", "3").lines
        assert [(one["id"], one["seq_nr"]) for one in found] == [("alice", 1), ("alice", 2), ("alice", 5)]
        (after,) = done(home, "follow", "bank", "--after", found[1]["position"], "--count", "1").lines
        assert (after["seq_nr"], after["payload"]) == (3, "text")
        assert done(home, "mark", "bank", "alice", "--id", "m").json["done"]
        assert home("journal", "delete", "bank", "alice", "--to", "2").code == 5, "nobody can be asked"
        assert done(home, "delete", "bank", "alice", "--to", "2", "--dry-run").json["events"] == 2
        assert len(done(home, "read", "bank", "alice").lines) == 6
        assert done(home, "delete", "bank", "alice", "--to", "2", "--yes").json["done"]
        assert [event["seq_nr"] for event in done(home, "read", "bank", "alice").lines] == [3, 4, 5, 6]
        assert done(home, "purge", "bank", "bob", "--dry-run").json["events"] == 1
        assert done(home, "purge", "bank", "bob", "--yes").json["done"]
        assert done(home, "ids", "bank").lines == ["alice"]
        assert done(home, "append", "bank", "bob", "1").json["last"] == 1, "it begins anew"
        assert not done(home, "delete", "bank", "nobody", "--to", "1", "--yes").json["done"]
        assert not done(home, "purge", "bank", "nobody", "--yes").json["done"]
        key = ("append", "bank", "carol", "1", "--idempotency-key", "k")
        assert [done(home, *key).json["replayed"] for _ in range(2)] == [False, True]
        assert done(home, "pointer", "bank", "carol").json["seq_nr"] == 1
        trail = done(home, "trail", "bank", "alice").json
        assert [record["action"] for record in trail["records"]].count("append") == 3
        assert trail["head"]["delete_to"] == 2
        assert done(home, "status", "bank").json[0]["partitions"][0]["end"] == trail["end"]
        assert done(home, "pointers", "bank").json[0]["end"] == trail["end"]
        assert home("log", "append", "journal-bank", "x", "--key", "alice").code == 4, "the topics of journals are theirs"
        for table in ("topics", "read bank alice", "status bank", "pointers bank", "trail bank alice", "ids bank"):
            shown = home("journal", *table.split())
            assert shown.code == 0
            assert all(len(line) <= 80 for line in shown.out.splitlines()), shown.out


def test_what_people_read(home: Program) -> None:
    made = home("journal", "create", "bank")
    assert made.out == "Topic journal-bank is created, with 2 partitions.\n"
    assert "headwater journal append bank ID" in made.err
    assert home("journal", "append", "bank", "alice", "1", "2").out.startswith("Events 1 to 2: partition ")
    assert home("journal", "append", "bank", "alice", "3", "--idempotency-key", "k").out.startswith("Event 3: partition ")
    assert "appended before" in home("journal", "append", "bank", "alice", "3", "--idempotency-key", "k").out
    assert home("journal", "pointer", "bank", "alice").out == "3\n"
    assert "no journal bob" in home("journal", "pointer", "bank", "bob").err
    assert home("journal", "delete", "bank", "alice", "--to", "9", "--dry-run").out == (
        "3 events would be deleted, up to number 3. The next event is 4.\n"
    )
    assert home("journal", "purge", "bank", "bob", "--yes").out == "There is no journal bob: nothing to remove.\n"
    assert home("journal", "purge", "bank", "alice", "--yes").out == "Journal alice is gone, with 3 events.\n"
    assert home("journal", "read", "bank", "alice").err == "0 events.\n"


def test_a_table_shows_a_hundred_events_and_a_program_gets_all(home: Program) -> None:
    done(home, "create", "bank")
    done(home, "append", "bank", "alice", stdin="\n".join(map(str, range(1, 1501))))
    shown = home("journal", "read", "bank", "alice")
    assert (len(shown.out.splitlines()), "There are more" in shown.err) == (101, True)
    assert len(done(home, "read", "bank", "alice").lines) == 1500
    assert len(home("journal", "read", "bank", "alice", "--limit", "1500").out.splitlines()) == 1501
    first = subprocess.run(
        ["bash", "-c", "set -o pipefail; headwater journal read bank alice --json | head -2"],
        cwd=home.home, env=_shell(home), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ([json.loads(line)["seq_nr"] for line in first.stdout.splitlines()], first.stderr) == ([1, 2], "")


def _shell(home: Program) -> dict[str, str]:
    import os
    import sys

    from program import environment

    return environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


WRONG: list[tuple[list[str], int, str]] = [
    (["create", "a/b"], 5, "bad-input"),
    (["create", "bank", "--partitions", "3"], 4, "already-exists"),
    (["create", "bank", "--partitions", "-1"], 2, "usage"),
    (["append", "bnak", "alice", "1"], 3, "unknown-journal"),
    (["append", "bank", "", "1"], 5, "bad-input"),
    (["append", "bank", "alice"], 5, "bad-input"),
    (["append", "bank", "alice", "{bad"], 5, "bad-input"),
    (["append", "bank", "alice", '{"n": NaN}'], 5, "bad-input"),
    (["append", "bank", "alice", "1", "--metadata", "{bad"], 5, "bad-input"),
    (["append", "bank", "alice", "1", "--expected", "1"], 4, "wrong-expected"),
    (["append", "bank", "alice", "1", "--expected", "3"], 4, "wrong-expected"),
    (["append", "bank", "alice", "1", "--expected", "-1"], 5, "bad-input"),
    (["append", "bank", "alice", "1", "--expected", "x"], 2, "usage"),
    (["append", "bank", "new", "1", "--expected", "1"], 4, "wrong-expected"),
    (["append", "bank", "alice", '{"payload": 1, "seq_nr": 0}', "--format", "event"], 5, "bad-input"),
    (["append", "bank", "alice", '{"payload": 1, "seq_nr": 4}', '{"payload": 1, "seq_nr": 3}', "--format", "event"], 5, "bad-input"),
    (["append", "bank", "alice", '{"payload": 1, "seq_nr": 4}', '{"payload": 1}', "--format", "event"], 5, "bad-input"),
    (["append", "bank", "alice", '{"seq_nr": 4}', "--format", "event"], 5, "bad-input"),
    (["append", "bank", "alice", '{"payload": 1, "number": 4}', "--format", "event"], 5, "bad-input"),
    (["append", "bank", "alice", "1", "--expire-after", "30"], 5, "bad-input"),
    (["append", "bank", "alice", "1", "--expire-after", "-1d"], 5, "bad-input"),
    (["append", "bank", "alice", "1", "--header", "journal.action=x"], 5, "bad-input"),
    (["append", "bank", "alice", "1", "--header", "headwater.x=y"], 5, "bad-input"),
    (["append", "bank", "alice", "1", "--header", "trace"], 2, "usage"),
    (["append", "bank", "alice", "1", "--idempotency-key", ""], 5, "bad-input"),
    (["append", "bank", "alice", "2", "--idempotency-key", "used"], 5, "key-reused"),
    (["read", "bnak", "alice"], 3, "unknown-journal"),
    (["read", "bank", "alice", "--from", "0"], 5, "bad-input"),
    (["read", "bank", "alice", "--from", "5", "--to", "2"], 5, "bad-bounds"),
    (["read", "bank", "alice", "--limit", "0"], 2, "usage"),
    (["read", "bank", "alice", "--consistency", "soon"], 2, "usage"),
    (["follow", "bnak"], 3, "unknown-journal"),
    (["follow", "bank", "--after", "x"], 5, "bad-input"),
    (["pointer", "bnak", "alice"], 3, "unknown-journal"),
    (["delete", "bank", "alice", "--to", "0"], 5, "bad-input"),
    (["delete", "bank", "alice"], 2, "usage"),
    (["delete", "bnak", "alice", "--to", "1", "--yes"], 3, "unknown-journal"),
    (["purge", "bnak", "alice", "--yes"], 3, "unknown-journal"),
    (["mark", "bnak", "alice"], 3, "unknown-journal"),
    (["mark", "bank", "alice", "--id", ""], 5, "bad-input"),
    (["ids", "bnak"], 3, "unknown-journal"),
    (["pointers", "bnak"], 3, "unknown-journal"),
    (["status", "bnak"], 3, "unknown-journal"),
    (["trail", "bnak", "alice"], 3, "unknown-journal"),
    (["stats", "bnak"], 3, "unknown-journal"),
    (["forks", "bnak"], 3, "unknown-journal"),
    (["export", "bnak"], 3, "unknown-journal"),
    (["import", "bank", "no-such-file"], 5, "bad-input"),
    (["verify", "bnak"], 3, "unknown-journal"),
    (["base", "bnak"], 3, "unknown-journal"),
    (["rebuild", "bnak", "--yes"], 3, "unknown-journal"),
    (["expire", "bnak"], 3, "unknown-journal"),
    (["dead", "bnak", "list"], 3, "unknown-journal"),
    (["dead", "bank", "show"], 2, "usage"),
    (["dead", "bank", "list", "1"], 2, "usage"),
    (["dead", "bank", "show", "0", "99"], 3, "not-found"),
    (["dead", "bank", "show", "9", "0"], 3, "unknown-partition"),
    (["dead", "bank", "quarantine", "0", "0"], 5, "bad-input"),
    (["dead", "bank", "quarantine", "0", "0", "--why", "it can be read"], 5, "bad-input"),
    (["dead", "bank", "retry", "0", "99"], 3, "not-found"),
]


@THROUGH
def test_wrong_words_are_told_and_make_nothing(home: Program, through: str) -> None:
    done(home, "create", "bank", "--partitions", "1")
    done(home, "append", "bank", "alice", "1", "2")
    done(home, "append", "bank", "bob", "1", "--idempotency-key", "used")
    with served(home, through):
        for words, code, problem in WRONG:
            if words[:3] == ["append", "bank", "alice"] and "used" in words:
                words = ["append", "bank", "bob", *words[3:]]
            ran = home("journal", *words, "--json")
            assert (ran.code, ran.out) == (code, ""), (words, ran)
            assert ran.problem["code"] == problem, (words, ran.problem)
            assert problem == "usage" or ran.problem["hint"], words
            if problem == "unknown-journal":
                assert "headwater journal create bnak" in ran.problem["hint"], words
        assert [one["topic"] for one in done(home, "topics").json] == ["journal-bank"]
        assert done(home, "ids", "bank").lines == ["alice", "bob"]
        assert [done(home, "pointer", "bank", id).json["seq_nr"] for id in ("alice", "bob")] == [2, 1]


def test_an_event_that_is_too_large_is_told(home: Program) -> None:
    done(home, "create", "bank")
    ran = home("journal", "append", "bank", "alice", "--format", "text", "--json", stdin="x" * (17 << 20))
    assert (ran.code, ran.problem["code"]) == (5, "too-large")
    assert done(home, "pointer", "bank", "alice").json is None


# -- the copy -----------------------------------------------------------------------------------------------------


def test_what_is_copied_is_compared_made_anew_and_expires(home: Program) -> None:
    done(home, "create", "bank", "--partitions", "1")
    done(home, "append", "bank", "alice", "1", "2")
    done(home, "append", "bank", "old", "1", "--expire-after", "0d")
    assert home("journal", "verify", "bank").out.startswith("verify: nothing of journal-bank is copied yet: 2 records wait.")
    assert home("journal", "replicate", "--once").out == "Copied: 2 records in this process.\n"
    assert home("journal", "replicate", "--once").out == "There was nothing to copy.\n"
    assert done(home, "pointers", "bank").json[0]["lag"] == 0
    assert len(done(home, "read", "bank", "alice", "--consistency", "store").lines) == 2
    verified = done(home, "verify", "bank").json
    assert (verified["records"], verified["journals"], verified["events"]) == (2, 2, 3)
    assert home("journal", "verify", "bank").out.startswith("verify: equal. ")
    assert done(home, "forks", "bank").json["forks"] == []
    counted = done(home, "stats", "bank").json
    assert (counted["engine"], sum(one["events"] for one in counted["partitions"])) == ("here", 3)
    assert "the last round ran in the replicator" in home("journal", "stats", "bank").out
    assert sum(one["events"] for one in done(home, "base", "bank").json["partitions"]) == 3
    assert home("journal", "base", "bank", "--dry-run").out.startswith("verify: equal. The base of journal-bank would hold 3 events")
    assert [one["id"] for one in done(home, "expire", "bank", "--dry-run").json["journals"]] == ["old"]
    assert home("journal", "expire", "bank").code == 5, "nobody can be asked"
    assert [one["purged"] for one in done(home, "expire", "bank", "--yes").json["journals"]] == [True]
    assert done(home, "ids", "bank").lines == ["alice"]
    assert done(home, "rebuild", "bank", "--dry-run").json["dry_run"]
    assert home("journal", "rebuild", "bank").code == 5, "nobody can be asked"
    asked = done(home, "rebuild", "bank", "--yes", "--why", "a test").json
    assert (asked["records"], asked["finished"]) == (3, False), "no replicator runs"
    assert len(done(home, "read", "bank", "alice").lines) == 2, "reads stay right"
    rounds = done(home, "replicate", "--once").lines
    assert (rounds[0]["engine"], sum(one["records"] for one in rounds)) == ("here", 3)
    assert done(home, "verify", "bank").json["journals"] == 1


def test_a_server_copies_by_itself(home: Program) -> None:
    with SpawnedServer(home.data):
        done(home, "create", "bank", "--partitions", "1")
        done(home, "append", "bank", "alice", "1", "2")
        asyncio.run(until(lambda: done(home, "pointers", "bank").json[0]["lag"] == 0))
        assert len(done(home, "read", "bank", "alice", "--consistency", "store").lines) == 2
        second = home("journal", "replicate", "--once", "--json")
        assert (second.code, second.problem["code"]) == (4, "conflict")
        assert done(home, "rebuild", "bank", "--yes").json["finished"]
        assert done(home, "verify", "bank").json["events"] == 2


def test_a_poison_record_stops_its_partition_until_it_is_left_out(home: Program) -> None:
    done(home, "create", "bank", "--partitions", "1")
    done(home, "append", "bank", "alice", "1")
    with open_log(LogAddress(path=str(home.data))) as log:  # as a foreign producer would
        log.append("journal-bank", 0, [Record(b"eve", b"?", (("journal.action", b"{"),))], part="journal")
    done(home, "append", "bank", "alice", "2")
    stopped = home("journal", "replicate", "--once", "--json")
    assert (stopped.code, json.loads(stopped.err.splitlines()[-1])["code"]) == (9, "stopped")
    [dead] = done(home, "dead", "bank", "list").json
    assert (dead["partition"], dead["offset"], dead["quarantined"]) == (0, 1, False)
    told = home("journal", "dead", "bank", "list")
    assert "headwater journal dead bank quarantine 0 1 --why TEXT" in told.err
    assert done(home, "dead", "bank", "show", "0", "1").json["record"]["key"] == "eve"
    assert len(done(home, "read", "bank", "alice").lines) == 2, "other journals are read"
    assert done(home, "dead", "bank", "quarantine", "0", "1", "--why", "a test", "--dry-run").json["quarantined"]
    assert not done(home, "dead", "bank", "list").json[0]["quarantined"]
    assert done(home, "dead", "bank", "drop", "0", "1", "--why", "a test", "--dry-run").json["quarantined"]
    done(home, "dead", "bank", "drop", "0", "1", "--why", "a test")
    [dead] = done(home, "dead", "bank", "list").json
    assert (dead["quarantined"], dead["why"]) == (True, "a test")
    assert home("journal", "replicate", "--once").code == 0
    assert done(home, "pointers", "bank").json[0]["lag"] == 0
    assert done(home, "verify", "bank").json["journals"] == 1
    assert home("journal", "dead", "bank", "retry", "0", "1").code == 7, "it still cannot be decoded"


def test_a_copy_that_differs_is_told(home: Program) -> None:
    done(home, "create", "bank", "--partitions", "1")
    done(home, "append", "bank", "alice", "1", "2")
    home("journal", "replicate", "--once")
    import apsw

    [file] = (home.data / "store" / "journal" / "journal-bank").glob("0.db")
    database = apsw.Connection(str(file))
    database.execute("DELETE FROM journal WHERE seq_nr = 2")
    database.close()
    ran = home("journal", "verify", "bank", "--json")
    assert (ran.code, ran.problem["code"]) == (8, "differs")
    assert "headwater journal rebuild journal-bank" in ran.problem["hint"]
    assert "event 2" in ran.problem["detail"]


# -- HTTP ---------------------------------------------------------------------------------------------------------

BANK, ALICE = "/journals/bank", "/journals/bank/alice"
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with SpawnedServer(tmp_path_factory.mktemp("j")) as server, httpx2.Client(base_url=server.url, trust_env=False, timeout=120) as client:
        assert client.put(BANK).status_code == 201
        assert client.put(BANK).status_code == 200
        assert client.post(f"{ALICE}/events", json={"events": [{"payload": 1}, {"payload": 2}]}).status_code == 201
        yield client


def _one(**more: Any) -> dict[str, Any]:
    return {"json": {"events": [{"payload": 1}], **more}}


REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("PUT", "/journals/a%2Fb", {}, 400, "bad-input"),
    ("PUT", BANK, {"json": {"partitions": 3}}, 409, "already-exists"),
    *(("GET", f"/journals/none{path}", {}, 404, "unknown-journal") for path in ("", "/a", "/a/events", "/a/trail", "?view=status")),
    ("POST", "/journals/none/a/events", _one(), 404, "unknown-journal"),
    ("POST", "/journals/none/a/marks", {}, 404, "unknown-journal"),
    ("DELETE", "/journals/none/a", {}, 404, "unknown-journal"),
    ("DELETE", "/journals/none/a/events?to=1", {}, 404, "unknown-journal"),
    ("GET", "/replication/none/dead", {}, 404, "unknown-journal"),
    ("GET", f"{BANK}/nobody", {}, 404, "not-found"),
    ("POST", f"{ALICE}/events", {}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"json": {"events": []}}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"json": {"evnts": [1]}}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"json": {"events": [{"payload": 1, "seq_nr": 0}]}}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"json": {"events": [{"payload": 1, "seq_nr": 4}, {"payload": 1, "seq_nr": 3}]}}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"json": {"events": [{"seq_nr": 4}]}}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"content": b'{"events": [{"payload": }]}'}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"content": b"[" * 100_000}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"data": {"a": "b"}}, 415, "bad-type"),
    ("POST", f"{ALICE}/events", _one(expected=1), 412, "wrong-expected"),
    ("POST", f"{ALICE}/events", {**_one(), "headers": {"If-Match": '"1"'}}, 412, "wrong-expected"),
    ("POST", f"{ALICE}/events", {**_one(), "headers": {"If-Match": "x"}}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {**_one(expected=2), "headers": {"If-Match": '"1"'}}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", _one(expected=-1), 400, "bad-input"),
    ("POST", f"{ALICE}/events", _one(expire_after="30"), 400, "bad-input"),
    ("POST", f"{ALICE}/events", _one(expire_after=30), 400, "bad-input"),
    ("POST", f"{ALICE}/events", _one(headers={"journal.action": "x"}), 400, "bad-input"),
    ("POST", f"{ALICE}/events", _one(headers={"headwater.key": "x"}), 400, "bad-input"),
    ("POST", f"{ALICE}/events", {**_one(), "headers": {"Idempotency-Key": "x" * 5000}}, 400, "bad-input"),
    ("POST", f"{ALICE}/events", {"json": {"events": [{"payload": "x" * (17 << 20)}]}}, 413, "too-large"),
    ("POST", BANK, {"json": {"id": "b"}}, 415, "bad-type"),
    ("GET", f"{ALICE}/events?from=0", {}, 400, "bad-input"),
    ("GET", f"{ALICE}/events?from=5&to=2", {}, 422, "bad-bounds"),
    ("GET", f"{ALICE}/events?from=x", {}, 400, "bad-input"),
    ("GET", f"{ALICE}/events?limit=-1", {}, 400, "bad-input"),
    ("GET", f"{ALICE}/events?consistency=soon", {}, 400, "bad-input"),
    ("GET", f"{BANK}?view=rows", {}, 400, "bad-input"),
    ("DELETE", f"{ALICE}/events", {}, 400, "bad-input"),
    ("DELETE", f"{ALICE}/events?to=0", {}, 400, "bad-input"),
    ("GET", "/replication/bank/dead/0/999", {}, 404, "not-found"),
    ("GET", "/replication/bank/dead/9/0", {}, 404, "unknown-partition"),
    ("POST", "/replication/bank/dead/0/0/quarantine", {}, 400, "bad-input"),
]


@pytest.mark.parametrize(("method", "path", "how", "status", "code"), REFUSED)
def test_wrong_requests_are_problems_and_make_nothing(
    http: httpx2.Client, method: str, path: str, how: dict[str, Any], status: int, code: str
) -> None:
    answer = http.request(method, path, **how)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert (answer.json()["code"], bool(answer.json()["hint"])) == (code, True)
    assert http.get(BANK).json()["items"] == ["alice"]
    assert http.get(ALICE).json()["seq_nr"] == 2


def test_a_line_of_many_that_is_refused_has_its_own_problem(http: httpx2.Client) -> None:
    answer = http.post(BANK, content=b'{"id": "b", "events": []}\n', headers=LINES)
    assert (answer.status_code, json.loads(answer.text)["code"]) == (200, "bad-input")
    assert http.get(BANK).json()["items"] == ["alice"]


def test_a_verification_over_http_is_a_job(http: httpx2.Client) -> None:
    answer = http.post("/replication/bank/verify")
    assert answer.status_code == 202
    job = http.get(answer.headers["location"], params={"wait": 20}).json()
    assert (job["state"], job["answer"]["topic"]) == ("done", "journal-bank")


def test_the_metrics_of_a_server_tell_of_its_replicator(http: httpx2.Client) -> None:
    async def copied() -> bool:
        return 'headwater_replicator_records_total{topic="journal-bank"}' in (await asyncio.to_thread(http.get, "/metrics")).text

    asyncio.run(until(copied))
    text = http.get("/metrics").text
    assert 'headwater_journal_call_seconds_count{topic="journal-bank",type="append"}' in text
    assert "headwater_replicator_active 1.0" in text
    assert 'headwater_replicator_lag_records{partition="0",topic="journal-bank"}' in text
    assert "alice" not in text


# -- a server that dies -------------------------------------------------------------------------------------------


def test_acknowledged_appends_are_there_after_kill_9_under_load(tmp_path: Path) -> None:
    acknowledged: dict[str, int] = {}
    server = SpawnedServer(tmp_path)
    server.start()

    def append(number: int) -> None:
        with httpx2.Client(base_url=server.url, trust_env=False, timeout=120) as client:
            for expected in range(10_000):
                try:
                    answer = client.post(f"{BANK}/a-{number}/events", json={"events": [{"payload": expected}], "expected": expected})
                except httpx2.TransportError:
                    return
                if answer.status_code != 201:
                    return
                acknowledged[f"a-{number}"] = expected + 1
                if number == 0 and expected == 100:
                    server.kill()

    try:
        assert httpx2.put(server.url + BANK, trust_env=False).status_code == 201
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(append, range(8)))
    finally:
        server.kill()
    assert len(acknowledged) == 8
    with headwater.open_blocking(tmp_path) as hw:
        bank = hw.journals("bank")
        for id, last in acknowledged.items():
            events = [event.payload for event in bank[id].read()]
            assert events == list(range(len(events)))
            assert last <= len(events) <= last + 1, "one more may have been written, and not answered"


def test_follow_goes_on_until_it_is_stopped(home: Program) -> None:
    done(home, "create", "bank")
    done(home, "append", "bank", "alice", "1")
    following = home.start("journal", "follow", "bank", "--json")
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["payload"] == 1
    done(home, "append", "bank", "bob", '"live"')
    assert json.loads(following.stdout.readline())["payload"] == "live"
    following.send_signal(signal.SIGTERM)
    assert following.wait(240) == 0
    following.stdout.close()


@THROUGH
def test_snapshots_by_commands(home: Program, through: str) -> None:
    done(home, "create", "bank", "--partitions", "1")
    with served(home, through):
        done(home, "append", "bank", "alice", "1", "2", "3")
        assert done(home, "snapshot", "save", "bank", "alice", '{"eur": 5}').json == {"seq_nr": 3, "partition": 0, "offset": 0}
        done(home, "snapshot", "save", "bank", "alice", "--seq-nr", "2", "--format", "text", "two")
        found = done(home, "snapshot", "load", "bank", "alice").json
        assert (found["seq_nr"], found["payload"]) == (3, {"eur": 5})
        assert done(home, "snapshot", "load", "bank", "alice", "--max-seq-nr", "2").json["payload"] == "two"
        assert [one["seq_nr"] for one in done(home, "snapshot", "list", "bank", "alice").json] == [3, 2]
        assert home("journal", "snapshot", "load", "bank", "alice").out == '3  {"eur":5}\n'
        assert home("journal", "snapshot", "list", "bank", "alice").out.splitlines()[1].split()[0] == "3"
        assert done(home, "snapshot", "delete", "bank", "alice", "--seq-nr", "2", "--dry-run").json == {"deleted": 1, "dry_run": True}
        assert done(home, "snapshot", "delete", "bank", "alice", "--seq-nr", "2", "--yes").json["deleted"] == 1
        assert home("journal", "snapshot", "load", "bank", "alice", "--max-seq-nr", "2", "--fail-empty").code == 10
        for words, code in (
            (("save", "bank", "alice"), 2),
            (("save", "bank", "alice", "1", "--max-seq-nr", "2"), 2),
            (("load", "bank", "alice", "--seq-nr", "2"), 2),
            (("load", "bank", "alice", "{}"), 2),
            (("save", "bank", "alice", "{no"), 5),
            (("save", "bank", "alice", "1", "--seq-nr", "0"), 5),
            (("save", "bank", "alice", "1", "--seq-nr", "4"), 5),
            (("save", "bank", "bob", "1"), 3),
            (("load", "none", "alice"), 3),
            (("delete", "bank", "alice"), 5),
            (("load", "bank", "alice", "--min-timestamp", "soon"), 5),
        ):
            ran = home("journal", "snapshot", *words)
            assert (words, ran.code) == (words, code), ran.err
    if through == "directory":
        assert home("journal", "replicate", "--once").code == 0
        assert done(home, "verify", "bank").json["snapshots"] == 1
        assert "and 1 snapshot," in home("journal", "verify", "bank").out
        done(home, "purge", "bank", "alice", "--yes")
        assert home("journal", "replicate", "--once").code == 0
        assert done(home, "verify", "bank").json["snapshots"] == 0
