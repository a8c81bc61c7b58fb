"""A real server that speaks MongoDB's protocol."""

from __future__ import annotations

import signal
import socket
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from tools.services import Running, up
from tools.services.jars import Jars
from tools.services.mongodb import MongoDB
from tools.services.place import Place
from tools.services.private import PrivateServers
from tools.services.process import Process
from tools.services.runner import GRACE, Runner
from tools.services.server import Command, Node


def insert_and_find(uri: str, database: str, *, insert: bool) -> list[tuple[str, int]]:
    with MongoClient[dict[str, Any]](uri) as client:
        if insert:
            client[database].orders.insert_many([{"_id": f"order-{number}", "amount": number} for number in range(10)])
        return [(found["_id"], found["amount"]) for found in client[database].orders.find().sort("_id")]


def changes(uri: str, database: str) -> list[tuple[Timestamp, str]]:
    with MongoClient[dict[str, Any]](uri) as client:
        return [(one["ts"], one["op"]) for one in client.local["oplog.rs"].find({"ns": f"{database}.orders"}).sort("ts")]


def stop(running: Running) -> None:
    process = running.runner.states()["mongodb"].nodes[0].process
    assert isinstance(process, Process)
    process.send(signal.SIGTERM)
    assert process.wait_gone(GRACE)


def test_what_was_inserted_is_found_and_told_by_the_oplog(mongodb: str) -> None:
    database = f"services_{uuid.uuid4().hex}"
    assert insert_and_find(mongodb, database, insert=True) == [(f"order-{number}", number) for number in range(10)]
    told = changes(mongodb, database)
    assert [op for _, op in told] == ["i"] * 10
    assert len({ts for ts, _ in told}) == 10


def test_a_second_up_finds_it(mongodb: str) -> None:
    running = up("mongodb", kept=False)
    assert running.found == {"mongodb"}
    assert running.mongodb == mongodb


@pytest.mark.soak  # the tests of what uses it kill one, too
def test_stopped_it_comes_back_with_its_data_and_its_oplog(private_servers: PrivateServers) -> None:
    running = private_servers.up("mongodb")
    rows = insert_and_find(running.mongodb, "shop", insert=True)
    told = changes(running.mongodb, "shop")
    stop(running)
    running.restart("mongodb-1")
    assert insert_and_find(running.mongodb, "shop", insert=False) == rows
    assert changes(running.mongodb, "shop") == told
    with MongoClient[dict[str, Any]](running.mongodb) as client:
        client.shop.orders.delete_one({"_id": "order-3"})
    later = changes(running.mongodb, "shop")
    assert later[:-1] == told
    assert later[-1][0] > told[-1][0]
    assert later[-1][1] == "d"


def test_the_committed_list_is_whole() -> None:
    assert len(Jars.listed("mongodb").jars) > 10


@pytest.mark.service("mongodb")
def test_a_port_that_somebody_takes_meanwhile_is_replaced(tmp_path: Path) -> None:
    """Between choosing a port and using it: here, as soon as the JVM runs."""
    taken: list[socket.socket] = []

    class Robbed(MongoDB):
        def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
            if not taken:
                taken.append(socket.create_server(("127.0.0.1", node.ports["clients"])))
            return super().command(node, nodes, folder)

    said: list[str] = []
    runner = Runner(Place(Place.usual().cache, tmp_path / "run", said.append))
    try:
        known, _ = runner.up(Robbed(), kept=False)
        assert str(taken[0].getsockname()[1]) not in known.address
        assert any("somebody took port" in line for line in said)
    finally:
        runner.down("mongodb", clear=True)
        for one in taken:
            one.close()
