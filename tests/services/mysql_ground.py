"""A database of MariaDB for a test of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sql_ground import Ground

from headwater.adaptors.mysql.adaptor import MySQL, mysql
from headwater.adaptors.mysql.connection import MySQLSession, parsed


@dataclass
class MySQLGround(Ground):
    session: MySQLSession

    system: ClassVar[str] = "mysql"
    away: ClassVar[str] = "mysql://u:sesame-42@127.0.0.1:1/db"
    no_uris: ClassVar[tuple[str, ...]] = (
        "postgresql://u:sesame-42@h/db",
        "mysql://u:sesame-42@h:port/db",
        "mysql://u:sesame-42@h/db?colour=red",
    )
    follows: ClassVar[str] = "binary log"
    encrypted: ClassVar[str] = "SELECT 1 FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'SSL_CIPHER' AND VARIABLE_VALUE <> ''"
    typed: ClassVar[str] = """
        id bigint PRIMARY KEY, small tinyint unsigned, big bigint unsigned, num decimal(40, 20), money decimal(12, 2), dbl double,
        flt float, b bit(10), txt text, latin varchar(20) CHARACTER SET latin1, chr char(5),
        at timestamp(6) NULL, plain datetime(3), day date, bin varbinary(20),
        fixed binary(4), blb blob, doc json, e enum('x', 'y'), s set('q', 'p', 'it''s'), t time(3), y year, `odd ``name' \\ %s "q"` text
    """
    typed_rows: ClassVar[tuple[str, ...]] = (
        r"""(1, 255, 18446744073709551615, 12345678901234567890.12345678901234567890, 1.10, 0.1, 0.1, b'1010101010',"""
        r""" 'a "q" \\ \n é 🦆 / \t', 'é', 'ab', '2020-02-03 04:05:06.789012', '2020-02-03 04:05:06.5', '2020-02-03', x'00ff10', x'01',"""
        r""" x'', '{"b": 1.10,\n "a": [1, null, {"x": "\\n"}]}', 'y', 'it''s,q', '-12:34:56.5', 2024, 'odd')""",
        "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL)",
        "(3, 0, 0, 0, 5, 100000, -2.5, b'0', 'x', 'x', 'x', '2020-01-01', '0000-00-00', '0000-00-00', 'text', 'abcd', 'b', '[1]', 'x',"
        " 'p,q', '838:00:01', 1999, '')",
    )
    made: ClassVar[dict[str, str]] = {
        "id": "bigint",
        "n": "double",
        "d": "decimal",
        "at": "datetime",
        "bin": "longblob",
        "doc": "longtext",
        "ok": "tinyint",
        "t": "longtext",
        "uid": "char",
        "late": "longtext",
    }

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.session.do(statement)

    def all(self, question: str) -> list[tuple[Any, ...]]:
        return self.session.ask(question)

    def source(self, *, tail: bool = False) -> MySQL:
        return mysql(self.uri, tail=tail)

    def sink(self, **more: Any) -> MySQL:
        return mysql(self.uri, **more)

    def stranger(self, *rights: str) -> str:
        self.run(f"DROP USER IF EXISTS {self.name}", f"CREATE USER {self.name} IDENTIFIED BY 'sesame-42'")
        for right in ("USAGE", *rights):
            self.run(f"GRANT {right} ON {self.name}.* TO {self.name}")
        return self.uri.replace("headwater:headwater@", f"{self.name}:sesame-42@")

    def trusting(self, authority: Path) -> str:
        return f"{self.uri}?ssl_ca={authority}"

    def types(self, table: str) -> dict[str, str]:
        return dict(
            self.all(
                f"SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{table}' AND table_schema = DATABASE()"
            )
        )

    def differ(self, one: str, other: str) -> bool:
        names = ", ".join(f"`{name.replace('`', '``')}`" for name in self.types(one) if name not in ("doc", "plain", "day"))
        return self.all(f"SELECT {names} FROM {one} ORDER BY id") != self.all(f"SELECT {names} FROM {other} ORDER BY id")

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        with closing(MySQLSession(parsed(self.uri))) as holder:
            holder.do("BEGIN")
            holder.do(statement)
            yield
            holder.do("ROLLBACK")

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        with closing(MySQLSession(parsed(self.uri))) as holder:
            holder.do(f"LOCK TABLES {table} READ")
            yield

    def waiting(self) -> list[int]:
        # Every write under way: one that waits for the right to write to a table is in no list of locks.
        return [
            row[0] for row in self.all(f"SELECT id FROM information_schema.processlist WHERE db = '{self.name}' AND info LIKE 'INSERT%'")
        ]

    def kill(self, connection: int) -> None:
        self.run(f"KILL {connection}")

    def following(self) -> list[int]:
        streams = f"SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' AND db = '{self.name}'"
        return [row[0] for row in self.all(streams)]

    def remembers(self) -> list[tuple[Any, ...]]:
        return self.all("SHOW TABLES LIKE 'headwater%'")

    def rotate(self) -> None:
        self.run("FLUSH BINARY LOGS")

    def to_bytes(self, table: str, column: str) -> list[str]:
        return [f"ALTER TABLE {table} MODIFY {column} varbinary(20)"]

    def small_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headwater.adaptors.mysql.source.PAGE_ROWS", 70)
        monkeypatch.setattr("headwater.adaptors.mysql.source.PIECE", 1000)


@contextmanager
def a_mysql_ground(uri: str) -> Iterator[MySQLGround]:
    name = f"t{uuid.uuid4().hex[:12]}"
    with closing(MySQLSession(parsed(uri))) as session:
        for statement in (f"CREATE DATABASE {name} CHARACTER SET utf8mb4", f"USE {name}", "SET sql_mode = ''"):
            session.do(statement)
        try:
            yield MySQLGround(uri.rpartition("/")[0] + f"/{name}", name, session)
        finally:
            session.do(f"DROP DATABASE {name}")
            session.do(f"DROP USER IF EXISTS {name}")
