"""Documents as sources and sinks of pipelines, through the real program: with a server and without one, and killed in between."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from forked_program import ForkedProgram
from pipeline_home import KILLED, Home

from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.message import Op
from headwater.server.spawned import SpawnedServer

MANY = 2500
LOAD = """
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import documents, file

p = Pipeline("load")
p.source("orders", file("orders.jsonl")).save("docs", documents("shop/orders~"))
"""
STORE = """
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import documents, sqlite

p = Pipeline("store")
p.source("docs", documents("shop/orders~")).save("db", sqlite("out.db"))
"""
MIRROR = """
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import documents

p = Pipeline("mirror")
p.source("docs", documents("shop/")).save("copy", documents("copy/{namespace}"))
"""

# The adaptor is the real one; only the moment of death is added. It is written down first, so that the next run lives.
DYING = """
import os
import signal
from pathlib import Path

from headwater.adaptors.documents.adaptor import DocumentsAdaptor
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file, sqlite

WHEN = "{when}"


def die(moment):
    if moment == WHEN and not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Dying(DocumentsAdaptor, frozen=True, kw_only=True):
    def begin(self, pipeline, sink, epoch):
        found = super().begin(pipeline, sink, epoch)
        die("after begin")
        return found

    def writer(self, part):
        made = super().writer(part)
        write = made.write

        def written(batch):
            if batch.start >= 500:
                die("before a put")
            write(batch)
            if batch.start >= 500:
                die("after a put")

        made.write = written
        return made

    def read(self, part, position):
        for piece in super().read(part, position):
            die("before a copied piece")
            yield piece
            die("after a copied piece")

    def follow(self, cursor, chosen, stopped):
        for piece in super().follow(cursor, chosen, stopped):
            if piece.messages:
                die("before a followed piece")
            yield piece
            if piece.messages:
                die("after a followed piece")


p = Pipeline("{name}", flush="10ms")
{source}
"""
DYING_SINK = 'p.source("orders", file("orders.jsonl")).save("docs", Dying(path="shop/orders~"), batch=100)'
DYING_SOURCE = 'p.source("docs", Dying(path="shop/orders~")).save("db", sqlite("out.db"))'


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Home:
    made = Home(tmp_path, forked_program)
    made.documents(MANY)
    return made


def run(home: Home, name: str, text: str) -> Any:
    home.write(f"{name}.py", text)
    return home.pipeline("run", f"{name}.py")


def loaded(home: Home) -> None:
    ran = run(home, "load", LOAD)
    assert ran.code == 0, ran.err


def stored(home: Home) -> list[tuple[str, int]]:
    """The ids and quantities of the table."""
    return [(id, qty) for id, qty in home.rows('select id, qty from "shop/orders~" order by _id', "out.db")]


def items(home: Home) -> list[tuple[str, int]]:
    """The ids and quantities of the collection."""
    found = [json.loads(line) for line in home("doc", "query", "shop/orders~", "--sort", "_id", "--json").out.splitlines()]
    return [(one["id"], one["qty"]) for one in found]


def verified(home: Home, name: str, sink: str) -> None:
    ran = home.pipeline("verify", name, sink)
    assert ran.code == 0, ran.out + ran.err


def change(home: Home) -> None:
    """What somebody else does to the collection."""
    assert home("doc", "patch", "shop/orders~/7", '{"qty": 70}').code == 0
    assert home("doc", "delete", "shop/orders~/8").code == 0
    assert home("doc", "put", "shop/orders~/new", '{"_id": 99999, "item": "pen", "price": 2, "qty": 1}').code == 0


def test_a_file_becomes_a_collection_and_a_collection_a_table_that_follows_it(home: Home) -> None:
    home.write("load.py", LOAD)
    assert "documents shop/orders~ at data" in home.pipeline("test", "load.py").out or not home.data.exists()
    loaded(home)
    verified(home, "load", "docs")
    assert items(home) == [(str(number), number % 7) for number in range(MANY)]
    ran = run(home, "store", STORE)
    assert ran.code == 0, ran.err
    assert stored(home) == items(home)
    change(home)
    assert run(home, "store", STORE).code == 0
    assert stored(home) == items(home)
    assert ("7", 70) in stored(home)
    assert len(stored(home)) == MANY
    verified(home, "store", "db")
    assert home("doc", "delete", "shop/orders~", "--yes").code == 0
    assert run(home, "store", STORE).code == 0
    assert stored(home) == []


@pytest.mark.parametrize("when", ["after begin", "before a put", "after a put"])
def test_a_sink_that_is_killed_ends_with_the_same_collection(home: Home, when: str) -> None:
    text = DYING.replace("{when}", when).replace("{name}", "load").replace("{source}", DYING_SINK)
    assert run(home, "load", text).code == KILLED
    ran = run(home, "load", text)
    assert ran.code == 0, ran.err
    assert items(home) == [(str(number), number % 7) for number in range(MANY)]
    verified(home, "load", "docs")


@pytest.mark.parametrize("when", ["before a copied piece", "after a copied piece", "before a followed piece", "after a followed piece"])
def test_a_source_that_is_killed_loses_nothing_and_reads_nothing_twice(home: Home, when: str) -> None:
    loaded(home)
    text = DYING.replace("{when}", when).replace("{name}", "store").replace("{source}", DYING_SOURCE)
    if "followed" in when:
        assert run(home, "store", text).code == 0
        change(home)
    assert run(home, "store", text).code == KILLED
    if "copied" in when:
        change(home)
    ran = run(home, "store", text)
    assert ran.code == 0, ran.err
    assert stored(home) == items(home)
    verified(home, "store", "db")
    with EmbeddedLog(home.data, read_only=True) as log:
        records = log.read("pipeline-store", 0, 0, limit=10 * MANY)
    inserts = Counter(json.loads(one.value)["id"] for one in records if one.value and one.op == Op.INSERT)
    assert max(inserts.values()) == 1
    assert inserts.keys() | {"7", "8"} == {*map(str, range(MANY)), "new"}


def test_everything_below_a_prefix_is_mirrored(home: Home) -> None:
    loaded(home)
    assert home("doc", "put", "shop/eu/settings", '{"open": true}').code == 0
    ran = run(home, "mirror", MIRROR)
    assert ran.code == 0, ran.err
    assert home("doc", "put", "shop/new~/x", '{"n": 1}').code == 0
    assert home("doc", "put", "shop/eu/settings", '{"open": false}').code == 0
    assert run(home, "mirror", MIRROR).code == 0
    for path in ("eu/settings", "new~/x", "orders~/7"):
        assert home("doc", "get", f"copy/shop/{path}").out == home("doc", "get", f"shop/{path}").out
    verified(home, "mirror", "copy")
    circle = run(home, "circle", MIRROR.replace('"mirror"', '"circle"').replace("copy/{", "shop/{"))
    assert circle.code != 0
    assert "which the same pipeline reads" in circle.err


def test_a_refused_document_stops_the_sink_at_its_offset(home: Home) -> None:
    home.documents(20, at14={"_id": "a b"})
    ran = run(home, "load", LOAD)
    assert ran.code == 9, ran.err
    assert "14" in ran.err
    assert "may have" in " ".join((ran.out + ran.err).split())
    assert [id for id, _ in items(home)] == [str(number) for number in range(14)]
    assert home.pipeline("edit", "load", "14", "--set", "_id=14", "--why", "a blank").code == 0
    assert run(home, "load", LOAD).code == 0
    assert [id for id, _ in items(home)] == [str(number) for number in range(20)]


def test_beside_a_server_everything_goes_through_it(home: Home) -> None:
    tokens = home.write("tokens", "reader reader-token-of-32-letters-at-least\nwriter writer-token-of-32-letters-at-least\n")
    tokens.chmod(0o600)
    reader, writer = {"TOKEN": "reader-token-of-32-letters-at-least"}, {"TOKEN": "writer-token-of-32-letters-at-least"}
    with SpawnedServer(home.home / "served", options=("--port", "0", "--token-file", str(tokens))) as server:
        there = f'documents("shop/orders~", address="{server.url}", token="${{TOKEN}}"'
        home.write("load.py", LOAD.replace('documents("shop/orders~"', there))
        home.write("store.py", STORE.replace('documents("shop/orders~"', there))
        refused = home.pipeline("test", "load.py", **reader)
        assert refused.code != 0
        assert "Give a token of the role reader to read, and of writer to write" in " ".join((refused.err + refused.out).split())
        assert home.pipeline("test", "load.py", **writer).code == 0
        ran = home.pipeline("run", "load.py", **writer)
        assert ran.code == 0, ran.err
        ran = home.pipeline("run", "store.py", **reader)
        assert ran.code == 0, ran.err
    assert stored(home) == [(str(number), number % 7) for number in range(MANY)]
