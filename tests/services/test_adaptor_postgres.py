"""The PostgreSQL adaptor against a real server."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pytest

from headwater.core.errors import (
    BadConfig,
    Denied,
    Differs,
    Fenced,
    NotFound,
    OffsetGone,
    Rejected,
    Timeout,
    Unavailable,
    Unreachable,
)
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, Part, Piece, Slice
from headwater.pipeline.adaptors.postgres import Postgres, postgres
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces


@dataclass
class Ground:
    """A schema of the test's own, with a slot and a publication of the same name."""

    uri: str
    name: str
    link: psycopg.Connection[tuple[Any, ...]]

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.link.execute(statement)

    def all(self, question: str) -> list[tuple[Any, ...]]:
        return self.link.execute(question).fetchall()

    def source(self, *, tail: bool = False) -> Postgres:
        return postgres(self.uri, tail=tail, slot=self.name, publication=self.name)

    def sink(self, **more: Any) -> Postgres:
        return postgres(self.uri, schema=self.name, state_schema=self.name, **more)

    def chosen(self, table: str = ".*") -> Namespaces:
        return Namespaces(rf"^{self.name}\.{table}$")


@pytest.fixture
def ground(postgres: str) -> Iterator[Ground]:
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as link:
        link.execute(f"CREATE SCHEMA {name}; SET search_path TO {name}; SET client_min_messages TO warning")
        try:
            yield Ground(postgres, name, link)
        finally:
            link.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active", (name,)
            )
            link.execute(f"DROP PUBLICATION IF EXISTS {name}")
            link.execute(f"DROP SCHEMA {name} CASCADE")


def documents(pieces: Iterator[Piece]) -> list[dict[str, Any]]:
    return [values.decode(value) for piece in pieces for value in piece.values]


def copied(source: Postgres, chosen: Namespaces, slices: int = 1) -> list[dict[str, Any]]:
    return [one for part in source.plan(chosen, slices).slices for one in documents(source.read(part, None))]


# -- copy -------------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr("headwater.pipeline.adaptors.postgres_copy.PIECE", 3000)
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
    monkeypatch.setattr("headwater.pipeline.adaptors.postgres_copy.PIECE", 1000)
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
    assert list(sink.rows("back")) == there
    assert ground.all("SELECT count(*) FROM typed x JOIN back y USING (id) WHERE to_jsonb(x) - 'doc' = to_jsonb(y) - 'doc'") == [(3,)]


# -- changes ----------------------------------------------------------------------------------------------------


def followed(source: Postgres, cursor: Any, chosen: Namespaces, count: int) -> tuple[list[Message], Any]:
    """At least `count` changes, and the cursor behind them. All of it was asked for again, so the source may have let go of it."""
    out: list[Message] = []
    for empty, piece in enumerate(source.follow(cursor, chosen, lambda: False)):
        cursor = msgspec.json.decode(msgspec.json.encode(piece.position))
        out += piece.messages
        if len(out) >= count:
            break
        assert empty < 60, f"only {len(out)} of {count} changes came"
    return out, cursor


def summary(messages: list[Message]) -> list[tuple[str, dict[str, Any]]]:
    return [(one.op.name, one.data) for one in messages]


def test_changes_come_in_order_with_their_ids(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')", "CREATE TABLE other (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    plan = source.plan(ground.chosen("t"), 1)
    ground.run(
        "INSERT INTO t VALUES (2, 'b')", "INSERT INTO other VALUES (1)", "UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2"
    )
    ground.run("UPDATE t SET id = 9 WHERE id = 1", "TRUNCATE t")
    found, _ = followed(source, plan.cursor, ground.chosen("t"), 6)
    assert summary(found) == [
        ("INSERT", {"id": 2, "v": "b"}),
        ("UPDATE", {"id": 1, "v": "c"}),
        ("DELETE", {"id": 2}),
        ("DELETE", {"id": 1}),
        ("INSERT", {"id": 9, "v": "c"}),
        ("COMMAND", {"command": "truncate"}),
    ]
    assert {one.namespace for one in found} == {f"{ground.name}.t"}
    assert all(one.mode == Mode.SYNC and one.timestamp > 1_600_000_000_000 for one in found)
    assert all(one.id_fields == ("id",) for one in found if one.op != Op.COMMAND)


def test_what_changes_while_the_copy_is_read_comes_with_the_changes(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i")
    source = ground.source(tail=True)
    plan = source.plan(ground.chosen(), 2)
    ground.run("UPDATE t SET v = 1 WHERE id = 5", "INSERT INTO t VALUES (1000, 2)", "DELETE FROM t WHERE id = 100")
    state = {one["id"]: one["v"] for part in plan.slices for one in documents(source.read(part, None))}
    for message in followed(source, plan.cursor, ground.chosen(), 3)[0]:
        if message.op == Op.DELETE:
            state.pop(message.data["id"], None)
        else:
            state[message.data["id"]] = message.data["v"]
    assert state == dict(ground.all("SELECT id, v FROM t"))


def test_following_again_from_any_position_loses_and_repeats_nothing(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.adaptors.postgres_tail.PIECE_MESSAGES", 7)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(
        "INSERT INTO t SELECT generate_series(1, 20)",
        "INSERT INTO t SELECT generate_series(21, 25)",
        "INSERT INTO t SELECT generate_series(26, 60)",
    )
    seen: list[int] = []
    for _ in range(40):  # a new connection each time, cut inside of transactions too
        found, cursor = followed(source, cursor, ground.chosen(), 1)
        seen += [one.data["id"] for one in found]
        if len(seen) >= 60:
            break
    assert seen == list(range(1, 61))


def test_the_slot_keeps_what_was_given_until_more_is_asked_for(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    where = f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{ground.name}'"
    ground.run("INSERT INTO t VALUES (1)")
    pieces = source.follow(cursor, ground.chosen(), lambda: False)
    given = next(piece for piece in pieces if piece.messages)
    assert ground.all(where) == [(cursor["lsn"],)]
    next(pieces)
    eventually(lambda: ground.all(where) == [(given.position["lsn"],)])
    pieces.close()
    # From before it, changes could be missing: that is said, not passed over.
    with pytest.raises(OffsetGone):
        next(source.follow(cursor, ground.chosen(), lambda: False))


def test_other_peoples_wal_does_not_pin_the_slot(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.adaptors.postgres_tail.IDLE_WAL", 1000)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (v text)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen("t"), 1).cursor
    ground.run("INSERT INTO other SELECT repeat('x', 100) FROM generate_series(1, 100)")
    found, after = followed(source, cursor, ground.chosen("t"), 1)
    assert [one.op for one in found] == [Op.NOOP]
    ground.run("INSERT INTO t VALUES (1)")
    more, _ = followed(source, after, ground.chosen("t"), 1)
    assert {"id": 1} in [one.data for one in more]


def test_large_values_that_did_not_change_are_not_lost(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE t (id int PRIMARY KEY, big text, v int)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t VALUES (1, repeat('x', 100000), 1)",
    )
    ground.run(
        "CREATE TABLE f (id int PRIMARY KEY, big text, v int)",
        "ALTER TABLE f ALTER big SET STORAGE EXTERNAL",
        "ALTER TABLE f REPLICA IDENTITY FULL",
    )
    ground.run("INSERT INTO f VALUES (1, repeat('y', 100000), 1)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("UPDATE t SET v = 2", "UPDATE f SET v = 2", "DELETE FROM f")
    found, _ = followed(source, cursor, ground.chosen(), 3)
    assert summary(found) == [
        ("UPDATE", {"id": 1, "big": "x" * 100000, "v": 2}),
        ("UPDATE", {"id": 1, "big": "y" * 100000, "v": 2}),
        ("DELETE", {"id": 1}),
    ]


def test_a_table_whose_rows_cannot_be_told_apart_is_refused_before_it_is_published(ground: Ground) -> None:
    ground.run("CREATE TABLE t (v int)")
    with pytest.raises(BadConfig, match="primary key"):
        ground.source(tail=True).plan(ground.chosen(), 1)
    assert ground.all(f"SELECT count(*) FROM pg_publication WHERE pubname = '{ground.name}'") == [(0,)]


def test_an_index_can_be_the_identity(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE t (code text NOT NULL, v int)",
        "CREATE UNIQUE INDEX t_code ON t (code)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code",
    )
    source = ground.source(tail=True)
    plan = source.plan(ground.chosen(), 1)
    assert plan.ids == {f"{ground.name}.t": ("code",)}
    ground.run("INSERT INTO t VALUES ('a', 1)", "DELETE FROM t")
    assert summary(followed(source, plan.cursor, ground.chosen(), 2)[0]) == [("INSERT", {"code": "a", "v": 1}), ("DELETE", {"code": "a"})]


def test_a_slot_that_is_gone_is_an_error(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(f"SELECT pg_drop_replication_slot('{ground.name}')")
    with pytest.raises(OffsetGone, match="slot"):
        next(source.follow(cursor, ground.chosen(), lambda: False))


def test_a_connection_that_is_cut_while_following_says_so_and_can_be_taken_up(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1)")
    pieces = source.follow(cursor, ground.chosen(), lambda: False)
    given = next(piece for piece in pieces if piece.messages)
    ground.run(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{ground.name}'")
    with pytest.raises(Unreachable):
        for _ in range(60):
            next(pieces)
    ground.run("INSERT INTO t VALUES (2)")
    assert [one.data for one in followed(source, given.position, ground.chosen(), 1)[0]] == [{"id": 2}]


# -- sink -------------------------------------------------------------------------------------------------------


def part(start: int = 0, end: int = 100, **more: Any) -> Part:
    return Part(pipeline="p", sink="s", start=start, end=end, **more)


def write(sink: Postgres, messages: list[Message], start: int = 0, end: int | None = None, **more: Any) -> None:
    end = start + len(messages) if end is None else end
    writer = sink.writer(part(start, end, **more))
    try:
        writer.write(Batch(start=start, end=end, messages=messages))
        assert writer.finish() == {}
    finally:
        writer.close()


def insert(offset: int, **data: Any) -> Message:
    return Message("t", data, offset=offset, id_fields=("id",))


def test_messages_are_upserted_and_deleted_in_order(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v text, n int DEFAULT 7)")
    sink = ground.sink()
    write(
        sink,
        [
            insert(0, id=1, v="a", n=1),
            insert(1, id=2, v="b"),
            Message("t", {"id": 1, "v": "c"}, Op.UPDATE, offset=2, id_fields=("id",)),
            Message(f"{ground.name}.t", {"id": 2}, Op.DELETE, offset=3, id_fields=("id",)),
            Message("t", {"id": 99}, Op.DELETE, offset=4, id_fields=("id",)),
            insert(5, id=3, v=None),
        ],
    )
    assert ground.all("SELECT * FROM t ORDER BY id") == [(1, "c", 7), (3, None, 7)]
    write(sink, [Message("t", {"command": "truncate"}, Op.COMMAND, offset=6), insert(7, id=4)], 6)
    assert ground.all("SELECT id FROM t") == [(4,)]


def test_a_range_that_comes_again_leaves_no_duplicates(ground: Ground) -> None:
    ground.run("CREATE TABLE t (v int)")  # no key: only the committed ranges stand against duplicates
    sink = ground.sink()
    assert sink.begin("p", "s", 1) == []
    rows = [Message("t", {"v": n}, offset=n) for n in range(20)]
    write(sink, rows[:10], 0, epoch=1)
    write(sink, rows[:10], 0, epoch=1)
    write(sink, rows[5:20], 5, epoch=1)  # cut anew: only what is new counts
    assert ground.all("SELECT count(*), count(DISTINCT v) FROM t") == [(20, 20)]
    assert sink.begin("p", "s", 2) == [(0, 20)]


def test_a_range_is_taken_when_all_its_buckets_are(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    sink = ground.sink()
    write(sink, [insert(0, id=0)], 0, 4, bucket=0, buckets=2)
    assert sink.begin("p", "s", 1) == []
    write(sink, [], 0, 4, bucket=1, buckets=2, epoch=1)
    assert sink.begin("p", "s", 1) == [(0, 4)]


def test_an_older_run_is_shut_out(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    sink = ground.sink()
    sink.begin("p", "s", 1)
    old = sink.writer(part(epoch=1))
    old.write(Batch(start=0, end=1, messages=[insert(0, id=1)]))
    assert sink.begin("p", "s", 2) == [(0, 1)]
    with pytest.raises(Fenced):
        old.write(Batch(start=1, end=2, messages=[insert(1, id=2)]))
    old.close()
    with pytest.raises(Fenced):
        sink.begin("p", "s", 1)
    assert ground.all("SELECT id FROM t") == [(1,)]
    assert sink.begin("p", "other", 1) == []


def test_an_operator_moves_the_position(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    sink = ground.sink()
    write(sink, [insert(n, id=n, v=1) for n in range(10)])
    sink.forget("p", "s", 4, 1)
    assert sink.begin("p", "s", 1) == [(0, 5)]
    write(sink, [insert(n, id=n, v=2) for n in range(10)], epoch=1)
    assert ground.all("SELECT id FROM t WHERE v = 2 ORDER BY id") == [(5,), (6,), (7,), (8,), (9,)]
    sink.forget("p", "s", -1, 1)
    assert sink.begin("p", "s", 1) == []


@pytest.mark.parametrize("bad", [0, 13, 999])
def test_a_poison_message_is_named_exactly_and_what_is_before_it_is_taken(ground: Ground, bad: int) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v < 100))")
    sink = ground.sink()
    messages = [insert(1000 + n, id=n, v=n % 100) for n in range(1000)]
    messages[bad] = insert(1000 + bad, id=bad, v=1000)
    if bad + 5 < 1000:
        messages[bad + 5] = insert(1000 + bad + 5, id=bad + 5, v="no number")
    with pytest.raises(Rejected, match="refuses") as refused:
        write(sink, messages, 1000)
    assert refused.value.offset == 1000 + bad
    assert refused.value.before_taken
    assert ground.all("SELECT count(*) FROM t") == [(bad,)]
    assert sink.begin("p", "s", 1) == ([(1000, 1000 + bad)] if bad else [])
    messages[bad] = insert(1000 + bad, id=bad, v=1)
    if bad + 5 < 1000:
        messages[bad + 5] = insert(1000 + bad + 5, id=bad + 5, v=2)
    write(sink, messages, 1000, epoch=1)
    assert ground.all("SELECT count(*) FROM t") == [(1000,)]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"id": 1, "w": 1}, "no column w"),
        ({"v": 1}, "lacks a value for id"),
        ({"id": 1, "v": "a\0b"}, "refuses"),
        ({"id": 2**70, "v": "x"}, "out of range"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(ground: Ground, data: dict[str, Any], says: str) -> None:
    ground.run("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    with pytest.raises(Rejected, match=says) as refused:
        write(ground.sink(), [insert(3, id=5), Message("t", data, offset=4, id_fields=("id",))], 3)
    assert refused.value.offset == 4
    assert ground.all("SELECT id FROM t") == [(5,)]


def test_a_connection_killed_in_the_middle_of_a_write_leaves_nothing_half_done(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE waits (id int PRIMARY KEY)", "INSERT INTO waits VALUES (1)")
    ground.run(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF NEW.id = 5 THEN PERFORM 1 FROM {ground.name}.waits FOR UPDATE; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER wait BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION wait()",
    )
    sink = ground.sink()
    rows = [insert(n, id=n) for n in range(10)]
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT%json_populate%'"
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            write(sink, rows)
        except Unavailable as error:
            failed.append(error)

    with psycopg.connect(ground.uri) as holder:
        holder.execute(f"SELECT 1 FROM {ground.name}.waits FOR UPDATE")
        thread = threading.Thread(target=attempt)
        thread.start()
        eventually(lambda: bool(ground.all(waiting)))
        ground.run(f"SELECT pg_terminate_backend(pid) FROM ({waiting}) w")
        thread.join(30)
    assert [type(error) for error in failed] == [Unreachable]
    assert ground.all("SELECT count(*) FROM t") == [(0,)]
    assert sink.begin("p", "s", 1) == []
    write(sink, rows, epoch=1)
    assert ground.all("SELECT count(*) FROM t") == [(10,)]


def test_a_batch_that_takes_too_long_ends_with_the_timeouts_name(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1)")
    with psycopg.connect(ground.uri) as holder:
        holder.execute(f"SELECT 1 FROM {ground.name}.t FOR UPDATE")
        with pytest.raises(Timeout, match=r"0\.3 s"):
            write(ground.sink(), [insert(0, id=1, v=1)], timeout=0.3)
    assert ground.sink().begin("p", "s", 1) == []


def test_a_server_that_does_not_answer_at_all_is_a_timeout_too(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    writer = ground.sink().writer(part(timeout=0.2))
    pid = writer._link.info.backend_pid  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Timeout, match=r"0\.2 s"):
            writer.write(Batch(start=0, end=1, messages=[insert(0, id=1)]))
    finally:
        os.kill(pid, signal.SIGCONT)
        writer.close()


def test_a_missing_table_is_an_error_or_is_made(ground: Ground) -> None:
    rows = [
        insert(
            0,
            id=1,
            n=1,
            d=Decimal("1.10"),
            at={"$date": "2020-01-01T00:00:00.000Z"},
            bin={"$binary": {"base64": "AA==", "subType": "00"}},
            doc={"a": [1]},
        ),
        insert(1, id=2, n=2.5, ok=True, t="x", uid={"$uuid": "00000000-0000-0000-0000-000000000001"}),
    ]
    with pytest.raises(NotFound, match="create=True"):
        write(ground.sink(), rows)
    sink = ground.sink(create=True)
    write(sink, rows)
    write(sink, [insert(2, id=3, late="y")], 2)
    assert ground.all(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum"
    ) == [
        ("id", "bigint"),
        ("n", "double precision"),
        ("d", "numeric"),
        ("at", "timestamp with time zone"),
        ("bin", "bytea"),
        ("doc", "jsonb"),
        ("ok", "boolean"),
        ("t", "text"),
        ("uid", "uuid"),
        ("late", "text"),
    ]
    first = next(iter(sink.rows("t")))
    assert {name: value for name, value in first.items() if value is not None} == rows[0].data
    assert ground.all("SELECT count(*) FROM t") == [(3,)]


def test_many_committed_batches_are_put_together(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.adaptors.postgres_state.MANY", 10)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    sink = ground.sink()
    sink.begin("p", "s", 1)
    writer = sink.writer(part(epoch=1))
    for n in range(15):
        writer.write(Batch(start=n, end=n + 1, messages=[insert(n, id=n)]))
    writer.close()
    sink.writer(part(epoch=1)).close()
    assert ground.all("SELECT start_offset, end_offset FROM headwater_committed") == [(0, 15)]


# -- connecting -------------------------------------------------------------------------------------------------


def test_check_says_what_is_there(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    lines = ground.source(tail=True).check("source", ground.chosen())
    assert any(f"{ground.name}.t" in line for line in lines)
    assert any("will be made" in line for line in lines)
    assert any("exactly once" in line for line in ground.sink().check("sink", ground.chosen()))
    assert ground.all("SELECT to_regclass('headwater_committed')") == [(None,)]
    with pytest.raises(NotFound):
        ground.source().check("source", ground.chosen("none"))


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


def eventually(true: Callable[[], bool], tries: int = 600) -> None:
    """Poll until it is true."""
    tick = threading.Event()
    for _ in range(tries):
        if true():
            return
        tick.wait(0.05)
    raise AssertionError("it did not become true in time")
