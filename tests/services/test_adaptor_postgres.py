"""The PostgreSQL adaptor against a real server: copying tables, types, connecting."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import msgspec
import pytest
from postgres_ground import Ground, a_ground, copied, documents, followed, write

from headwater.core.errors import (
    BadConfig,
    Denied,
    Differs,
    NotFound,
    Unreachable,
)
from headwater.pipeline import values
from headwater.pipeline.adaptor import Slice
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.postgres.adaptor import postgres
from headwater.pipeline.systems.postgres.link import connect


@pytest.fixture
def ground(postgres: str) -> Iterator[Ground]:
    with a_ground(postgres) as made:
        yield made


def test_slices_by_key_hold_every_row_once_in_order(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY, note text)",
        "INSERT INTO orders SELECT i * 7, 'n' || i FROM generate_series(1, 5000) i",
    )
    source = ground.source()
    plan = source.plan(ground.chosen(), 4)
    assert len(plan.slices) == 4
    assert plan.ids == {f"{ground.name}.orders": ("id",)}
    parts = [[one["id"] for one in documents(source.read(part, None))] for part in plan.slices]
    assert [one for part in parts for one in part] == [i * 7 for i in range(1, 5001)]
    assert all(len(part) > 500 for part in parts)
    assert source.same(plan, ground.chosen())


def test_a_slice_goes_on_behind_its_position(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.systems.postgres.copy.PIECE", 3000)
    ground.run(
        "CREATE TABLE t (a text, b int, v text, PRIMARY KEY (b, a))",
        "INSERT INTO t SELECT i::text, i % 10, repeat('x', 20) FROM generate_series(1, 1000) i",
    )
    source = ground.source()
    for part in source.plan(ground.chosen(), 2).slices:
        part = msgspec.json.decode(msgspec.json.encode(part), type=Slice)
        pieces = list(source.read(part, None))
        assert len(pieces) > 3
        whole = documents(iter(pieces))
        for at in (0, 2):
            position = msgspec.json.decode(msgspec.json.encode(pieces[at].position))
            rest = documents(source.read(part, position))
            assert documents(iter(pieces[: at + 1])) + rest == whole


def test_a_table_without_a_key_is_one_slice_and_resumes_too(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.systems.postgres.copy.PIECE", 1000)
    ground.run("CREATE TABLE t (v text)", "INSERT INTO t SELECT '(' || i || ',1)' FROM generate_series(1, 2000) i")
    source = ground.source()
    plan = source.plan(ground.chosen(), 4)
    assert len(plan.slices) == 1
    assert plan.ids == {}
    pieces = list(source.read(plan.slices[0], None))
    assert [one["v"] for one in documents(iter(pieces))] == [f"({i},1)" for i in range(1, 2001)]
    assert documents(iter(pieces[:3])) + documents(source.read(plan.slices[0], pieces[2].position)) == documents(iter(pieces))


def test_partitioned_tables_are_one_namespace(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE p (id int, v int) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (50) TO (100)",
        "INSERT INTO p SELECT i, i FROM generate_series(0, 99) i",
    )
    source = ground.source()
    plan = source.plan(ground.chosen(), 2)
    assert {part.namespace for part in plan.slices} == {f"{ground.name}.p"}
    assert sorted(one["id"] for part in plan.slices for one in documents(source.read(part, None))) == list(range(100))


def test_a_table_that_changed_under_the_plan_is_noticed(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = ground.source()
    plan = source.plan(ground.chosen(), 1)
    ground.run("DROP TABLE t")
    assert not source.same(plan, ground.chosen())
    with pytest.raises(Differs):
        list(source.read(plan.slices[0], None))


TYPES = """
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE DOMAIN cents AS bigint;
CREATE TABLE typed (
    id bigint PRIMARY KEY, small smallint, big bigint, num numeric, money numeric(12, 2), dbl double precision, flt real, ok boolean,
    txt text, chr char(5), at timestamptz, plain timestamp, day date, bin bytea, uid uuid, doc json, docb jsonb, ints int[], texts text[],
    grid int[][], days date[], m mood, c cents, t time, span interval, "odd ""name'\\ %" text
);
INSERT INTO typed VALUES
    (1, -3, 9223372036854775807, 12345678901234567890.123456789012345678901234567890, 1.10, 0.1, 0.1, true,
     E'a "q" \\\\ \\n \\u00e9 🦆', 'ab', '2020-02-03 04:05:06.789012+02', '2020-02-03 04:05:06.5', '2020-02-03', '\\x00ff10',
     '00000000-0000-0000-0000-000000000001',
     E'{"b": 1.10,\\n "a": [1, null, {"x": "\\\\n"}]}', '{"n": 12345678901234567890, "s": null}', '{1,NULL,3}',
     '{"a b","c,d","q\\"",NULL,"NULL",""}',
     '{{1,2},{3,4}}', '{2020-01-01}', 'glad', 5, '12:34:56.5', '1 day 02:00', 'odd'),
    (2, NULL, NULL, 'NaN', NULL, 'NaN', '-Infinity', false, '', '', 'infinity', '0044-03-15 BC', '-infinity',
     '', NULL, 'null', '"text"', '{}', '{}',
     NULL, '{}', NULL, NULL, NULL, NULL, NULL),
    (3, 1, 1, 100, 5, 100000, 1e20, NULL, NULL, NULL, '2020-01-01', NULL, NULL, NULL, NULL, NULL,
     '{"a": {"$date": "x"}}', NULL, NULL, NULL, NULL, 'sad', NULL, NULL,
     NULL, NULL);
"""


def test_types_are_exact(ground: Ground) -> None:
    ground.run(TYPES)
    first, second, third = copied(ground.source(), ground.chosen())
    assert first == {
        "id": 1,
        "small": -3,
        "big": 9223372036854775807,
        "num": Decimal("12345678901234567890.123456789012345678901234567890"),
        "money": Decimal("1.10"),
        "dbl": 0.1,
        "flt": 0.1,
        "ok": True,
        "txt": 'a "q" \\ \n é 🦆',
        "chr": "ab",
        "at": {"$date": "2020-02-03T02:05:06.789012Z"},
        "plain": {"$date": "2020-02-03T04:05:06.500Z"},
        "day": {"$date": "2020-02-03T00:00:00.000Z"},
        "bin": {"$binary": {"base64": "AP8Q", "subType": "00"}},
        "uid": {"$uuid": "00000000-0000-0000-0000-000000000001"},
        "doc": {"b": Decimal("1.10"), "a": [1, None, {"x": "\n"}]},
        "docb": {"n": 12345678901234567890, "s": None},
        "ints": [1, None, 3],
        "texts": ["a b", "c,d", 'q"', None, "NULL", ""],
        "grid": [[1, 2], [3, 4]],
        "days": ["2020-01-01"],
        "m": "glad",
        "c": 5,
        "t": "12:34:56.5",
        "span": "1 day 02:00:00",
        "odd \"name'\\ %": "odd",
    }
    assert second["num"] == {"$numberDecimal": "NaN"}
    assert (second["dbl"], second["flt"]) == ({"$numberDouble": "NaN"}, {"$numberDouble": "-Infinity"})
    assert (second["at"], second["day"], second["plain"]) == ("infinity", "-infinity", "0044-03-15 00:00:00 BC")
    assert third["num"] == 100
    assert third["docb"] == {"a": {"$date": "x"}}


def test_copied_and_followed_values_are_the_same_and_come_back_the_same(ground: Ground) -> None:
    ground.run(TYPES.partition("INSERT")[0])
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT" + TYPES.partition("INSERT")[2])
    there = documents(source.read(source.plan(ground.chosen(), 1).slices[0], None))
    changes, _ = followed(source, cursor, ground.chosen(), 3)
    assert [one.data for one in changes] == there
    assert [values.canonical(one.id) for one in changes] == [b"1", b"2", b"3"]
    # And into a table of the same columns, from where they are read back.
    ground.run("CREATE TABLE back (LIKE typed INCLUDING ALL)")
    sink = ground.sink()
    write(sink, [Message("back", one, offset=number, id_fields=("id",)) for number, one in enumerate(there)])
    assert list(sink.rows("back")) == [sink.stored(one) for one in there]
    assert copied(ground.source(), ground.chosen("back")) == there
    assert ground.all("SELECT count(*) FROM typed x JOIN back y USING (id) WHERE to_jsonb(x) - 'doc' = to_jsonb(y) - 'doc'") == [(3,)]


def test_check_says_what_is_there(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    lines = ground.source(tail=True).check("source", ground.chosen())
    assert any(f"{ground.name}.t" in line for line in lines)
    assert any("will be made" in line for line in lines)
    assert any("exactly once" in line for line in ground.sink().check("sink", ground.chosen()))
    assert ground.all("SELECT to_regclass('headwater_committed')") == [(None,)]
    with pytest.raises(NotFound):
        ground.source().check("source", ground.chosen("none"))


def test_options_in_the_uri_are_kept_and_ours_hold(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, at timestamptz)", "INSERT INTO t VALUES (1, '2020-01-01 00:00:00+00')")
    uri = f"{ground.uri}?application_name=mine&options=-c%20timezone%3DAsia/Tokyo%20-c%20work_mem%3D5MB"
    assert copied(postgres(uri), ground.chosen()) == [{"id": 1, "at": {"$date": "2020-01-01T00:00:00.000Z"}}]
    with connect(uri) as link:
        assert link.execute("SELECT current_setting('work_mem'), current_setting('application_name')").fetchone() == ("5MB", "mine")


def test_errors_never_show_the_password(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ground.uri.replace("headwater:headwater@", "headwater:sesame-42@")
    monkeypatch.setenv("HEADWATER_TEST_PG", wrong)
    sink = postgres("${HEADWATER_TEST_PG}")
    with pytest.raises(Denied) as denied:
        sink.check("source", Namespaces())
    assert "sesame" not in repr(denied.value) + str(denied.value.__cause__) + str(sink)
    with pytest.raises(Unreachable) as away:
        postgres("postgresql://u:sesame-42@127.0.0.1:1/db").check("source", Namespaces())
    assert "127.0.0.1:1/db" in str(away.value)
    assert "sesame" not in str(away.value)
    with pytest.raises(BadConfig) as odd:
        postgres("postgres//u:sesame-42@h").check("source", Namespaces())
    assert "sesame" not in str(odd.value)
