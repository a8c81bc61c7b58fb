"""A real PostgreSQL."""

from __future__ import annotations

import uuid
from pathlib import Path

import psycopg
from tools.services import up
from tools.services.postgres import installed
from tools.services.private import PrivateServers


def test_what_was_inserted_is_selected(postgres: str) -> None:
    with psycopg.connect(postgres) as connection:
        name = f"t_{uuid.uuid4().hex}"
        connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)")
        connection.execute(f"INSERT INTO {name} SELECT generate_series(1, 20)")
        assert connection.execute(f"SELECT count(*), max(id) FROM {name}").fetchone() == (20, 20)
        connection.rollback()


def test_changes_can_be_decoded(postgres: str) -> None:
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)


def test_a_second_up_finds_it(postgres: str) -> None:
    running = up("postgres", kept=False)
    assert running.found == {"postgres"}
    assert running.postgres == postgres


def test_a_server_that_was_killed_comes_back_with_its_data(private_servers: PrivateServers) -> None:
    running = private_servers.up("postgres")
    with psycopg.connect(running.postgres) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS id")
    before = running.pid("postgres-1")
    running.kill("postgres-1")
    running.restart("postgres-1")
    assert running.pid("postgres-1") not in (None, before)
    with psycopg.connect(running.postgres) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1000,)


def test_the_newest_of_several_is_taken_and_an_old_one_is_none(tmp_path: Path) -> None:
    for version in ("9", "11"):
        (tmp_path / f"usr/lib/postgresql/{version}/bin").mkdir(parents=True)
        (tmp_path / f"usr/lib/postgresql/{version}/bin/initdb").touch()
    assert installed(tmp_path) is None
    (tmp_path / "usr/lib/postgresql/17/bin").mkdir(parents=True)
    (tmp_path / "usr/lib/postgresql/17/bin/initdb").touch()
    found = installed(tmp_path)
    assert found is not None
    assert found.parent.name == "17"
