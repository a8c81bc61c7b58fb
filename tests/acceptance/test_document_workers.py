"""`headwater serve --workers`: each worker owns some of the partitions of documents, all read, and any may die."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import httpx2
import pytest
from pipeline_home import wait_until
from tests.revision_history import Call, check_order

from headwater.server.spawned import SpawnedServer

DOCUMENTS = [f"d{number}" for number in range(6)]
CONTENT, FEED = "/hyper-storage/content/", "/hyper-storage/feed/"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SpawnedServer]:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "headwater.toml").write_text("[documents]\npartitions = 4\n")
    with SpawnedServer(data, options=("--port", "0", "--workers", "3", "--config", str(tmp_path / "headwater.toml"))) as running:
        yield running


def workers(server: SpawnedServer) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()]


def get(server: SpawnedServer, path: str, **headers: str) -> httpx2.Response:
    return httpx2.get(server.url + path, headers=headers, trust_env=False, timeout=60)


def ready(server: SpawnedServer) -> bool:
    try:
        return get(server, "/readyz").status_code == 200
    except httpx2.HTTPError:
        return False


def followed(server: SpawnedServer, document: str) -> list[tuple[int, str]]:
    """Every change of a document, by its feed: revision and who wrote it."""
    found: list[tuple[int, str]] = []
    while True:
        after = found[-1][0] if found else 0
        lines = get(server, f"{FEED}{document}?after={after}", accept="application/x-ndjson").text.splitlines()
        events = [json.loads(line) for line in lines]
        if not events:
            return found
        found += [(event["revision"], event["body"]["by"]) for event in events]


@pytest.mark.anyio
async def test_workers_share_the_partitions_and_every_one_of_them_reads_what_is_written(server: SpawnedServer) -> None:
    for count in range(4):
        for document in DOCUMENTS:  # each request is a connection of its own: any worker takes it
            body = {"by": f"{count}"}
            answer = httpx2.put(f"{server.url}{CONTENT}{document}", json=body, trust_env=False, timeout=60)
            assert answer.json()["revision"] == count + 1
            assert [get(server, CONTENT + document).json() for _ in range(3)] == [body] * 3
    status = get(server, "/hyper-storage/status").json()["partitions"]
    assert [partition["state"] for partition in status if partition["end"]] == ["Active"] * len([one for one in status if one["end"]])
    owners = {partition["owner"].split()[1] for partition in status if partition["owner"]}
    assert owners <= {str(pid) for pid in workers(server)}
    assert len(owners) > 1
    index = {"indexId": "by", "sortBy": [{"fieldName": "by"}]}
    for collection in ("a~", "b~", "c~"):
        assert httpx2.post(f"{server.url}/hyper-storage/indexes/{collection}", json=index, trust_env=False).status_code == 201
        wait_until(lambda collection=collection: get(server, f"/hyper-storage/indexes/{collection}/by").json()["status"] == "ready")  # type: ignore[misc]
    lines = get(server, "/metrics").text.splitlines()
    ends = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("headwater_documents_") and "accepted" in line]
    assert sum(ends) >= 4 * len(DOCUMENTS), "the counts of all workers are added up"


@pytest.mark.anyio
async def test_callers_at_any_worker_see_one_order_of_the_changes_of_a_document(server: SpawnedServer) -> None:
    """Each request is a connection of its own: any of the three workers takes it."""
    ticks, calls, random = itertools.count(1), list[Call](), Random(11)

    async def client(first: int) -> None:
        known = 0
        for value in range(first, first + 12):
            began, kind = next(ticks), random.choice(["put", "put", "swap", "get"])
            async with httpx2.AsyncClient(trust_env=False, timeout=60) as asking:
                if kind == "get":
                    answer = await asking.get(f"{server.url}{CONTENT}one")
                    there = answer.status_code == 200
                    known, value = (int(answer.headers["hyperbus-revision"]), answer.json()["by"]) if there else (0, 0)
                else:
                    headers = {"if-match": f'"{known:x}"'} if kind == "swap" and known else {}
                    answer = await asking.put(f"{server.url}{CONTENT}one", json={"by": value}, headers=headers)
                    if answer.status_code == 412:
                        continue
                    assert answer.status_code in (200, 201), answer.text
                    assert not headers or answer.json()["revision"] == known + 1
                    known = answer.json()["revision"]
            calls.append(Call(began, next(ticks), known, value, kind != "get"))

    await asyncio.gather(*(client(1000 * lane) for lane in range(1, 9)))
    check_order(calls, {revision: int(by) for revision, by in followed(server, "one")})


@pytest.mark.anyio
async def test_killed_workers_lose_and_double_nothing_that_was_acknowledged(server: SpawnedServer) -> None:
    await killed(server, 3)


@pytest.mark.anyio
@pytest.mark.soak
async def test_workers_are_killed_again_and_again(server: SpawnedServer) -> None:
    await killed(server, 50)


async def killed(server: SpawnedServer, times: int) -> None:
    """Writes with an idempotency key are answered, whichever worker dies but that of their connection; the feed is the history."""
    acknowledged: dict[str, dict[int, str]] = {document: {} for document in DOCUMENTS}
    unknown, goal, reached, over = Counter[str](), 60, asyncio.Event(), asyncio.Event()

    async def writer(name: int) -> None:
        count = 0
        while not over.is_set():
            count += 1
            document, by = DOCUMENTS[(name + count) % len(DOCUMENTS)], f"{name}-{count}"
            headers = {"idempotency-key": by} if name % 2 else {}
            try:
                async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
                    answer = await client.put(f"{server.url}{CONTENT}{document}", json={"by": by}, headers=headers)
            except httpx2.HTTPError:
                unknown[document] += 1
                continue
            if answer.status_code >= 300:
                assert answer.status_code == 503, answer.text
                unknown[document] += 1
                continue
            assert answer.json()["revision"] not in acknowledged[document]
            acknowledged[document][answer.json()["revision"]] = by
            if sum(map(len, acknowledged.values())) >= goal:
                reached.set()

    writing = [asyncio.create_task(writer(name)) for name in range(6)]
    for _ in range(times):
        async with asyncio.timeout(120):
            await reached.wait()
        before = workers(server)
        os.kill(before[goal % len(before)], signal.SIGKILL)
        goal += 61
        reached.clear()
        await asyncio.to_thread(wait_until, lambda before=before: workers(server) != before and len(workers(server)) == 3 and ready(server))  # type: ignore[misc]
    over.set()
    await asyncio.gather(*writing)
    for document in DOCUMENTS:
        changes = followed(server, document)
        assert [revision for revision, _ in changes] == list(range(1, len(changes) + 1))
        by = dict(changes)
        assert {revision: by.get(revision) for revision in acknowledged[document]} == acknowledged[document]
        assert len(set(by.values())) == len(by), "no write is there twice"
        assert len(by) - len(acknowledged[document]) <= unknown[document]
        assert get(server, CONTENT + document).json() == {"by": changes[-1][1]}


def test_a_worker_that_stands_still_is_replaced_and_its_documents_go_on(tmp_path: Path) -> None:
    """It answers nobody, and it does not die: what was sent to it comes to its successor."""
    data, config = tmp_path / "data", tmp_path / "headwater.toml"
    data.mkdir()
    config.write_text('[server]\nhang_timeout = "5s"\n[documents]\npartitions = 2\n')
    with SpawnedServer(data, options=("--port", "0", "--workers", "2", "--config", str(config))) as server:

        def put(document: str, count: int) -> int:
            headers = {"idempotency-key": f"{document}-{count}"}
            for _ in range(5):  # a call that was with a worker when it was killed says so, and asks to be sent again with its key
                made = httpx2.put(
                    f"{server.url}{CONTENT}{document}", json={"by": str(count)}, headers=headers, trust_env=False, timeout=120
                )
                if made.status_code != 503 or made.json()["code"] != "outcome-unknown":
                    break
            assert made.status_code in (200, 201), made.text
            revision: int = made.json()["revision"]
            return revision

        for document in DOCUMENTS:
            assert put(document, 1) == 1
        hanging, going = workers(server)
        os.kill(hanging, signal.SIGSTOP)
        for document in DOCUMENTS:
            assert put(document, 2) == 2
        assert going in workers(server), "one that works is left alone"
        assert hanging not in workers(server)
        assert len(workers(server)) == 2
        assert f"process {hanging}) has given no sign of life for 5 s" in server.errors()
        for document in DOCUMENTS:
            assert [revision for revision, _ in followed(server, document)] == [1, 2]
