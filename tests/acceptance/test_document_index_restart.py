"""A server that is killed while it builds an index: the next one builds it to its end, and the index has what the collection has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from forked_program import ForkedProgram
from pipeline_home import wait_until
from program import Program

from headwater.server.spawned import SpawnedServer

ITEMS, BATCH = 25_000, 2_500
COLLECTION, INDEXES = "/hyper-storage/content/shop~", "/hyper-storage/indexes/shop~"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SpawnedServer]:
    (tmp_path / "data").mkdir()
    with SpawnedServer(tmp_path / "data") as running:
        yield running


def ask(server: SpawnedServer, method: str, path: str, **more: Any) -> httpx2.Response:
    answer = httpx2.request(method, server.url + path, trust_env=False, timeout=120, **more)
    assert answer.status_code < 300, answer.text
    return answer


def body(number: int, change: int = 0) -> dict[str, Any]:
    return {"n": (number * 7919 + change) % ITEMS, "text": f"item {number}"}


def put(server: SpawnedServer, bodies: dict[str, dict[str, Any]]) -> None:
    lines = [json.dumps({"method": "put", "path": f"shop~/{item}", "body": body}) for item, body in bodies.items()]
    for begin in range(0, len(lines), BATCH):
        content = "\n".join(lines[begin : begin + BATCH]).encode()
        answered = ask(server, "POST", "/hyper-storage/batch", content=content, headers={"Content-Type": "application/x-ndjson"})
        assert all("transactionId" in json.loads(line) for line in answered.text.splitlines())


def killed_while_building(server: SpawnedServer, materialize: bool) -> str:
    """The id of an index whose building a kill has interrupted."""
    for attempt in range(20):
        index = f"by-n-{attempt}"
        asked = {"indexId": index, "sortBy": [{"fieldName": "n", "fieldType": "decimal"}], "materialize": materialize}
        ask(server, "POST", INDEXES, json=asked)
        while (status := ask(server, "GET", f"{INDEXES}/{index}").json())["status"] == "building":
            if status["rows"]:
                server.kill()
                return index
        ask(server, "DELETE", f"{INDEXES}/{index}")  # it was quicker than we
    raise AssertionError("No index was found while it was built.")


def by_index(server: SpawnedServer, index: str) -> list[dict[str, Any]]:
    """All items in the order of the index, which has served them."""
    items: list[dict[str, Any]] = []
    cursor = ""
    while True:
        more = {"cursor": cursor} if cursor else {}
        answer = ask(server, "GET", COLLECTION, params={"sort": "n", "size": 10_000, "explain": "1", **more})
        page = answer.json()
        assert page["explain"]["index"] == index
        items += page["_embedded"]["els"]
        if "next" not in answer.links:
            return items
        cursor = httpx2.URL(answer.links["next"]["url"]).params["cursor"]


@pytest.mark.parametrize("materialize", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["plain", "materialized"])
def test_a_build_that_a_kill_has_interrupted_is_ended(
    server: SpawnedServer, tmp_path: Path, forked_program: ForkedProgram, materialize: bool
) -> None:
    bodies = {f"{number:05}": body(number) for number in range(ITEMS)}
    put(server, bodies)
    index = killed_while_building(server, materialize)
    server.start()
    changed = {f"{number:05}": body(number, change=5) for number in range(0, ITEMS, 311)}  # beside the building
    put(server, changed)
    bodies |= changed
    wait_until(lambda: ask(server, "GET", f"{INDEXES}/{index}").json()["status"] == "ready")
    expected = sorted(({"id": item, **body} for item, body in bodies.items()), key=lambda one: (one["n"], one["id"]))
    assert by_index(server, index) == expected
    assert ask(server, "GET", f"{INDEXES}/{index}").json()["unlike"] == 0
    verified = Program(tmp_path, forked_program)("doc", "verify", "--json")
    assert verified.code == 0, verified.err
    assert verified.json["index_rows"] >= ITEMS
