"""Projections as users have them: the commands, over a directory and over a server, and two processes that share one."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from program import Program, Ran
from tests.unit.journal.ground import eventually

BALANCES = """
import sqlite3

import headwater


def connect():
    db = sqlite3.connect("balances.db")
    db.execute("CREATE TABLE IF NOT EXISTS balance (id TEXT PRIMARY KEY, eur INTEGER)")
    return db


def deposit(event, db):
    db.execute("INSERT INTO balance VALUES (?, ?) ON CONFLICT DO UPDATE SET eur = eur + excluded.eur", (event.id, event.payload["eur"]))


def empty(db):
    db.execute("DELETE FROM balance")


projection = headwater.Projection("bank", "balances", deposit, connect=connect, reset=empty, on_error="park")
other = 7
"""


@pytest.fixture
def home(tmp_path: Path) -> Program:
    (tmp_path / "balances.py").write_text(BALANCES)
    program = Program(tmp_path)
    assert program("journal", "create", "bank").code == 0
    return program


def done(home: Program, *words: str) -> Ran:
    ran = home("journal", *words)
    assert ran.code == 0, ran.err
    return ran


def balances(home: Program) -> dict[str, int]:
    if not (home.home / "balances.db").exists():
        return {}
    connection = sqlite3.connect(home.home / "balances.db", timeout=120)
    try:
        return dict(connection.execute("SELECT id, eur FROM balance"))
    except sqlite3.OperationalError:
        return {}
    finally:
        connection.close()


def test_a_projection_from_the_first_event_to_the_dead_list(home: Program) -> None:
    assert "Nobody has run" in done(home, "projection", "list", "bank").err
    done(home, "append", "bank", "alice", '{"eur": 5}', '{"eur": 7}')
    done(home, "append", "bank", "bob", '{"usd": 1}', '{"eur": 2}')
    ran = done(home, "projection", "run", "balances:projection", "--once")
    assert ran.out == "2 events handled, 2 dead events.\n"
    assert balances(home) == {"alice": 12}
    (listed,) = done(home, "projection", "list", "bank", "--json").json
    assert (listed["name"], listed["positions"], listed["lag"], listed["dead"]) == ("balances", "sqlite", 0, 2)
    assert "0 records behind, 2 dead events" in done(home, "projection", "status", "bank", "balances").err
    first, second = done(home, "projection", "dead", "bank", "balances", "list", "--json").json
    assert (first["state"], second["state"], first["error"]) == ("failed", "waits", "KeyError: 'eur'")
    place = [str(first[name]) for name in ("partition", "offset", "number")]
    shown = done(home, "projection", "dead", "bank", "balances", "show", *place, "--json").json
    assert shown["event"]["payload"] == {"usd": 1}
    assert "would be dropped" in done(home, "projection", "dead", "bank", "balances", "drop", *place, "--dry-run").out
    done(home, "projection", "dead", "bank", "balances", "drop", *place, "--yes", "--why", "no euros")
    done(home, "projection", "run", "balances:projection", "--once")
    assert balances(home) == {"alice": 12, "bob": 2}
    assert "would be made anew" in done(home, "projection", "reset", "bank", "balances", "--dry-run").out
    done(home, "projection", "reset", "bank", "balances", "--yes")
    ran = done(home, "projection", "run", "balances:projection", "--once", "--json")
    assert ran.json == {"topic": "journal-bank", "name": "balances", "events": 2, "dead": 2}
    assert balances(home) == {"alice": 12}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "balances"], 5, "names no projection"),
        (["run", "nothing:projection"], 5, "cannot be imported"),
        (["run", "balances:other"], 5, "has no projection other"),
        (["status", "bank", "none"], 3, "has no projection none"),
        (["status", "bnak", "balances"], 3, "bnak"),
        (["status", "bank", "a/b"], 5, "no name of a projection"),
        (["reset", "bank", "none", "--yes"], 3, "has no projection none"),
        (["dead", "bank", "none", "list"], 3, "has no projection none"),
        (["dead", "bank", "balances", "retry"], 2, "Which event?"),
        (["dead", "bank", "balances", "list", "0"], 2, "takes no event"),
    ],
)
def test_what_is_refused(home: Program, words: list[str], code: int, said: str) -> None:
    ran = home("journal", "projection", *words)
    assert (ran.code, said in ran.err) == (code, True), ran.err


def test_two_processes_and_a_server(home: Program) -> None:
    server = home.start("serve", "--port", "0", "--json")
    running = [home.start("journal", "projection", "run", "balances:projection") for _ in range(2)]
    try:
        eventually(lambda: home("journal", "topics", "--json").code == 0)
        for number in range(20):
            done(home, "append", "bank", f"a{number % 5}", '{"eur": 1}')
        eventually(lambda: sum(balances(home).values()) == 20)
        running[0].kill()
        done(home, "append", "bank", "b", '{"eur": 1}')
        eventually(lambda: balances(home).get("b") == 1)
        assert done(home, "projection", "list", "bank", "--json").json[0]["name"] == "balances"
        done(home, "projection", "reset", "bank", "balances", "--yes")

        def remade() -> Any:
            (shown,) = json.loads(home("journal", "projection", "list", "bank", "--json").out)
            return not shown["resets"] and sum(balances(home).values()) == 21

        eventually(remade)
        running[1].send_signal(signal.SIGTERM)
        assert running[1].wait(240) == 0
    finally:
        for process in [server, *running]:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=240)
