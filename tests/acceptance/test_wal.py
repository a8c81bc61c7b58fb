"""Regions through the real program: commands, HTTP and Python on one directory, and a server that is killed under load."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from forked_program import ForkedProgram
from program import Program
from tests.stopping import stop_outside

import headwater
from headwater.core.errors import HeadwaterError, OutcomeUnknown, Unavailable
from headwater.server.spawned import SpawnedServer

pytestmark = pytest.mark.anyio
MAX = 2**64 - 1


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path, forked_program)


def done(home: Program, *words: str, stdin: str = "") -> Any:
    ran = home("wal", *words, "--json", stdin=stdin)
    assert ran.code == 0, ran.err
    return ran


def test_a_pinned_log_is_explained_and_freed_by_commands_alone(home: Program) -> None:
    done(home, "create", "7")
    assert done(home, "write", "wal/7", "9", "left unflushed").lines == [{"table": 9, "sequence": 1, "written": 1}]
    lines = "".join(f"{number}\n" for number in range(1, 2501))
    assert [line["sequence"] for line in done(home, "write", "7", "1", stdin=lines).lines] == [1000, 2000, 2500]
    assert done(home, "mark", "7", "1", "2499", "--dry-run").json["dry_run"]
    assert done(home, "mark", "7", "1", "2499").json["sequence"] == 2499
    assert done(home, "mark", "7", str(1), str(MAX), "--dry-run").json == {"table": 1, "sequence": 2500, "clamped": True, "dry_run": True}
    pinned = done(home, "why", "7").json
    assert (pinned["table"], pinned["entries"]) == (9, 3)
    told = home("wal", "why", "7")
    assert told.out.startswith("Table 9 pins region wal/7 since 2")
    assert "\n  headwater wal move wal/7 9\n" in told.out
    assert all(len(line) <= 80 for line in told.out.splitlines())
    assert done(home, "clean", "7").json["removed"] == 0
    assert done(home, "move", "7", "9").json["entries"] == 1
    assert done(home, "clean", "7", "--dry-run").json["removed"] == 3
    assert done(home, "clean", "7").json == {"start": 3, "removed": 3, "moved": [], "dry_run": False}
    assert [(one["table"], one["payload"]) for one in done(home, "scan", "7").lines] == [(1, "2500"), (9, "left unflushed")]
    assert done(home, "read", "7", "1", "2499..").lines[0]["payload"] == "2500"
    assert home("wal", "read", "7", "5", "--fail-empty").code == 10
    assert done(home, "verify", "7").json["compared"] == "older snapshot"
    assert [(one["table"], one["live"]) for one in done(home, "tables", "7").json] == [(1, 1), (9, 1)]
    assert done(home, "drop", "7", "9", "--dry-run").json["live"] == 1
    assert home("wal", "drop", "7", "9").code == 5, "nobody can be asked"
    assert done(home, "drop", "7", "9", "--yes").json["live"] == 1
    assert done(home, "recover", "7").json["tables"] == 1
    assert done(home, "stats").json[0]["live_entries"] == 1
    assert [(one["namespace"], one["region"]) for one in done(home, "regions").json] == [("wal", 7)]
    assert home("log", "append", "wal_data_7", "x").code == 4, "the topics of a region are its own"
    assert "headwater wal delete wal/7" in home("log", "delete-topic", "wal_data_7", "--yes").err
    assert done(home, "delete", "7", "--dry-run").json["dry_run"]
    assert home("wal", "delete", "7").code == 5, "nobody can be asked"
    assert done(home, "delete", "7", "--yes").json["region"] == 7
    assert home("wal", "stats", "7").code == 3


WRONG: list[tuple[list[str], int, str]] = [
    (["create", "x"], 5, "bad-input"),
    (["create", "a_b/7"], 5, "bad-input"),
    (["create", "7", "--segment", "12"], 5, "bad-input"),
    (["create", "7", "--segment", "1MiB"], 4, "already-exists"),
    (["create", str(MAX + 1)], 5, "bad-input"),
    (["tables", "77"], 3, "region-not-found"),
    (["write", "77", "1", "x"], 3, "region-not-found"),
    (["write", "7", "-1", "x"], 5, "bad-input"),
    (["write", "7", str(MAX + 1), "x"], 5, "bad-input"),
    (["write", "7", "x", "x"], 2, "usage"),
    (["create", "8", "--period", "week"], 5, "bad-input"),
    (["create", "8", "--disposal", "shred"], 5, "bad-input"),
    (["create", "7", "--disposal", "reset"], 4, "already-exists"),
    (["write", "7", "1", "x", "--timeout", "5"], 5, "bad-input"),
    (["write", "7", "1", "x", "--timeout", "0s"], 5, "bad-input"),
    (["write", "7", "1", "x", "--format", "raw"], 2, "usage"),
    (["read", "77", "1"], 3, "region-not-found"),
    (["read", "7", "1", "9..2"], 5, "bad-bounds"),
    (["read", "7", "8", "9..2"], 5, "bad-bounds"),
    (["read", "7", "1", "x"], 5, "bad-bounds"),
    (["read", "7", "1", ""], 5, "bad-bounds"),
    (["scan", "77"], 3, "region-not-found"),
    (["scan", "7", "--tables", "1,x"], 5, "bad-input"),
    (["mark", "77", "1", "1"], 3, "region-not-found"),
    (["mark", "7", "8", "1"], 3, "unknown-table"),
    (["mark", "7", "8", "1", "--dry-run"], 3, "unknown-table"),
    (["mark", "7", "1", "-1"], 5, "bad-input"),
    (["drop", "7", "8", "--yes"], 3, "unknown-table"),
    (["drop", "77", "8", "--yes"], 3, "region-not-found"),
    (["move", "7", "8"], 3, "unknown-table"),
    (["move", "77", "8"], 3, "region-not-found"),
    (["clean", "77"], 3, "region-not-found"),
    (["clean", "77", "--dry-run"], 3, "region-not-found"),
    (["recover", "77", "--accept-loss", "--yes"], 3, "region-not-found"),
    (["verify", "77"], 3, "region-not-found"),
    (["stats", "77"], 3, "region-not-found"),
    (["stats", "a/b"], 5, "bad-input"),
    (["why", "77"], 3, "region-not-found"),
    (["regions", "--namespace", "a_b"], 5, "bad-input"),
]


@pytest.mark.parametrize("through", ["directory", "server"])
def test_wrong_words_are_told_and_make_nothing(home: Program, through: str) -> None:
    done(home, "create", "7")
    done(home, "write", "7", "1", "x")
    with SpawnedServer(home.data) if through == "server" else nullcontext():
        for words, code, problem in WRONG:
            ran = home("wal", *words, "--json")
            assert (ran.code, ran.out) == (code, ""), words
            assert ran.problem["code"] == problem, words
            if problem == "region-not-found":
                assert "Did you mean wal/7?" in ran.problem["hint"], words
            assert "timeout=" not in ran.problem["detail"] + ran.problem["hint"], "that cannot be typed"
        assert [one["region"] for one in done(home, "regions").json] == [7]
        assert [(one["table"], one["last"]) for one in done(home, "tables", "7").json] == [(1, 1)]


def test_two_processes_of_one_directory_find_the_owner(home: Program) -> None:
    done(home, "create", "7")
    with headwater.open_blocking(home.data) as before:
        mine = before.wal("wal").open(7)
        assert mine.write(1, [b"python"]) == 1
        refused = home("wal", "write", "7", "1", "command", "--json")
        assert (refused.code, refused.problem["code"]) == (4, "not-owner")
        assert f"process {os.getpid()}" in str(refused.problem)
        assert [one["payload"] for one in done(home, "scan", "7").lines] == ["python"], "looking needs no ownership"
        mine.close()
        assert done(home, "write", "7", "1", "command").lines[0]["sequence"] == 2
        with SpawnedServer(home.data) as server:
            assert done(home, "write", "7", "1", "through the server").lines[0]["sequence"] == 3
            again = before.wal("wal")[7]
            assert again.write(1, [b"over the address of the owner"]) == 4, "a door that is older than the server goes to it"
            assert again.sequence_num(1) == 4
            assert home("wal", "stats", "7", "--server", server.url).out.count("this process") == 1
            assert server.stop() == 0
        assert done(home, "recover", "7", "--dry-run").json["records"] == 0, "a server that stops stores the state"
        assert again.write(1, [b"here again"]) == 5


def test_a_stopped_owner_loses_its_region_only_to_a_take_over(home: Program) -> None:
    done(home, "create", "7")
    with headwater.open_blocking(home.data) as before, SpawnedServer(home.data) as server:
        assert httpx2.post(f"{server.url}/wal/wal/7/tables/1/entries", json={"payloads": ["a"]}, trust_env=False).status_code == 201
        stop_outside(server.pid, *(home.data / "log" / name / "0" / "lock" for name in ("wal_meta_7", "wal_data_7")))
        taken = before.wal("wal").open(7, take_over=True)
        assert taken.write(1, [b"b"]) == 2
        server.signal(signal.SIGCONT)
        late = httpx2.post(f"{server.url}/wal/wal/7/tables/1/entries", json={"payloads": ["late"]}, trust_env=False, timeout=120)
        assert (late.status_code, late.json()["code"]) == (409, "fenced")
        again = httpx2.post(f"{server.url}/wal/wal/7/tables/1/entries", json={"payloads": ["late"]}, trust_env=False)
        assert (again.status_code, again.json()["code"]) == (421, "not-owner")
        assert [entry.payload for entry in taken.scan()] == [b"a", b"b"]
        assert "headwater_wal_fenced_total 1.0" in httpx2.get(f"{server.url}/metrics", trust_env=False).text
        taken.close()
        assert done(home, "write", "7", "1", "c").lines[0]["sequence"] == 3


async def test_nothing_acknowledged_is_missing_after_the_server_was_killed(tmp_path: Path) -> None:
    data, acknowledged = tmp_path / "data", dict[int, int]()
    server = SpawnedServer(data)

    async def writer(hw: headwater.Headwater, table: int) -> None:
        region = hw.wal("wal")[7]
        while True:
            try:
                acknowledged[table] = await region.write(table, [b"%d" % table] * (1 + table % 3))
                if acknowledged[table] % 40 < 3:
                    await region.mark_delete_up_to(table, max(0, acknowledged[table] - 5))
                    await region.clean()
            except (OutcomeUnknown, Unavailable):
                return

    for turn in range(3):
        server.start()
        async with headwater.open(server.url) as hw:
            region = await hw.wal("wal").open(7, create=True)
            for table in range(10):
                states = {one.table: one for one in await region.tables()}
                if table in acknowledged:
                    assert states[table].last >= acknowledged[table]
                    rows = [entry async for entry in region.read(table)]
                    assert [entry.sequence for entry in rows] == list(range(states[table].flushed + 1, states[table].last + 1))
                    assert {entry.payload for entry in rows} <= {b"%d" % table}
            assert (await region.verify()).tables == len(acknowledged)
            before = sum(acknowledged.values())
            writers = [asyncio.create_task(writer(hw, table)) for table in range(10)]
            while sum(acknowledged.values()) < before + 400:
                await asyncio.sleep(0.01)
            server.kill()
            await asyncio.gather(*writers)
        assert sum(acknowledged.values()) >= 400 * (turn + 1)


def test_several_workers_have_one_owner(home: Program) -> None:
    with SpawnedServer(home.data, options=("--port", "0", "--workers", "2")) as server:
        assert httpx2.put(f"{server.url}/wal/wal/7", trust_env=False).status_code == 201
        for number in range(20):  # each connection goes to one of them
            sent = httpx2.post(f"{server.url}/wal/wal/7/tables/1/entries", json={"payloads": ["x"]}, trust_env=False)
            assert sent.json() == {"sequence": number + 1}
        lines = [httpx2.get(f"{server.url}/wal/wal/7/scan", trust_env=False).text.count("\n") for _ in range(6)]
        assert lines == [20] * 6
        assert 'headwater_wal_live_entries{namespace="wal",region="7"} 20.0' in httpx2.get(f"{server.url}/metrics", trust_env=False).text


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with SpawnedServer(tmp_path_factory.mktemp("wal")) as server, httpx2.Client(base_url=server.url, trust_env=False) as client:
        assert client.put("/wal/wal/7").status_code == 201
        assert client.put("/wal/wal/7").status_code == 200
        assert client.post("/wal/wal/7/tables/1/entries", json={"payloads": ["a", {"$binary": "AP8="}, {"n": 1}]}).json() == {"sequence": 3}
        yield client


REGION, TABLE = "/wal/wal/7", "/wal/wal/7/tables/1"
NONE = "/wal/wal/8"
REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("PUT", "/wal/a_b/7", {}, 400, "bad-input"),
    ("PUT", "/wal/wal/x", {}, 400, "bad-input"),
    ("PUT", "/wal/wal/18446744073709551616", {}, 400, "bad-input"),
    ("PUT", REGION, {"json": {"segment": "12"}}, 400, "bad-input"),
    ("PUT", REGION, {"json": {"segment": "1MiB"}}, 409, "already-exists"),
    ("PUT", REGION, {"json": {"segmnt": "1MiB"}}, 400, "bad-input"),
    ("GET", "/wal/a_b", {}, 400, "bad-input"),
    ("GET", NONE, {}, 404, "region-not-found"),
    *(
        ("GET", f"{NONE}/{name}", {}, 404, "region-not-found")
        for name in ("tables", "scan", "why", "events", "tables/1", "tables/1/entries")
    ),
    *(("POST", f"{NONE}/{name}", {}, 404, "region-not-found") for name in ("open", "take-over", "close", "clean", "recover", "verify")),
    ("POST", f"{NONE}/tables/1/entries", {"json": {"payloads": ["x"]}}, 404, "region-not-found"),
    ("POST", f"{NONE}/tables/1/mark", {"json": {"sequence": 1}}, 404, "region-not-found"),
    ("POST", f"{NONE}/tables/1/move", {}, 404, "region-not-found"),
    ("DELETE", f"{NONE}/tables/1", {}, 404, "region-not-found"),
    ("DELETE", NONE, {}, 404, "region-not-found"),
    ("DELETE", f"{REGION}?dry_run=maybe", {}, 400, "bad-input"),
    ("PATCH", REGION, {}, 405, "bad-method"),
    ("GET", f"{REGION}/nothing", {}, 404, "not-found"),
    ("POST", f"{TABLE}/entries", {"json": {"payloads": []}}, 400, "bad-input"),
    ("POST", f"{TABLE}/entries", {"json": {"payloads": [None]}}, 400, "bad-input"),
    ("POST", f"{TABLE}/entries", {"json": ["x"]}, 400, "bad-input"),
    ("POST", f"{TABLE}/entries", {"data": {"a": "b"}}, 415, "bad-type"),
    ("POST", f"{TABLE}/entries", {"json": {"payloads": ["x"]}, "headers": {"Idempotency-Key": "k"}}, 400, "unsupported"),
    ("POST", f"{TABLE}/entries?timeout=5", {"json": {"payloads": ["x"]}}, 400, "bad-input"),
    ("POST", f"{TABLE}/entries", {"content": b"x" * (17 << 20), "headers": {"Content-Type": "application/octet-stream"}}, 413, "too-large"),
    ("POST", f"{REGION}/tables/x/entries", {"json": {"payloads": ["x"]}}, 400, "bad-input"),
    ("GET", f"{TABLE}/entries?from=3&to=2", {}, 422, "bad-bounds"),
    ("GET", f"{REGION}/tables/99/entries?from=3&to=2", {}, 422, "bad-bounds"),
    ("GET", f"{TABLE}/entries?after=18446744073709551615", {}, 422, "bad-bounds"),
    ("GET", f"{TABLE}/entries?from=-1", {}, 400, "bad-input"),
    ("GET", f"{TABLE}/entries?limit=0", {}, 400, "bad-input"),
    ("GET", f"{TABLE}/entries?decode=xml", {}, 400, "bad-input"),
    ("GET", f"{TABLE}/entries?from=3&to=2", {"headers": {"Accept": "application/x-ndjson"}}, 422, "bad-bounds"),
    ("GET", f"{TABLE}/entries?from=3&to=2", {"headers": {"Accept": "text/event-stream"}}, 422, "bad-bounds"),
    ("GET", f"{REGION}/scan?tables=1,x", {}, 400, "bad-input"),
    ("GET", f"{REGION}/tables?cursor=x", {}, 400, "bad-input"),
    ("GET", f"{REGION}/events", {"headers": {"Last-Event-ID": "x"}}, 400, "bad-input"),
    ("POST", f"{TABLE}/mark", {}, 400, "bad-input"),
    ("POST", f"{TABLE}/mark", {"json": {"sequence": -1}}, 400, "bad-input"),
    ("POST", f"{TABLE}/mark", {"json": {"sequence": "1"}}, 400, "bad-input"),
    ("POST", f"{REGION}/tables/99/mark", {"json": {"sequence": 1}}, 404, "unknown-table"),
    ("POST", f"{REGION}/tables/99/move", {}, 404, "unknown-table"),
    ("DELETE", f"{REGION}/tables/99", {}, 404, "unknown-table"),
    ("DELETE", f"{REGION}/tables/99?dry_run=maybe", {}, 400, "bad-input"),
    ("DELETE", REGION, {"json": {"dry_run": True}}, 400, "bad-input"),
    ("POST", f"{REGION}/clean", {"json": {"dry_run": True}}, 400, "bad-input"),
]


@pytest.mark.parametrize(("method", "path", "how", "status", "code"), REFUSED)
def test_wrong_requests_are_problems_and_make_nothing(
    http: httpx2.Client, method: str, path: str, how: dict[str, Any], status: int, code: str
) -> None:
    answer = http.request(method, path, **how)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert (answer.json()["code"], bool(answer.json()["hint"])) == (code, True)
    if code == "region-not-found":
        assert "PUT /wal/wal/8" in answer.json()["hint"]
    assert [one["region"] for one in http.get("/wal").json()["items"]] == [7]
    assert http.get(TABLE).json() == {"sequence": 3}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[httpx2.Client]:
    with SpawnedServer(tmp_path / "data") as server, httpx2.Client(base_url=server.url, trust_env=False, timeout=120) as client:
        client.put(REGION)
        client.post(f"{TABLE}/entries", json={"payloads": ["a", {"$binary": "AP8="}, {"n": 1}]})
        yield client


def test_every_address_answers(fresh: httpx2.Client) -> None:
    http = fresh
    assert http.get("/wal/wal").json()["items"][0]["region"] == 7
    page = http.get(f"{TABLE}/entries", params={"limit": 2})
    assert [one["payload"] for one in page.json()["items"]] == ["a", {"$binary": "AP8="}]
    assert page.json()["next"] == "3"
    assert "from=3" in page.headers["link"]
    behind = http.get(f"{TABLE}/entries", params={"after": 1, "limit": 1})
    assert [one["sequence"] for one in http.get(behind.links["next"]["url"]).json()["items"]] == [3]
    lines = http.get(f"{TABLE}/entries", params={"after": 1, "decode": "json"}, headers={"Accept": "application/x-ndjson"}).text
    assert [json.loads(line)["payload"] for line in lines.splitlines()] == [{"$binary": "AP8="}, {"n": 1}]
    raw = http.post(f"{TABLE}/entries", content=b"\x00", headers={"Content-Type": "application/octet-stream"})
    assert (raw.status_code, raw.json()) == (201, {"sequence": 4})
    sent = http.post(f"{TABLE}/entries?timeout=30s", content=b'"x"\n"y"\n', headers={"Content-Type": "application/x-ndjson"})
    assert sent.json() == {"sequence": 6}
    events = http.get(f"{TABLE}/entries", headers={"Accept": "text/event-stream"}).text
    assert events.count("data: ") == 6
    assert http.post(f"{TABLE}/mark?dry_run=true", json={"sequence": 4}).json()["dry_run"]
    assert http.post(f"{TABLE}/mark", json={"sequence": MAX}).json() == {"table": 1, "sequence": 6, "clamped": True, "dry_run": False}
    http.post(f"{REGION}/tables/2/entries", json={"payloads": ["z"]})
    assert http.post(f"{REGION}/tables/2/move").json()["entries"] == 1
    assert http.post(f"{REGION}/clean?dry_run=true").json()["removed"] > 0
    assert http.post(f"{REGION}/clean").json()["removed"] > 0
    assert http.get(f"{REGION}/why").json()["table"] == 2
    assert http.delete(f"{REGION}/tables/2?dry_run=true").json()["live"] == 1
    assert http.delete(f"{REGION}/tables/2").json()["live"] == 1
    assert http.post(f"{REGION}/recover").json()["lost"] is False
    job = http.post(f"{REGION}/verify")
    assert job.status_code == 202
    assert http.get(job.headers["location"], params={"wait": 20}).json()["answer"]["compared"] == "older snapshot"
    assert http.post(f"{REGION}/close").json() == {"closed": True}
    assert http.get(REGION).json()["open"] is False
    assert http.post(f"{REGION}/open").json()["records"] == 0
    assert http.post(f"{REGION}/take-over").json()["records"] == 0
    assert http.get(REGION).json()["open"] is True


def test_events_go_on_behind_the_last_one_and_say_what_was_missed(fresh: httpx2.Client) -> None:
    http = fresh
    http.post(f"{TABLE}/mark", json={"sequence": 3})
    assert http.post(f"{REGION}/clean").json()["removed"] == 2

    def some(count: int, **headers: str) -> list[list[str]]:
        found: list[list[str]] = [[]]
        with http.stream("GET", f"{REGION}/events", headers=headers) as stream:
            for line in stream.iter_lines():
                if line:
                    found[-1].append(line)
                elif found[-1] and found[-1][0].startswith("retry"):
                    found[-1] = []
                elif found[-1]:
                    found.append([])
                    if len(found) > count:
                        break
        return found[:-1]

    for _ in range(3):
        http.post(f"{REGION}/tables/5/entries", json={"payloads": ["x"]})
    end = http.get(REGION).json()["end"]
    (first,) = some(1, **{"Last-Event-ID": str(end - 2)})
    assert first[0] == f"id: {end - 1}"
    assert json.loads(first[1].removeprefix("data: "))["kind"] == "write"
    reset, behind = some(2, **{"Last-Event-ID": "0"})
    start = http.get(REGION).json()["start"]
    assert reset == ["event: reset", f'data: {{"start":{start}}}']
    assert behind[0].startswith("id: ")


async def test_a_region_goes_on_in_the_order_of_its_calls_after_a_clean_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for turn in range(2):
        with SpawnedServer(data) as server:
            async with headwater.open(data) as hw:
                region = await hw.wal("wal").open(7, create=True)
                given = await asyncio.gather(*(region.write(1, [b"%d" % number]) for number in range(100)))
                assert sorted(given) == list(range(turn * 100 + 1, turn * 100 + 101))
            assert server.stop() == 0
    async with headwater.open(data) as hw:
        rows = [entry.sequence async for entry in hw.wal("wal")[7].read(1)]
    assert rows == list(range(1, 201))
    with pytest.raises(HeadwaterError):
        await hw.wal("wal")[7].write(1, [b"closed"])


async def test_a_reader_never_ends_early_because_its_server_stops(tmp_path: Path) -> None:
    with SpawnedServer(tmp_path / "data") as server:
        async with headwater.open(server.url) as hw:
            region = await hw.wal("wal").open(7, create=True)
            for _ in range(60):
                await region.write(1, [bytes(1 << 20)])
            for reader in (region.read(1, batch=1), region.scan(batch=1)):
                assert len(await reader.next_batch()) == 1
            server.stop()
            with pytest.raises(Unavailable):
                while await reader.next_batch():
                    pass


def test_other_settings_are_told_with_a_command_that_shows_them(home: Program) -> None:
    done(home, "create", "7", "--period", "month", "--disposal", "secure-delete")
    refused = home("wal", "create", "7", "--disposal", "reset", "--json")
    assert refused.code == 4
    assert "`headwater log topics" in refused.problem["hint"]
    assert "secure-delete" in home("log", "topics").out
