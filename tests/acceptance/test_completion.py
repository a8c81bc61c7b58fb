"""What a Tab offers, through the program as a shell asks it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from forked_program import ForkedProgram
from tests.stopped_shop import fill_stopped_shop

import headwater
from headwater.server.spawned import SpawnedServer

Offered = Callable[..., list[str]]


@pytest.fixture
def offered(forked_program: ForkedProgram) -> Offered:
    def offered(home: Path, *words: str) -> list[str]:
        asked = {
            "_HEADWATER_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(["headwater", *words]),
            "COMP_CWORD": str(len(words)),
            "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
        }
        return forked_program(home=home, env={**os.environ, **asked}).out.split()

    return offered


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with headwater.open_blocking(tmp_path / "data", create=True) as hw:
        for topic in ("bank", "bonds", "orders"):
            hw.log.create_topic(topic)
    return tmp_path


def test_topics_verbs_and_adaptors(home: Path, offered: Offered) -> None:
    assert offered(home, "log", "show", "b") == ["bank", "bonds"]
    assert offered(home, "log", "show", "--data", "nowhere", "b") == []
    assert offered(home, "pipeline", "offset", "shop", "") == ["list", "show", "mark", "delete"]
    assert offered(home, "pipeline", "about", "sq") == ["sqlite"]


def test_pipelines_and_their_sinks(tmp_path: Path, offered: Offered) -> None:
    fill_stopped_shop(tmp_path / "data")
    assert offered(tmp_path, "pipeline", "status", "") == ["shop"]
    assert offered(tmp_path, "pipeline", "status", "x") == []
    assert offered(tmp_path, "pipeline", "step", "shop", "") == ["archive", "report"]
    assert offered(tmp_path, "pipeline", "offset", "shop", "show", "r") == ["report"]
    assert offered(tmp_path, "pipeline", "dead", "shop", "show", "5", "--sink", "a") == ["archive"]
    assert offered(tmp_path, "pipeline", "ack", "nothing", "") == []


def test_regions_and_their_tables(home: Path, offered: Offered) -> None:
    with headwater.open_blocking(home / "data") as hw:
        for number in (7, 12):
            hw.wal("wal").create(number)
        hw.wal("manifest").create(7)
        hw.wal("wal")[7].write(31, [b"x"])
    assert offered(home, "wal", "tables", "wal/") == ["wal/12", "wal/7"]
    assert offered(home, "wal", "why", "m") == ["manifest/7"]
    assert offered(home, "wal", "read", "7", "") == ["31"]
    assert offered(home, "wal", "read", "x", "") == []


def test_a_tab_shows_no_error_and_makes_nothing(tmp_path: Path, offered: Offered) -> None:
    assert offered(tmp_path, "log", "show", "") == []
    assert offered(tmp_path, "pipeline", "step", "shop", "") == []
    assert list(tmp_path.iterdir()) == []


def test_queues_and_the_keys_of_their_rows(home: Path, offered: Offered) -> None:
    with headwater.open_blocking(home / "data") as hw:
        hw.queue("orders", create=True)
        for key in ("/about", "/news"):
            hw.queue("pages", create=True).put(key)
    assert offered(home, "queue", "rows", "") == ["orders", "pages"]
    assert offered(home, "queue", "dead", "pages", "") == ["list", "show", "retry", "drop"]
    with SpawnedServer(home / "data"):  # without one, a look at rows would own the queue
        assert offered(home, "queue", "get", "pages", "/n") == ["/news"]


def test_journals_and_their_projections(home: Path, offered: Offered) -> None:
    with headwater.open_blocking(home / "data") as hw:
        for journal in ("alice", "bob"):
            hw.journals("bank", create=True)[journal].append({"type": "opened"})
    assert offered(home, "journal", "append", "b") == ["bank"]
    assert offered(home, "journal", "append", "journal-") == ["journal-bank"]
    assert offered(home, "journal", "read", "bank", "a") == ["alice"]
    assert offered(home, "journal", "projection", "status", "bank", "") == []


def test_documents_items_indexes_and_views(home: Path, offered: Offered) -> None:
    with headwater.open_blocking(home / "data") as hw:
        hw.documents["shop/settings"].put({"open": True})
        shop = hw.documents["shop/catalogue~"]
        shop.put("hat", {"price": 12})
        shop.indexes.create("by-price", sort="price:decimal")
        hw.documents.views.put("cheap~", "shop/{*}", filter="price < 10")
    assert offered(home, "doc", "get", "shop/") == ["shop/catalogue~", "shop/settings"]
    assert offered(home, "doc", "get", "shop/catalogue~/h") == ["shop/catalogue~/hat"]
    assert offered(home, "doc", "list", "shop/s") == ["shop/settings"]
    assert offered(home, "doc", "index", "show", "shop/catalogue~", "") == ["by-price"]
    assert offered(home, "doc", "view", "show", "") == ["cheap~"]
