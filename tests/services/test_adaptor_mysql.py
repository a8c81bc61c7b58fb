"""The MySQL adaptor against a real MariaDB: copying tables, types, following changes, connecting."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import msgspec
import pytest
from mysql_ground import Ground, a_ground, copied, documents, followed, summary, write

from headwater.core.errors import BadConfig, Denied, Differs, NotFound, OffsetGone, Unreachable
from headwater.pipeline import values
from headwater.pipeline.adaptor import Slice
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.mysql.adaptor import mysql


@pytest.fixture
def ground(mariadb: str) -> Iterator[Ground]:
    with a_ground(mariadb) as made:
        yield made


# -- copy -------------------------------------------------------------------------------------------------------


def test_slices_by_key_hold_every_row_once_in_order(ground: Ground) -> None:
    ground.run("CREATE TABLE orders (id bigint PRIMARY KEY, note text)")
    ground.numbers("orders", 12_000, "seq * 7, CONCAT('n', seq)")
    source = ground.source()
    plan = source.plan(ground.chosen(), 4)
    assert len(plan.slices) == 4
    assert plan.ids == {f"{ground.name}.orders": ("id",)}
    parts = [[one["id"] for one in documents(source.read(part, None))] for part in plan.slices]
    assert [one for part in parts for one in part] == [i * 7 for i in range(1, 12_001)]
    assert all(len(part) == 3000 for part in parts)
    assert source.same(plan, ground.chosen())


def test_a_slice_goes_on_behind_its_position(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.systems.mysql.copy.PAGE_ROWS", 70)
    ground.run("CREATE TABLE t (a varchar(20), b int, at datetime(3), v text, PRIMARY KEY (b, at, a))")
    ground.numbers("t", 1000, "CONCAT('k''', seq), seq % 10, FROM_UNIXTIME(1600000000 + seq DIV 100), 'x'")
    source = ground.source()
    for part in source.plan(ground.chosen(), 2).slices:
        part = msgspec.json.decode(msgspec.json.encode(part), type=Slice)
        pieces = list(source.read(part, None))
        assert len(pieces) > 3
        whole = documents(iter(pieces))
        for at in (0, 2):
            position = msgspec.json.decode(msgspec.json.encode(pieces[at].position))
            assert documents(iter(pieces[: at + 1])) + documents(source.read(part, position)) == whole
    assert len(copied(source, ground.chosen(), 3)) == 1000


@pytest.mark.parametrize("columns", ["v text", "e enum('b', 'a') PRIMARY KEY, v text"])
def test_a_table_without_a_usable_key_is_one_slice_and_resumes_too(ground: Ground, columns: str) -> None:
    ground.run(f"CREATE TABLE t ({columns})")
    if columns == "v text":
        ground.numbers("t", 2500, "seq")
    else:
        ground.run("INSERT INTO t VALUES ('a', '1'), ('b', '2')")
    source = ground.source()
    plan = source.plan(ground.chosen(), 4)
    assert len(plan.slices) == 1
    pieces = list(source.read(plan.slices[0], None))
    whole = documents(iter(pieces))
    assert len(whole) == len({one["v"] for one in whole}) == ground.all("SELECT count(*) FROM t")[0][0]
    assert documents(iter(pieces[:1])) + documents(source.read(plan.slices[0], pieces[0].position)) == whole


def test_a_table_that_changed_under_the_plan_is_noticed(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = ground.source()
    plan = source.plan(ground.chosen(), 1)
    ground.run("DROP TABLE t")
    assert not source.same(plan, ground.chosen())
    with pytest.raises(Differs):
        list(source.read(plan.slices[0], None))


COLUMNS = """
    id bigint PRIMARY KEY, small tinyint unsigned, big bigint unsigned, num decimal(40, 20), money decimal(12, 2), dbl double, flt float,
    b bit(10), txt text, latin varchar(20) CHARACTER SET latin1, chr char(5),
    at timestamp(6) NULL, plain datetime(3), day date, bin varbinary(20),
    fixed binary(4), blb blob, doc json, e enum('x', 'y'), s set('q', 'p', 'it''s'), t time(3), y year, `odd ``name' \\ %s "q"` text
"""
ROWS = (
    r"""(1, 255, 18446744073709551615, 12345678901234567890.12345678901234567890, 1.10, 0.1, 0.1, b'1010101010',"""
    r""" 'a "q" \\ \n é 🦆 / \t', 'é', 'ab', '2020-02-03 04:05:06.789012', '2020-02-03 04:05:06.5', '2020-02-03', x'00ff10', x'01', x'',"""
    r""" '{"b": 1.10,\n "a": [1, null, {"x": "\\n"}]}', 'y', 'it''s,q', '-12:34:56.5', 2024, 'odd')""",
    "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL)",
    "(3, 0, 0, 0, 5, 100000, -2.5, b'0', 'x', 'x', 'x', '2020-01-01', '0000-00-00', '0000-00-00', 'text', 'abcd', 'b', '[1]', 'x', 'p,q',"
    " '838:00:01', 1999, '')",
)


def typed(ground: Ground, name: str) -> None:
    ground.run(f"CREATE TABLE {name} ({COLUMNS})")


def fill(ground: Ground) -> None:
    ground.run("SET sql_mode = ''", *(f"INSERT INTO typed VALUES {row}" for row in ROWS))


def test_types_are_exact(ground: Ground) -> None:
    typed(ground, "typed")
    fill(ground)
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


def test_copied_and_followed_values_are_the_same_and_come_back_the_same(ground: Ground) -> None:
    typed(ground, "typed")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    fill(ground)
    there = copied(source, ground.chosen("typed"))
    changes, _ = followed(source, cursor, ground.chosen(), 3)
    assert [one.data for one in changes] == there
    assert [values.canonical(one.id) for one in changes] == [b"1", b"2", b"3"]
    typed(ground, "back")
    sink = ground.sink()
    write(sink, [Message("back", one, offset=number, id_fields=("id",)) for number, one in enumerate(there)])
    assert list(sink.rows("back")) == [sink.stored(one) for one in there]
    assert copied(ground.source(), ground.chosen("back")) == there


# -- changes ----------------------------------------------------------------------------------------------------


def test_changes_come_in_order_with_their_ids(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')", "CREATE TABLE other (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    plan = source.plan(ground.chosen("t"), 1)
    ground.run("INSERT INTO t VALUES (2, 'b'), (3, 'b')", "INSERT INTO other VALUES (1)", "UPDATE t SET v = 'c' WHERE id <> 2")
    ground.run("DELETE FROM t WHERE id = 2", "UPDATE t SET id = 9 WHERE id = 1", "TRUNCATE TABLE t")
    found, _ = followed(source, plan.cursor, ground.chosen("t"), 8)
    assert summary(found) == [
        ("INSERT", {"id": 2, "v": "b"}),
        ("INSERT", {"id": 3, "v": "b"}),
        ("UPDATE", {"id": 1, "v": "c"}),
        ("UPDATE", {"id": 3, "v": "c"}),
        ("DELETE", {"id": 2}),
        ("DELETE", {"id": 1}),
        ("INSERT", {"id": 9, "v": "c"}),
        ("COMMAND", {"command": "truncate"}),
    ]
    assert {one.namespace for one in found} == {f"{ground.name}.t"}
    assert all(one.mode == Mode.SYNC and one.timestamp > 1_600_000_000_000 for one in found)
    assert all(one.id_fields == ("id",) for one in found if one.op != Op.COMMAND)


def test_what_changes_while_the_copy_is_read_comes_with_the_changes(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    ground.numbers("t", 100, "seq, 0")
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
    monkeypatch.setattr("headwater.pipeline.systems.mysql.tail.PIECE_MESSAGES", 7)
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("BEGIN", *(f"INSERT INTO t VALUES ({n}, 'a'), ({n + 1}, 'b')" for n in range(1, 20, 2)), "COMMIT", "FLUSH BINARY LOGS")
    ground.run("ALTER TABLE t ADD COLUMN w int", "INSERT INTO t SELECT seq, REPEAT('x', 3000), 1 FROM seq_21_to_60")
    seen: list[int] = []
    for _ in range(40):  # a new connection each time, cut inside of transactions too
        found, cursor = followed(source, cursor, ground.chosen(), 1)
        seen += [one.data["id"] for one in found]
        if len(seen) >= 60:
            break
    assert seen == list(range(1, 61))


def test_an_idle_server_gives_empty_pieces_and_the_stop_is_seen(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    seen: list[int] = []
    for piece in source.follow(cursor, ground.chosen(), lambda: len(seen) >= 3):
        seen.append(len(piece.messages))
    assert seen == [0, 0, 0]


@pytest.mark.parametrize("change", [{"file": "binlog.999999"}, {"server": "another"}])
def test_a_position_that_is_gone_is_an_error(ground: Ground, change: dict[str, str]) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor | change
    with pytest.raises(OffsetGone):
        list(source.follow(cursor, ground.chosen(), lambda: False))


def test_a_connection_that_is_cut_while_following_says_so_and_can_be_taken_up(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1)")
    pieces = source.follow(cursor, ground.chosen(), lambda: False)
    given = next(piece for piece in pieces if piece.messages)
    own = f"SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' AND db = '{ground.name}'"
    ground.run(f"KILL {ground.all(own)[0][0]}")
    with pytest.raises(Unreachable):
        for _ in range(60):
            next(pieces)
    ground.run("INSERT INTO t VALUES (2)")
    assert [one.data for one in followed(source, given.position, ground.chosen(), 1)[0]] == [{"id": 2}]


def test_a_table_without_a_key_cannot_be_followed(ground: Ground) -> None:
    ground.run("CREATE TABLE t (v int)")
    with pytest.raises(BadConfig, match="primary key"):
        ground.source(tail=True).plan(ground.chosen(), 1)


# -- connecting -------------------------------------------------------------------------------------------------


def test_check_says_what_is_there(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    lines = ground.source(tail=True).check("source", ground.chosen())
    assert any(f"{ground.name}.t" in line for line in lines)
    assert any("binary log" in line for line in lines)
    assert any("exactly once" in line for line in ground.sink().check("sink", ground.chosen()))
    assert ground.all("SHOW TABLES LIKE 'headwater%'") == []
    with pytest.raises(NotFound):
        ground.source().check("source", ground.chosen("none"))


def test_errors_never_show_the_password(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_TEST_MYSQL", ground.uri.replace("headwater:headwater@", "headwater:sesame-42@"))
    sink = mysql("${HEADWATER_TEST_MYSQL}")
    with pytest.raises(Denied) as denied:
        sink.check("source", Namespaces())
    assert "sesame" not in repr(denied.value) + str(denied.value.__cause__) + str(sink)
    with pytest.raises(Unreachable) as away:
        mysql("mysql://u:sesame-42@127.0.0.1:1/db").check("source", Namespaces())
    assert "127.0.0.1:1/db" in str(away.value)
    assert "sesame" not in str(away.value)
    for odd in ("postgresql://u:sesame-42@h/db", "mysql://u:sesame-42@h:port/db", "mysql://u:sesame-42@h/db?colour=red"):
        with pytest.raises(BadConfig) as refused:
            mysql(odd).check("source", Namespaces())
        assert "sesame" not in str(refused.value)
