"""Queues through the real program: commands and HTTP on one directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from forked_program import ForkedProgram
from program import Program

import headwater
from headwater.server.spawned import SpawnedServer


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path, forked_program)


def done(home: Program, *words: str, stdin: str = "") -> Any:
    ran = home("queue", *words, "--json", stdin=stdin)
    assert ran.code == 0, ran.err
    return ran


def test_a_queue_by_commands_alone(home: Program) -> None:
    made = done(home, "create", "pages", "--lease", "60s", "--set", "max_timeouts=3").json
    assert (made["created"], made["settings"]["lease"], made["settings"]["max_timeouts"]) == (True, "1m", 3)
    assert done(home, "create", "mail", "--dry-run").json["dry_run"]
    [shown] = done(home, "list").json
    assert (shown["queue"], shown["version"], shown["declaration"]) == ("pages", 1, "")
    assert "max_timeouts          3\n" in home("queue", "show", "pages").out
    put = done(home, "put", "pages", "page:/about", '{"why": "edited", "n": 1.10}', "--priority", "10").json
    assert put["outcome"] == "inserted"
    assert done(home, "put", "pages", "page:/about").json == {**put, "outcome": "merged", "process_date": put["process_date"]} | {
        "process_date": done(home, "get", "pages", "page:/about").json["process_date"]
    }
    lines = '{"key": "a", "data": {"n": 1.10}}\n\n{"key": "b", "delay": "1h"}\n{"key": {"$binary": "/w=="}, "data": {"$binary": "AP8="}}\n'
    assert [one["outcome"] for one in done(home, "put", "pages", stdin=lines).lines] == ["inserted"] * 3
    assert done(home, "count", "pages").json == {"due": 3, "future": 1, "held": 0, "processing": 0, "dead": 0}
    assert [one["key"] for one in done(home, "rows", "pages", "--state", "future").lines] == ["b"]
    assert '"data":{"n":1.10}' in done(home, "rows", "pages", "--key", "a").out.replace(" ", "")
    after = done(home, "put", "pages", "after", "--after", str(put["id"]), "--after", "1", "--after-dead", "cancel").json
    [held] = done(home, "rows", "pages", "--state", "held").lines
    assert (held["id"], held["after"], held["after_dead"]) == (after["id"], [put["id"]], "cancel")
    shown = home("queue", "get", "pages", "after").out
    assert f"after                 [{put['id']}]" in shown
    assert home("queue", "put", "pages", "page:/about", "--after", str(after["id"]), "--json").problem["code"] == "bad-input"
    done(home, "cancel", "pages", "after")
    claims = done(home, "claim", "pages", "-n", "2").lines
    assert [claim["key"] for claim in claims] == ["page:/about", "a"]
    assert {"id", "key", "data", "priority", "insertion_date", "process_date", "expiration_date", "status"} <= set(claims[0])
    first, second = (claim["token"] for claim in claims)
    assert done(home, "extend", "pages", first, second, "--lease", "90s").json["tokens"] == [first, second]
    stale = home("queue", "done", "pages", first, "0-1-1", "--json")
    assert (stale.code, stale.problem["code"]) == (4, "stale-claim")
    assert home("queue", "cancel", "pages", "a", "--json").problem["code"] == "conflict"
    done(home, "fail", "pages", second, "--error", "no page", "--give-up")
    dead = done(home, "dead", "pages", "list").lines
    assert [(one["key"], one["reason"], one["error"]) for one in dead] == [("a", "given-up", "no page")]
    told = home("queue", "dead", "pages", "list")
    assert f"headwater queue dead pages retry {dead[0]['id']}" in told.err
    assert done(home, "dead", "pages", "show", str(dead[0]["id"])).json["error"] == "no page"
    assert done(home, "dead", "pages", "retry", "--all", "--dry-run").json == {"queue": "pages", "count": 1, "dry_run": True}
    assert done(home, "dead", "pages", "retry", str(dead[0]["id"])).json["count"] == 1
    assert done(home, "dead", "pages", "drop", "--all", "--yes").json["count"] == 0
    assert done(home, "cancel", "pages", "a").json["key"] == "a"
    done(home, "pause", "pages")
    paused = home("queue", "claim", "pages", "--json")
    assert (paused.code, paused.problem["code"]) == (6, "paused")
    assert "headwater queue resume pages" in paused.problem["hint"]
    done(home, "resume", "pages")
    [claim] = done(home, "claim", "pages").lines
    assert (claim["key"], claim["data"]) == ({"$binary": "/w=="}, {"$binary": "AP8="})
    done(home, "release", "pages", claim["token"])
    assert done(home, "stats", "pages").json[0]["rows"]["due"] == 1
    assert {one["change"] for one in done(home, "history", "pages", "b").lines} == {"insert"}
    for table in ("list", "rows pages", "stats", "count pages", "history pages b"):
        shown = home("queue", *table.split())
        assert shown.code == 0
        assert all(len(line) <= 80 for line in shown.out.splitlines()), shown.out
    assert home("queue", "rows", "pages", "--key", "zz", "--fail-empty").code == 10
    assert home("log", "append", "queue_data_1", "x").code == 4, "the topics of a queue are its own"
    assert home("queue", "delete", "pages").code == 5, "nobody can be asked"
    assert done(home, "delete", "pages", "--dry-run").json["rows"] == 2
    assert done(home, "delete", "pages", "--yes").json["rows"] == 2
    assert home("queue", "count", "pages").code == 3


WRONG: list[tuple[list[str], int, str]] = [
    (["create", "a/b"], 5, "bad-input"),
    (["create", "x", "--lease", "60"], 5, "bad-input"),
    (["create", "x", "--set", "leese=60s"], 5, "bad-input"),
    (["create", "x", "--set", "lease"], 2, "usage"),
    (["create", "x", "--set", "priority=256"], 5, "bad-input"),
    (["create", "x", "--declaration", "missing.xml"], 5, "bad-input"),
    (["create", "pages", "--set", "period=hour"], 4, "already-exists"),
    (["put", "pagez", "k"], 3, "unknown-queue"),
    (["put", "pages", ""], 5, "bad-input"),
    (["put", "pages", "k", "--priority", "256"], 5, "bad-input"),
    (["put", "pages", "k", "--delay", "10"], 5, "bad-input"),
    (["put", "pages", "k", "--process-date", "tomorrow"], 5, "bad-input"),
    (["put", "pages", "--priority", "10"], 2, "usage"),
    (["put", "pages", "k", '{"n": NaN}'], 5, "bad-input"),
    (["put", "pages", "k", "1e999"], 5, "bad-input"),
    (["put", "pages", "--after", "10"], 2, "usage"),
    (["put", "pages", "k", "--after", "x"], 2, "usage"),
    (["put", "pages", "k", "--after", "99999999999"], 5, "bad-input"),
    (["put", "pages", "k", "--after", "7", "--after-dead", "wait"], 5, "bad-input"),
    (["claim", "pagez"], 3, "unknown-queue"),
    (["claim", "pages", "-n", "0"], 2, "usage"),
    (["claim", "pages", "--wait", "5"], 5, "bad-input"),
    (["claim", "pages", "--lease", "0s"], 5, "bad-input"),
    (["done", "pages", "0-1-1"], 4, "stale-claim"),
    (["done", "pages", "nonsense"], 4, "stale-claim"),
    (["done", "pages", "0-1-1", "--result", "5"], 4, "stale-claim"),
    (["result", "pagez", "5"], 3, "unknown-queue"),
    (["result", "pages", "0"], 3, "not-found"),
    (["result", "pages", "77", "--wait", "5s"], 3, "not-found"),
    (["result", "pages", "77", "--wait", "5"], 5, "bad-input"),
    (["result", "pages", "x"], 2, "usage"),
    (["result", "pages", "-1"], 2, "usage"),
    (["put", "pages", "k", "--unique-for", "5"], 5, "bad-input"),
    (["extend", "pages", "0-1-1"], 4, "stale-claim"),
    (["fail", "pages", "0-1-1"], 4, "stale-claim"),
    (["fail", "pages", "0-1-1", "--retry-after", "5"], 5, "bad-input"),
    (["release", "pages", "0-1-1"], 4, "stale-claim"),
    (["cancel", "pages", "none"], 3, "not-found"),
    (["run-now", "pages", "none"], 3, "not-found"),
    (["create", "pages", "--set", "on_dead=ops.example"], 5, "bad-input"),
    (["get", "pages", "none"], 3, "not-found"),
    (["get", "pages", "none", "--id"], 2, "usage"),
    (["get", "pages", "77", "--id"], 3, "not-found"),
    (["rows", "pagez"], 3, "unknown-queue"),
    (["rows", "pages", "--state", "dead"], 2, "usage"),
    (["count", "pagez"], 3, "unknown-queue"),
    (["stats", "pagez"], 3, "unknown-queue"),
    (["history", "pagez", "k"], 3, "unknown-queue"),
    (["listen", "pagez"], 3, "unknown-queue"),
    (["dead", "pagez", "list"], 3, "unknown-queue"),
    (["dead", "pages", "show"], 2, "usage"),
    (["dead", "pages", "show", "7"], 3, "not-found"),
    (["dead", "pages", "retry", "7"], 3, "not-found"),
    (["dead", "pages", "drop", "7", "--yes"], 3, "not-found"),
    (["dead", "pages", "drop", "7", "--all"], 2, "usage"),
    (["pause", "pagez"], 3, "unknown-queue"),
    (["delete", "pagez", "--yes"], 3, "unknown-queue"),
    (["work", "pages", "nothing"], 5, "bad-input"),
    (["work", "pages", "no_such_module:f"], 5, "bad-input"),
    (["work", "pagez", "os:getpid", "--drain"], 3, "unknown-queue"),
]


@pytest.mark.parametrize("through", ["directory", "server"])
def test_a_result_by_commands_alone(home: Program, through: str) -> None:
    with SpawnedServer(home.data) if through == "server" else nullcontext():
        done(home, "create", "pages")
        put = done(home, "put", "pages", "k", "--unique-for", "1h").json
        early = home("queue", "result", "pages", str(put["id"]), "--json")
        assert (early.code, early.problem["code"]) == (6, "timeout")
        [claim] = done(home, "claim", "pages").lines
        done(home, "done", "pages", claim["token"], "--result", '{"n": [1.50, null]}')
        found = done(home, "result", "pages", str(put["id"])).json
        assert (found["id"], found["result"], found["expires"][-1]) == (put["id"], {"n": [1.5, None]}, "Z")
        assert home("queue", "result", "pages", str(put["id"]), "--wait", "1s").out.replace(" ", "") == '{"n":[1.50,null]}\n'
        again = done(home, "put", "pages", "k", "--unique-for", "1h").json
        assert again == {"id": put["id"], "outcome": "ignored", "process_date": None}
        assert done(home, "put", "pages", "text").json["outcome"] == "inserted"
        [claim] = done(home, "claim", "pages").lines
        done(home, "done", "pages", claim["token"], "--result", "no JSON")
        assert home("queue", "result", "pages", str(claim["id"])).out == '"no JSON"\n'
        told = home("queue", "stats", "pages").out
        assert "results    2" in told
        assert "done keys  1" in told


@pytest.mark.parametrize("through", ["directory", "server"])
def test_wrong_words_are_told_and_make_nothing(home: Program, through: str) -> None:
    done(home, "create", "pages")
    with SpawnedServer(home.data) if through == "server" else nullcontext():
        for words, code, problem in WRONG:
            ran = home("queue", *words, "--json")
            assert (ran.code, ran.out) == (code, ""), (words, ran)
            assert ran.problem["code"] == problem, words
            assert ran.problem["hint"], words
            if problem == "unknown-queue":
                assert "headwater queue create pagez" in ran.problem["hint"], words
        assert [one["queue"] for one in done(home, "list").json] == ["pages"]
        assert sum(done(home, "count", "pages").json.values()) == 0


@pytest.mark.parametrize("through", ["directory", "server"])
def test_dead_rows_and_paused_queues_are_told_by_doctor_and_stats(home: Program, through: str) -> None:
    for name in ("mail", "pages"):
        done(home, "create", name)

    def queues() -> tuple[str, str, Any]:
        found = {one["check"]: one for one in home("doctor", "--json").json}["queues"]
        assert found["ok"]
        return found["said"], found["todo"], found["facts"]

    with SpawnedServer(home.data) if through == "server" else nullcontext():
        assert queues() == ("2 queues without dead rows; none is paused.", "", {"dead_rows": {}, "paused": []})
        done(home, "put", "pages", "k")
        [claim] = done(home, "claim", "pages").lines
        done(home, "fail", "pages", claim["token"], "--give-up")
        done(home, "pause", "mail")
        said, todo, facts = queues()
        assert said == "pages has 1 dead row, mail is paused."
        assert "`headwater queue dead pages list`, `headwater queue resume mail`" in todo
        assert facts == {"dead_rows": {"pages": 1}, "paused": ["mail"]}
        stats = home("queue", "stats")
        assert ("dead       1 row" in stats.out, "mail, paused" in stats.out) == (True, True)
        assert "queue dead pages list" in stats.err


def test_two_processes_of_one_directory_find_the_owner(home: Program) -> None:
    done(home, "create", "pages")
    with headwater.open_blocking(home.data) as before:
        mine = before.queue("pages").open()
        mine.put("python", 1)
        refused = home("queue", "put", "pages", "command", "--json")
        assert (refused.code, refused.problem["code"]) == (4, "not-owner")
    with headwater.open_blocking(home.data) as before:
        older = before.queue("pages")
        with SpawnedServer(home.data):
            assert done(home, "put", "pages", "through the server").json["outcome"] == "inserted"
            assert older.put("over the address of the owner", 1).outcome == "inserted", "a door that is older than the server goes to it"
            assert done(home, "count", "pages").json["due"] == 3


QUEUE = "/queues/pages"
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with SpawnedServer(tmp_path_factory.mktemp("q")) as server, httpx2.Client(base_url=server.url, trust_env=False, timeout=120) as client:
        assert client.put(QUEUE, json={"lease": "60s"}).status_code == 201
        assert client.put(QUEUE, json={"lease": "60s"}).status_code == 200
        yield client


REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("PUT", "/queues/a%2Fb", {}, 400, "bad-input"),
    ("PUT", QUEUE, {"json": {"leese": "1s"}}, 400, "bad-input"),
    ("PUT", QUEUE, {"json": {"lease": 60}}, 400, "bad-input"),
    ("PUT", QUEUE, {"json": []}, 400, "bad-input"),
    ("PUT", QUEUE, {"json": {"declaration": "<table"}}, 400, "bad-input"),
    ("PUT", QUEUE, {"data": {"lease": "1s"}}, 415, "bad-type"),
    *(
        ("GET", f"/queues/none{path}", {}, 404, "unknown-queue")
        for path in ("", "/rows", "/rows/k", "/count", "/stats", "/dead", "/dead/7")
    ),
    ("GET", "/queues/none/events", {}, 404, "unknown-queue"),
    ("GET", "/queues/none/rows/k/history", {}, 404, "unknown-queue"),
    ("POST", "/queues/none/rows", {"json": {"key": "k"}}, 404, "unknown-queue"),
    ("POST", "/queues/none/claims", {"json": {}}, 404, "unknown-queue"),
    ("POST", "/queues/none/dead/retry", {}, 404, "unknown-queue"),
    ("POST", "/queues/none/claims/0-1-1/done", {}, 404, "unknown-queue"),
    ("DELETE", "/queues/none", {}, 404, "unknown-queue"),
    ("PUT", "/queues/none/paused", {"json": {"paused": True}}, 404, "unknown-queue"),
    ("POST", f"{QUEUE}/rows", {"json": {}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": ""}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "prio": 1}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "priority": 256}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "priority": -1}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "delay": 5}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "delay": "5"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "process_date": "now"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "process_date": "2026-01-01T00:00:00Z", "delay": "1s"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "insertion_date": "2999-01-01T00:00:00Z"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "data": {"$binary": "!"}}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "after": 5}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "after": ["5"]}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "after": [-5]}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "after": [99999999999]}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "after": [5], "after_dead": "wait"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": []}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": [{"key": "good"}, {"key": ""}]}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"content": b'{"key": "k", "data": {"a": }}'}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"content": b"[" * 100_000}, 400, "bad-input"),
    (
        "POST",
        f"{QUEUE}/rows",
        {"content": b'{"key": "good"}\n{"key": 5}\n', "headers": {"Content-Type": "application/x-ndjson"}},
        400,
        "bad-input",
    ),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k"}, "headers": {"Idempotency-Key": "a b"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"json": {"key": "k", "data": "x" * (17 << 20)}}, 413, "too-large"),
    ("POST", f"{QUEUE}/claims", {"json": {"n": -1}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/claims", {"json": {"n": 1.5}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/claims", {"json": {"lease": "60"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/claims", {"json": {"leese": "60s"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/claims", {"json": {"fail": [{"token": "t", "retry_after": "5"}]}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/claims", {"json": {"wait": "999999d"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/claims", {"json": {}, "headers": {"Prefer": "wait=soon"}}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"content": '{"key": "k", "data": [NaN]}'}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"content": '{"key": "k", "data": {"n": -Infinity}}'}, 400, "bad-input"),
    ("POST", f"{QUEUE}/rows", {"content": '{"key": "k", "data": 1e999}'}, 400, "bad-input"),
    *(("POST", f"{QUEUE}/claims/0-1-1/{verb}", {}, 409, "stale-claim") for verb in ("done", "fail", "extend", "release")),
    ("POST", f"{QUEUE}/claims/0-1-1/extend", {"json": {"lease": "0s"}}, 400, "bad-input"),
    ("GET", f"{QUEUE}/rows/none", {}, 404, "not-found"),
    ("GET", f"{QUEUE}/rows/x?by=id", {}, 400, "bad-input"),
    ("GET", f"{QUEUE}/rows?state=dead", {}, 400, "bad-input"),
    ("GET", f"{QUEUE}/rows?limit=0", {}, 400, "bad-input"),
    ("DELETE", f"{QUEUE}/rows/none", {}, 404, "not-found"),
    ("POST", f"{QUEUE}/rows/none/run", {}, 404, "not-found"),
    ("PUT", QUEUE, {"json": {"on_dead": "ops.example"}}, 400, "bad-input"),
    ("GET", f"{QUEUE}/dead?reason=boredom", {}, 400, "bad-input"),
    ("POST", f"{QUEUE}/dead/7/retry", {}, 404, "not-found"),
    ("DELETE", f"{QUEUE}/dead/7", {}, 404, "not-found"),
    ("PUT", f"{QUEUE}/paused", {}, 400, "bad-input"),
    ("PUT", f"{QUEUE}/paused", {"json": {"paused": "yes"}}, 400, "bad-input"),
    ("DELETE", f"{QUEUE}/claims", {}, 400, "bad-input"),
]


@pytest.mark.parametrize(("method", "path", "how", "status", "code"), REFUSED)
def test_wrong_requests_are_problems_and_make_nothing(
    http: httpx2.Client, method: str, path: str, how: dict[str, Any], status: int, code: str
) -> None:
    answer = http.request(method, path, **how)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert (answer.json()["code"], bool(answer.json()["hint"])) == (code, True)
    if code == "unknown-queue":
        assert "PUT /queues/none" in answer.json()["hint"]
    assert [one["queue"] for one in http.get("/queues").json()["items"]] == ["pages"]
    assert sum(http.get(f"{QUEUE}/count").json().values()) == 0


def test_every_address_answers(tmp_path: Path) -> None:
    with SpawnedServer(tmp_path / "data") as server, httpx2.Client(base_url=server.url, trust_env=False, timeout=120) as http:
        assert http.put(f"{QUEUE}?dry_run=true", json={"lease": "60s"}).json()["dry_run"]
        assert http.put(QUEUE, content=b'{"lease": "60s"}').status_code == 201, "curl -T sends no content type"
        put = http.post(f"{QUEUE}/rows", json={"key": "page:/a/b", "data": {"n": 1}, "priority": 10}, headers={"Idempotency-Key": "a"})
        assert (put.status_code, put.json()["outcome"]) == (201, "inserted")
        again = http.post(f"{QUEUE}/rows", json={"key": "page:/a/b", "data": {"n": 1}, "priority": 10}, headers={"Idempotency-Key": "a"})
        assert (again.headers["idempotency-replayed"], again.json()["id"]) == ("true", put.json()["id"])
        other = http.post(f"{QUEUE}/rows", json={"key": "b"}, headers={"Idempotency-Key": "a"})
        assert (other.status_code, other.json()["code"]) == (422, "key-reused")
        many = http.post(f"{QUEUE}/rows", json=[{"key": "b"}, {"key": "c", "delay": "1h"}])
        assert [one["outcome"] for one in many.json()["puts"]] == ["inserted"] * 2
        lines = http.post(f"{QUEUE}/rows", content=b'{"key":"d"}\n{"key":"e"}\n', headers={"Content-Type": "application/x-ndjson"})
        assert [one["outcome"] for one in lines.json()["puts"]] == ["inserted"] * 2
        row = http.get(f"{QUEUE}/rows/page%3A%2Fa%2Fb").json()
        assert list(row) == [
            "id", "key", "data", "priority", "insertion_date", "process_date", "expiration_date", "status", "start_processing_date",
            "timeout_counter",
        ]  # fmt: skip
        assert (row["key"], row["expiration_date"], row["status"], row["insertion_date"][-1]) == ("page:/a/b", None, "W", "Z")
        assert http.get(f"{QUEUE}/rows/{row['id']}?by=id").json() == row
        page = http.get(f"{QUEUE}/rows?limit=2")
        assert [one["key"] for one in page.json()["items"]] == ["page:/a/b", "b"]
        assert f"after={page.json()['next']}" in page.headers["link"]
        assert [one["key"] for one in http.get(f"{QUEUE}/rows?state=future").json()["items"]] == ["c"]
        claimed = http.post(f"{QUEUE}/claims", json={"n": 2, "lease": "90s"}).json()
        first, second = claimed["claims"]
        assert (first["key"], claimed["stale"], first["lease_until"] > first["start_processing_date"]) == ("page:/a/b", [], True)
        assert http.post(f"{QUEUE}/claims/{first['token']}/extend", json={"lease": "2m"}).status_code == 204
        assert http.post(f"{QUEUE}/claims/{first['token']}/done").status_code == 204
        assert http.post(f"{QUEUE}/claims/{second['token']}/fail", json={"error": "no", "give_up": True}).status_code == 204
        third, fourth = http.post(f"{QUEUE}/claims", json={"n": 2, "done": ["0-1-1"]}).json()["claims"]
        assert http.post(f"{QUEUE}/claims/{third['token']}/release", json={"delay": "1h"}).status_code == 204
        nothing = http.post(f"{QUEUE}/claims", json={"done": [fourth["token"]]})
        assert (nothing.status_code, nothing.content) == (204, b"")
        stale = http.post(f"{QUEUE}/claims", json={"n": 0, "done": [fourth["token"]]}).json()
        assert stale == {"claims": [], "stale": [fourth["token"]]}
        assert http.post(f"{QUEUE}/claims", json={}, headers={"Prefer": "wait=0"}).status_code == 204
        assert http.get(f"{QUEUE}/results/{third['id']}").json() == {"id": third["id"], "done": False}
        assert http.get(f"{QUEUE}/results/{third['id']}", headers={"Prefer": "wait=0"}).status_code == 202
        http.post(f"{QUEUE}/rows", json={"key": "brings", "unique_for": "1h"})
        brings = http.post(f"{QUEUE}/claims", json={}).json()["claims"][0]
        assert http.post(f"{QUEUE}/claims/{brings['token']}/done", json={"result": {"pages": [1, 2.50]}}).status_code == 204
        found = http.get(f"{QUEUE}/results/{brings['id']}", headers={"Prefer": "wait=5"})
        assert (found.status_code, found.json()["result"], found.json()["expires"][-1]) == (200, {"pages": [1, 2.5]}, "Z")
        assert http.post(f"{QUEUE}/rows", json={"key": "brings", "unique_for": "1h"}).json()["outcome"] == "ignored"
        assert http.post(f"{QUEUE}/rows", json={"key": "binary"}).status_code == 201
        binary = http.post(f"{QUEUE}/claims", json={}).json()["claims"][0]
        http.post(f"{QUEUE}/claims", json={"n": 0, "done": [{"token": binary["token"], "result": {"$binary": "AP8="}}]})
        assert http.get(f"{QUEUE}/results/{binary['id']}").json()["result"] == {"$binary": "AP8="}
        assert http.get(f"{QUEUE}/results/{second['id']}?wait=5s").json()["code"] == "conflict"
        assert http.get(f"{QUEUE}/results/{first['id']}?wait=5s").json()["code"] == "not-found"
        assert http.post(f"{QUEUE}/rows/c/run").json()["process_date"] < http.get(f"{QUEUE}/rows/d").json()["process_date"]
        [dead] = http.get(f"{QUEUE}/dead").json()["items"]
        assert (dead["key"], dead["reason"], dead["error"]) == ("b", "given-up", "no")
        assert http.get(f"{QUEUE}/dead/{dead['id']}").json() == dead
        assert http.post(f"{QUEUE}/dead/retry?dry_run=true").json()["count"] == 1
        assert http.post(f"{QUEUE}/dead/{dead['id']}/retry").json()["puts"][0]["outcome"] == "inserted"
        assert http.delete(f"{QUEUE}/dead").json() == {"count": 0, "dry_run": False}
        assert http.put(f"{QUEUE}/paused", json={"paused": True}).json() == {"queue": "pages", "paused": True}
        assert http.post(f"{QUEUE}/claims", json={}).json()["code"] == "paused"
        http.put(f"{QUEUE}/paused", json={"paused": False})
        assert http.delete(f"{QUEUE}/rows/c").json()["key"] == "c"
        assert [one["change"] for one in http.get(f"{QUEUE}/rows/c/history").json()["items"]][-1] == "cancel"
        assert http.get(f"{QUEUE}/stats").json()["rows"] == {"due": 1, "future": 1, "held": 0, "processing": 0, "dead": 0}
        assert http.get(QUEUE).json()["settings"]["lease"] == "1m"
        assert http.delete(f"{QUEUE}/claims?worker=w").status_code == 204
        with http.stream("GET", f"{QUEUE}/events") as events:
            assert events.headers["content-type"].startswith("text/event-stream")
            http.post(f"{QUEUE}/rows", json={"key": "soon", "delay": "50ms"})
            told = read_events(events.iter_lines())
            first = next(told)
            assert (first["kind"], first["counts"]["rows"]["due"]) == ("counts", 1)
            assert next(one["kind"] for one in told if one["kind"] != "counts") == "due"
            after = next(one["counts"] for one in told if one["kind"] == "counts" and one["counts"]["rows"]["due"] == 2)
            assert (set(after["rates"]), after["due_lag_seconds"] > 0) == ({"puts", "claims", "done", "failed"}, True)
        assert 'headwater_queue_rows{queue="pages",state="due"} 2.0' in http.get("/metrics").text
        assert http.delete(QUEUE).json()["rows"] == 3


def read_events(lines: Iterator[str]) -> Iterator[Any]:
    """The data of events, each under the name of its kind, by which a page's `addEventListener` hears it."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            data = json.loads(line[6:])
            assert name == data["kind"]
            yield data
            name = ""


def test_several_workers_of_a_server_have_one_owner(home: Program) -> None:
    with SpawnedServer(home.data, options=("--port", "0", "--workers", "2")) as server:
        assert httpx2.put(f"{server.url}{QUEUE}", trust_env=False).status_code == 201
        for number in range(20):  # each connection goes to one of them
            sent = httpx2.post(f"{server.url}{QUEUE}/rows", json={"key": f"k{number}"}, trust_env=False)
            assert sent.json()["outcome"] == "inserted"
        counts = [httpx2.get(f"{server.url}{QUEUE}/count", trust_env=False).json()["due"] for _ in range(6)]
        assert counts == [20] * 6
        tokens = [httpx2.post(f"{server.url}{QUEUE}/claims", json={}, trust_env=False).json()["claims"][0]["id"] for _ in range(20)]
        assert len(set(tokens)) == 20


def test_a_server_that_stops_ends_the_claims_that_wait(tmp_path: Path) -> None:
    server = SpawnedServer(tmp_path / "data")
    server.start()
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=60) as http, ThreadPoolExecutor(2) as threads:
        http.put(QUEUE)
        hot = threads.submit(http.post, f"{QUEUE}/claims", json={"wait": "50s"})
        long = threads.submit(http.post, f"{QUEUE}/claims", json={}, headers={"Prefer": "wait=50"})
        while http.get(f"{QUEUE}/stats").json()["waiting_claims"] < 2:
            pass
        assert server.stop() == 0
        assert [hot.result(30).status_code, long.result(30).status_code] == [204, 204]
