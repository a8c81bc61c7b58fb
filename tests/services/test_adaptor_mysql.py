"""The MySQL adaptor against a real MariaDB: what is its own in copying and following changes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
from mysql_ground import MySQLGround, a_mysql_ground
from sql_ground import copied, documents, followed

from headwater.core.errors import OffsetGone


@pytest.fixture
def ground(mariadb: str) -> Iterator[MySQLGround]:
    with a_mysql_ground(mariadb) as made:
        yield made


def test_a_key_that_does_not_sort_as_it_compares_is_one_slice_and_resumes_too(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (e enum('b', 'a') PRIMARY KEY, v text)", "INSERT INTO t VALUES ('a', '1'), ('b', '2')")
    source = ground.source()
    plan = source.plan(ground.chosen(), 4)
    assert len(plan.slices) == 1
    pieces = list(source.read(plan.slices[0], None))
    whole = documents(iter(pieces))
    assert sorted(one["v"] for one in whole) == ["1", "2"]
    assert documents(iter(pieces[:1])) + documents(source.read(plan.slices[0], pieces[0].position)) == whole


def test_types_are_exact(ground: MySQLGround) -> None:
    ground.run(f"CREATE TABLE typed ({ground.typed})")
    ground.fill("typed", ground.typed_rows)
    first, second, third = copied(ground.source(), ground.chosen())
    assert first == {
        "id": 1,
        "small": 255,
        "big": 18446744073709551615,
        "num": Decimal("12345678901234567890.12345678901234567890"),
        "money": Decimal("1.10"),
        "dbl": 0.1,
        "flt": 0.10000000149011612,
        "b": 682,
        "txt": 'a "q" \\ \n é 🦆 / \t',
        "latin": "é",
        "chr": "ab",
        "at": {"$date": "2020-02-03T04:05:06.789012Z"},
        "plain": {"$date": "2020-02-03T04:05:06.500Z"},
        "day": {"$date": "2020-02-03T00:00:00.000Z"},
        "bin": {"$binary": {"base64": "AP8Q", "subType": "00"}},
        "fixed": {"$binary": {"base64": "AQAAAA==", "subType": "00"}},
        "blb": {"$binary": {"base64": "", "subType": "00"}},
        "doc": {"b": Decimal("1.10"), "a": [1, None, {"x": "\n"}]},
        "e": "y",
        "s": "q,it's",
        "t": "-12:34:56.500",
        "y": 2024,
        'odd `name\' \\ %s "q"': "odd",
    }
    assert {name for name, value in second.items() if value is not None} == {"id", "txt", "latin", "chr", "s"}
    assert (third["day"], third["plain"], third["dbl"], third["t"]) == (None, None, 100000, "838:00:01.000")


def test_a_position_that_is_gone_is_an_error(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    for change in ({"file": "binlog.999999"}, {"server": "another"}):
        with pytest.raises(OffsetGone):
            list(source.follow(cursor | change, ground.chosen(), lambda: False))


def test_a_table_that_is_made_later_is_followed_too(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE a (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (2)")
    found, _ = followed(source, cursor, ground.chosen(), 1)
    assert [(one.namespace, one.data) for one in found] == [(f"{ground.name}.b", {"id": 2})]
