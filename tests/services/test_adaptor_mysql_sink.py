"""The MySQL adaptor against a real MariaDB: what is its own in writing."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pymysql
import pytest
from mysql_ground import MySQLGround, a_mysql_ground
from sql_ground import insert, part, write

from headwater.core.errors import BadConfig, NotFound, Rejected
from headwater.pipeline.message import Message


@pytest.fixture
def ground(mariadb: str) -> Iterator[MySQLGround]:
    with a_mysql_ground(mariadb) as made:
        yield made


def test_a_second_unique_index_never_replaces_another_document(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, mail varchar(20) UNIQUE, n int DEFAULT 7, data blob)")
    sink = ground.sink()
    data = {"$binary": {"base64": "/wCA", "subType": "00"}}
    write(sink, [insert(0, id=1, mail="a", n=1), insert(1, id=2, mail="b"), insert(2, id=1, mail="c", data=data)])
    with pytest.raises(Rejected, match="Duplicate") as refused:
        write(sink, [insert(3, id=3, mail="d"), insert(4, id=4, mail="b")], 3)
    assert refused.value.offset == 4
    assert ground.all("SELECT * FROM t ORDER BY id") == [(1, "c", 7, b"\xff\x00\x80"), (2, "b", 7, None), (3, "d", 7, None)]


def test_an_engine_without_transactions_is_refused(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY) ENGINE=MyISAM")
    with pytest.raises(BadConfig, match="transactions"):
        write(ground.sink(), [insert(0, id=1)])


@pytest.mark.parametrize("value", [2.5, Decimal("0.10"), {"$numberDecimal": "1E-3"}])
def test_a_fraction_is_not_rounded_into_a_column_of_whole_numbers(ground: MySQLGround, value: Any) -> None:
    """The server would round it, and say nothing, however strict it is."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    rows = [insert(0, id=1, v=3.0), insert(1, id=2, v=Decimal("4.00")), insert(2, id=3, v=value)]
    with pytest.raises(Rejected, match="whole numbers") as refused:
        write(ground.sink(), rows)
    assert refused.value.offset == 2
    assert ground.all("SELECT * FROM t ORDER BY id") == [(1, 3), (2, 4)]


def test_a_number_with_more_digits_than_the_server_counts_is_not_cut(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(100), d double)")
    large = Decimal("1E+90")
    write(ground.sink(), [insert(0, id=1, v=large, d=large)])
    assert ground.all("SELECT v, d FROM t") == [("1E+90", 1e90)]
    with pytest.raises(Rejected) as refused:
        write(ground.sink(), [insert(1, id=2, d=Decimal("1E+400"))], 1)
    assert refused.value.offset == 1


def test_rows_together_larger_than_the_server_takes_are_sent_apart(ground: MySQLGround) -> None:
    """Characters of four bytes: sixteen megabytes that are four million characters."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v longtext)")
    write(ground.sink(), [insert(n, id=n, v="🦆" * (1 << 20)) for n in range(5)])
    assert ground.all("SELECT count(*), sum(length(v)) FROM t") == [(5, 5 << 22)]


@pytest.mark.parametrize("more", ["", ", w int UNIQUE"])
def test_a_row_larger_than_the_server_takes_is_refused_with_the_setting_to_raise(ground: MySQLGround, more: str) -> None:
    """The server would hang up, which looks like a server that is not there: the sink would wait for it for ever."""
    ground.run(f"CREATE TABLE t (id int PRIMARY KEY, v longtext{more})")
    rows = [insert(0, id=1, v="a"), insert(1, id=2, v="x" * (17 << 20)), insert(2, id=3, v="b")]
    with pytest.raises(Rejected, match="max_allowed_packet") as refused:
        write(ground.sink(), rows)
    assert (refused.value.offset, refused.value.before_taken) == (1, True)
    assert "max_allowed_packet" in refused.value.hint
    assert ground.all("SELECT id FROM t") == [(1,)]


def test_ids_that_differ_by_case_or_blanks_are_rows_of_their_own_in_a_table_that_is_made(ground: MySQLGround) -> None:
    ids = ["aB", "Ab", "x", "x ", "é", "e"]
    write(ground.sink(create=True), [Message("t", {"_id": one}, offset=number) for number, one in enumerate(ids)])
    assert sorted(row[0] for row in ground.all("SELECT _id FROM t")) == sorted(ids)


def test_a_writer_that_hangs_keeps_its_locks_no_longer_than_its_time(ground: MySQLGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.adaptors.mysql.sink.LEFT_ALONE", 0)
    sink = ground.sink()
    sink.begin("p", "s", 1)
    writer = sink.writer(part(epoch=1, timeout=0.2))
    with pytest.raises(pymysql.MySQLError), writer._session.transaction():  # type: ignore[attr-defined]
        writer._state.shared(1)  # type: ignore[attr-defined]
        sink.begin("p", "s", 2)  # would wait for as long as the server waits for a lock, again and again
    writer.close()
    assert ground.all("SELECT epoch FROM headwater_epoch") == [(2,)]


@pytest.mark.parametrize("number", ["12.7", 12.7, Decimal("1.5e-1"), "-0.5", {"$numberDecimal": "12.70"}])
def test_no_fraction_is_rounded_away_without_a_word(ground: MySQLGround, number: Any) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    with pytest.raises(Rejected, match="whole numbers only") as refused:
        write(ground.sink(), [insert(3, id=1, n="12"), insert(4, id=2, n=number)], 3)
    assert refused.value.offset == 4
    assert ground.all("SELECT * FROM t") == [(1, 12)]


def test_create_makes_tables_and_no_database(ground: MySQLGround) -> None:
    """A file `orders.v1.jsonl` has the namespace `orders.v1`."""
    missing = f"{ground.name}_orders"
    with pytest.raises(NotFound, match=f"has no database {missing}") as refused:
        write(ground.sink(create=True), [Message(f"{missing}.v1", {"_id": 1}, offset=0)])
    assert f'remap({{"{missing}.v1"' in refused.value.hint
    assert ground.all(f"SHOW DATABASES LIKE '{missing}'") == []


def test_a_value_that_means_something_else_in_its_column_is_refused(ground: MySQLGround) -> None:
    """A number counts as the place of a name in an enum, 24 as a year gets a century, and true is the text '1'."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY, e enum('a','b'), s set('a','b'), y year, v text, f double(10,2))")
    for offset, (name, value) in enumerate({"e": 1, "s": "3", "y": 24, "v": True, "f": 1.234}.items()):
        with pytest.raises(Rejected, match=f"The column {name} of .* would change the value") as refused:
            write(ground.sink(), [insert(offset, id=offset, **{name: value})], offset)
        assert refused.value.offset == offset
    write(ground.sink(), [insert(5, id=5, e="b", s="a,b", y=2024, v="true", f=1.23)], 5)
    assert ground.all("SELECT * FROM t") == [(5, "b", "a,b", 2024, "true", 1.23)]


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        *(("date", one) for one in (Decimal("0.1"), "10.0.0.5/8", "24-02-29", True)),
        *(("datetime(3)", one) for one in (0.1, "10.0.0.5/8")),
        *(("time", one) for one in (101, Decimal("1.005"), "1.005", "2024-02-29 10:11:12")),
        ("year", True),
        *((kind, 1) for kind in ("uuid", "inet6", "point")),
    ],
)
def test_a_value_that_is_none_of_its_column_is_refused_and_no_outage(ground: MySQLGround, declared: str, value: object) -> None:
    ground.run(f"CREATE TABLE t (id int PRIMARY KEY, c {declared} NULL)")
    with pytest.raises(Rejected):
        write(ground.sink(), [insert(0, id=1, c=value)])
    assert ground.all("SELECT id FROM t") == []
