"""The MySQL adaptor against a real MariaDB: what is its own in writing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mysql_ground import MySQLGround, a_mysql_ground
from sql_ground import insert, write

from headwater.core.errors import BadConfig, Rejected


@pytest.fixture
def ground(mariadb: str) -> Iterator[MySQLGround]:
    with a_mysql_ground(mariadb) as made:
        yield made


def test_a_second_unique_index_never_replaces_another_document(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, mail varchar(20) UNIQUE, n int DEFAULT 7)")
    sink = ground.sink()
    write(sink, [insert(0, id=1, mail="a", n=1), insert(1, id=2, mail="b"), insert(2, id=1, mail="c")])
    with pytest.raises(Rejected, match="Duplicate") as refused:
        write(sink, [insert(3, id=3, mail="d"), insert(4, id=4, mail="b")], 3)
    assert refused.value.offset == 4
    assert ground.all("SELECT * FROM t ORDER BY id") == [(1, "c", 7), (2, "b", 7), (3, "d", 7)]


def test_an_engine_without_transactions_is_refused(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY) ENGINE=MyISAM")
    with pytest.raises(BadConfig, match="transactions"):
        write(ground.sink(), [insert(0, id=1)])
