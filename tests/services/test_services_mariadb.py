"""A real MariaDB."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pymysql
from tools.services import up
from tools.services.private import PrivateServers


def connect(uri: str) -> Any:
    parts = urlsplit(uri)
    return closing(
        pymysql.connect(
            host=parts.hostname, port=parts.port or 3306, user=parts.username, password=parts.password or "", database=parts.path[1:]
        )
    )


def asked(uri: str, question: str) -> Any:
    with connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchone()


def test_what_was_inserted_is_selected(mariadb: str) -> None:
    name = f"t_{uuid.uuid4().hex}"
    with connect(mariadb) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE {name} (id int PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {name} VALUES (1), (20)")
        cursor.execute(f"SELECT count(*), max(id) FROM {name}")
        assert cursor.fetchone() == (2, 20)


def test_changes_of_rows_are_logged(mariadb: str) -> None:
    assert asked(mariadb, "SELECT @@log_bin, @@binlog_format, @@binlog_row_image") == (1, "ROW", "FULL")


def test_a_second_up_finds_it(mariadb: str) -> None:
    running = up("mariadb", kept=False)
    assert running.found == {"mariadb"}
    assert running.mariadb == mariadb


def test_a_server_that_was_killed_comes_back_with_its_data(private_servers: PrivateServers) -> None:
    running = private_servers.up("mariadb")
    with connect(running.mariadb) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (id int PRIMARY KEY)")
        cursor.executemany("INSERT INTO kept VALUES (%s)", [(number,) for number in range(1000)])
        connection.commit()
    running.kill("mariadb-1")
    running.restart("mariadb-1")
    assert asked(running.mariadb, "SELECT count(*) FROM kept") == (1000,)
