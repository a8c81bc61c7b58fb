"""The PostgreSQL adaptor against a real server: what is its own in copying and connecting."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from sql_ground import copied, documents, followed, insert, write

from headwater.adaptors.postgres.adaptor import postgres
from headwater.adaptors.postgres.connection import PostgresSession
from headwater.core.errors import BadConfig, Forbidden, Rejected
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_progress import CopySize


@pytest.fixture
def ground(postgres: str) -> Iterator[PostgresGround]:
    with a_postgres_ground(postgres) as made:
        yield made


def test_partitioned_tables_are_one_namespace(ground: PostgresGround) -> None:
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


def test_the_size_of_a_partitioned_table_is_that_of_its_partitions_and_unknown_before_they_are_analysed(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    ground.run(
        "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (100)", "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (100) TO (200)"
    )
    ground.run("ALTER TABLE t0 SET (autovacuum_enabled = off)", "ALTER TABLE t1 SET (autovacuum_enabled = off)")
    ground.fill("t", (f"({n})" for n in range(150)))
    ground.run("ANALYZE t0")
    assert ground.source().plan(ground.chosen(), 2).size is None
    ground.run("ANALYZE t1")
    assert ground.source().plan(ground.chosen(), 2).size == CopySize(total=150, unit="documents", estimate=True)


def test_types_are_exact(ground: PostgresGround) -> None:
    ground.run(f"CREATE TABLE typed ({ground.typed})")
    ground.fill("typed", ground.typed_rows)
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
    assert repr((second["dbl"], second["flt"])) == "(nan, -inf)"
    assert (second["at"], second["day"], second["plain"]) == ("infinity", "-infinity", "0044-03-15 00:00:00 BC")
    assert third["num"] == 100
    assert third["docb"] == {"a": {"$date": "x"}}


def test_options_in_the_uri_are_kept_and_ours_hold(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, at timestamptz)", "INSERT INTO t VALUES (1, '2020-01-01 00:00:00+00')")
    uri = f"{ground.uri}?application_name=mine&options=-c%20timezone%3DAsia/Tokyo%20-c%20work_mem%3D5MB"
    assert copied(postgres(uri), ground.chosen()) == [{"id": 1, "at": {"$date": "2020-01-01T00:00:00.000Z"}}]
    with PostgresSession(uri).link as link:
        assert link.execute("SELECT current_setting('work_mem'), current_setting('application_name')").fetchone() == ("5MB", "mine")


def test_lists_are_the_same_in_a_copy_and_in_changes(ground: PostgresGround) -> None:
    """The server's own JSON would make objects of composite elements, numbers of a domain's, and no padding of char(n)."""
    ground.run(
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE TABLE t (id int PRIMARY KEY, p pair[], c cents[], o oid[], ch char(5)[], v varchar(9)[], iv interval[], js jsonb[])",
    )
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(
        "INSERT INTO t VALUES (1, ARRAY[ROW(1, 'x')::pair], ARRAY[5]::cents[], ARRAY[7]::oid[], ARRAY['ab'], ARRAY['q ', NULL], "
        "ARRAY['1 day'::interval], ARRAY['{\"n\": 1.10}'::jsonb])"
    )
    [changed] = followed(source, cursor, ground.chosen(), 1)[0]
    expected = {"p": ["(1,x)"], "c": ["5"], "o": ["7"], "ch": ["ab"], "v": ["q ", None], "iv": ["1 day"], "js": [{"n": Decimal("1.10")}]}
    assert changed.data == {"id": 1} | expected
    assert copied(source, ground.chosen()) == [changed.data]
    ground.run("CREATE TABLE u (LIKE t INCLUDING ALL)")
    write(ground.sink(), [Message("u", changed.data, offset=0, id_fields=("id",))])
    assert ground.all("SELECT count(*) FROM t JOIN u ON t::text = u::text") == [(1,)]


def test_addresses_and_lists_of_text_are_the_same_in_a_copy_and_in_changes(ground: PostgresGround) -> None:
    """A cast of inet to text always has the mask; PostgreSQL's own text, which changes have, only where it says something."""
    ground.run(
        "CREATE DOMAIN host AS inet",
        "CREATE TABLE t (id inet PRIMARY KEY, net cidr, dom host, ins inet[], nets cidr[], "
        "b bytea[], tz timestamptz[], uids uuid[], d date[])",
    )
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    uid = "00000000-0000-0000-0000-000000000001"
    ground.run(
        f"INSERT INTO t VALUES ('10.0.0.1', '10.0.0.0/8', '::1', '{{{{10.0.0.1,NULL}},{{10.0.0.2/24,::1/128}}}}', '{{10.0.0.1}}', "
        f"ARRAY['\\x00ff'::bytea], ARRAY['2020-01-01 01:00+02'::timestamptz], ARRAY['{uid}'::uuid], ARRAY['2020-01-01'::date])"
    )
    [changed] = followed(source, cursor, ground.chosen(), 1)[0]
    assert changed.data == {
        "id": "10.0.0.1",
        "net": "10.0.0.0/8",
        "dom": "::1",
        "ins": [["10.0.0.1", None], ["10.0.0.2/24", "::1"]],
        "nets": ["10.0.0.1/32"],
        "b": ["\\x00ff"],
        "tz": ["2019-12-31 23:00:00+00"],
        "uids": [uid],
        "d": ["2020-01-01"],
    }
    assert copied(source, ground.chosen()) == [changed.data]
    ground.run("CREATE TABLE u (LIKE t INCLUDING ALL)")
    write(ground.sink(), [Message("u", changed.data, offset=0, id_fields=("id",))])
    assert ground.all("SELECT count(*) FROM t JOIN u ON t::text = u::text") == [(1,)]


def test_text_is_whole_in_a_database_of_another_encoding(ground: PostgresGround) -> None:
    name = f"latin_{ground.name}"
    ground.run(f"CREATE DATABASE {name} ENCODING LATIN1 TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    uri = ground.uri.rpartition("/")[0] + f"/{name}"
    try:
        with psycopg.connect(uri, autocommit=True, client_encoding="UTF8") as link:
            link.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'é')")
        assert copied(postgres(uri), Namespaces()) == [{"id": 1, "v": "é"}]
        with pytest.raises(Rejected) as refused:
            write(postgres(uri), [insert(5, id=2, v="ü"), insert(6, id=3, v="日本")], start=5)
        assert refused.value.offset == 6
        assert copied(postgres(uri), Namespaces("^public.t$"))[1:] == [{"id": 2, "v": "ü"}]
    finally:
        ground.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_rows_without_a_key_are_read_table_by_table_where_tables_inherit(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.small_pieces(monkeypatch)
    ground.run("CREATE TABLE t (v int)", "CREATE TABLE heir (w int) INHERITS (t)")
    ground.run("INSERT INTO t SELECT generate_series(1, 300)", "INSERT INTO heir SELECT generate_series(301, 600)")
    source = ground.source()
    found: list[int] = []
    for part in source.plan(ground.chosen("t"), 1).slices:
        first = next(source.read(part, None))
        found += [one["v"] for one in documents(iter([first]))]
        found += [one["v"] for one in documents(source.read(part, first.position))]
    assert sorted(found) == list(range(1, 601))
    ground.run("ALTER TABLE t ADD PRIMARY KEY (v)")
    with pytest.raises(BadConfig, match="inherit"):
        ground.source(tail=True).plan(ground.chosen("t"), 1)


def test_rows_that_a_policy_hides_are_no_silent_gap(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    ground.run("CREATE POLICY few ON t USING (id < 2)")
    with pytest.raises(Forbidden, match="row-level security policy"):
        copied(postgres(ground.stranger("SELECT")), ground.chosen())


def test_a_database_in_which_a_backslash_escapes_gives_the_same_documents(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, f double precision[], n numeric[], t text)")
    ground.run(r"INSERT INTO t VALUES (1, '{1.5,2}', '{1.50,2}', 'a\b')")
    source = postgres(f"{ground.uri}?options=-c%20standard_conforming_strings%3Doff")
    assert copied(source, ground.chosen()) == copied(ground.source(), ground.chosen()) != []


def test_an_unlogged_table_is_copied_and_not_followed(ground: PostgresGround) -> None:
    ground.run("CREATE UNLOGGED TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    ground.run(f"CREATE PUBLICATION {ground.name} FOR ALL TABLES")
    with pytest.raises(BadConfig, match="unlogged"):
        ground.source(tail=True).plan(ground.chosen(), 1)
    assert copied(ground.source(), ground.chosen()) == [{"id": 1}]
