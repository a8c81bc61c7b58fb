"""The MySQL adaptor against a real MariaDB: what is its own in copying and following changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from mysql_ground import MySQLGround, a_mysql_ground
from sql_ground import copied, documents, followed, travelled

from headwater.adaptors.mysql.adaptor import mysql
from headwater.adaptors.mysql.connection import MySQLSession, parsed
from headwater.core.errors import BadConfig, Differs, OffsetGone, TooLarge
from headwater.pipeline.message import Message, Op


@pytest.fixture
def ground(mariadb: str) -> Iterator[MySQLGround]:
    with a_mysql_ground(mariadb) as made:
        yield made


KEYS = {
    "enum('b', 'a', 'c')": ["'a'", "'b'", "'c'"],
    "set('b', 'a')": ["''", "'a'", "'b'", "'b,a'"],
    "bit(10)": ["b'1010101010'", "b'1'", "b'1000000000'"],
    "float": ["0.1", "3.3", "1e30", "-2.5"],
    "double": ["0.1", "1e0/3", "1e300", "-2.5e-7"],
    "uuid": ["'00000000-0000-0000-0000-000000000001'", "'00000000-0000-4000-8000-100000000000'", "'10000000-0000-1000-8000-000000000002'"],
    "inet6": ["'::1'", "'fe80::1'", "'::ffff:1.2.3.4'"],
    "inet4": ["'9.0.0.1'", "'10.0.0.1'", "'100.1.1.1'"],
    "time(3)": ["'-12:00:00.5'", "'838:00:00'", "'00:00:01'"],
    "datetime(3)": ["'0000-00-00'", "'2020-01-01 00:00:00.5'", "'1000-01-01'"],
    "date": ["'0000-00-00'", "'2020-01-01'", "'2020-00-00'"],
    "year": ["0", "1901", "2155"],
    "varchar(9)": ["'a'", "'B'", "'é'", "''"],
    "varbinary(9)": ["x'00'", "x'ff'", "''", "x'0027'"],
    "decimal(30, 20)": ["0.10000000000000000001", "-1", "0.1"],
    "bigint unsigned": ["18446744073709551615", "0", "9223372036854775808"],
}


@pytest.mark.parametrize("kind", KEYS)
def test_reading_goes_on_behind_a_key_of_any_type(ground: MySQLGround, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """From every row on, although the row itself and those before it are gone by then."""
    monkeypatch.setattr("headwater.adaptors.mysql.source.PIECE", 1)
    monkeypatch.setattr("headwater.adaptors.mysql.source.AT_ONCE", 1)
    monkeypatch.setattr("headwater.adaptors.mysql.source.PAGE_ROWS", 2)
    ground.run(f"CREATE TABLE t (k {kind}, n int, v int AUTO_INCREMENT UNIQUE, PRIMARY KEY (k, n))")
    ground.run(*(f"INSERT INTO t (k, n) VALUES ({key}, {number})" for key in KEYS[kind] for number in (1, 2)))
    everything = set(range(1, 2 * len(KEYS[kind]) + 1))
    source = ground.source()
    plan = source.plan(ground.chosen(), 3)
    assert sorted(one["v"] for part in plan.slices for one in documents(source.read(part, None))) == sorted(everything)
    [part] = source.plan(ground.chosen(), 1).slices
    read: list[int] = []
    for piece in list(source.read(part, None)):
        read += [one["v"] for one in documents(iter([piece]))]
        ground.run(f"DELETE FROM t WHERE v IN ({', '.join(map(str, read))})")
        rest = [one["v"] for one in documents(source.read(part, travelled(piece.position)))]
        assert sorted(read + rest) == sorted(everything)


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


def test_a_log_that_was_begun_anew_is_told(ground: MySQLGround) -> None:
    """After RESET MASTER its files have the names of the former ones, and a position may be the end of a change in both."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    for number in range(3):
        ground.run(f"INSERT INTO t VALUES ({number})")
        found, cursor = followed(source, cursor, ground.chosen(), 1)
        assert [one.data for one in found] == [{"id": number}]
        ground.run(*["FLUSH BINARY LOGS"] * number)
    ground.run("INSERT INTO t VALUES (3)")
    with pytest.raises(OffsetGone, match=f"{cursor['file']} .* was begun anew"):
        next(source.follow(cursor | {"begun": cursor["begun"] - 60}, ground.chosen(), lambda: False))


def test_a_table_that_is_made_later_is_followed_too(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE a (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (2)")
    found, _ = followed(source, cursor, ground.chosen(), 1)
    assert [(one.namespace, one.data) for one in found] == [(f"{ground.name}.b", {"id": 2})]


def test_numbers_with_zeros_before_them_and_dates_that_are_none_are_the_same_in_a_copy_and_in_changes(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int(8) ZEROFILL PRIMARY KEY, d decimal(10, 2) ZEROFILL, f double ZEROFILL, y year, at timestamp NULL)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (42, 1.5, 2.5, '0000', '0000-00-00'), (43, 0, 0, 2024, '1970-01-01 00:00:01')")
    changed = [one.data for one in followed(source, cursor, ground.chosen(), 2)[0]]
    assert changed == [
        {"id": 42, "d": Decimal("1.50"), "f": 2.5, "y": 0, "at": None},
        {"id": 43, "d": Decimal("0.00"), "f": 0, "y": 2024, "at": {"$date": "1970-01-01T00:00:01.000Z"}},
    ]
    assert copied(source, ground.chosen()) == changed


CHARSETS = {
    "latin1": "_latin1 x'81418e80e9'",  # 0x81 is no letter, and the server takes it
    "cp1250": "'aé'",
    "koi8r": "'дом'",
    "ucs2": "'aé日'",
    "utf16": "'aé🦆'",
    "utf16le": "'aé🦆'",
    "utf32": "'aé🦆'",
    "utf8mb3": "'aé日'",
    "gbk": "'日本'",
    "ujis": "'日本'",
    "eucjpms": "'日本①'",
    "cp932": "'日本①'",
    "armscii8": "_armscii8 x'b2b3'",
    "swe7": "_swe7 x'5b5c41'",
    "macce": "'aé'",
}


def test_text_of_any_character_set_is_the_same_in_a_copy_and_in_changes(ground: MySQLGround) -> None:
    columns = ", ".join(f"{one} text CHARACTER SET {one}" for one in CHARSETS)
    ground.run(
        f"CREATE TABLE t (id int PRIMARY KEY, {columns}, e enum('é', 'b') CHARACTER SET latin1, s set('éa', 'a') CHARACTER SET utf16)"
    )
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(f"INSERT INTO t VALUES (1, {', '.join(CHARSETS.values())}, 'é', 'a,éa')")
    [changed] = followed(source, cursor, ground.chosen(), 1)[0]
    assert copied(source, ground.chosen()) == [changed.data]
    some = [changed.data[name] for name in ("latin1", "utf16", "swe7", "e", "s")]
    assert some == ["\x81AŽ€é", "aé🦆", "ÄÖA", "é", "éa,a"]


def test_rows_of_which_only_some_columns_were_logged_are_an_error(ground: MySQLGround) -> None:
    """Taken for whole rows, they would delete the document and put one without an id in its place."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int, big text)", "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("SET SESSION binlog_row_image = MINIMAL", "DELETE FROM t WHERE id = 2")
    found, cursor = followed(source, cursor, ground.chosen(), 1)
    assert [(one.op, one.data) for one in found] == [(Op.DELETE, {"id": 2})]  # of which the key is all that is needed
    ground.run("UPDATE t SET v = 3")
    with pytest.raises(OffsetGone, match="some columns"):
        followed(source, cursor, ground.chosen(), 1)


def test_a_value_that_the_server_cannot_give_is_no_null(ground: MySQLGround) -> None:
    """As text it has a third more bytes than max_allowed_packet lets out, though the value itself came in."""
    [(most,)] = ground.all("SELECT @@max_allowed_packet")
    ground.run("CREATE TABLE t (id int PRIMARY KEY, big longblob)", f"INSERT INTO t VALUES (1, REPEAT('x', {most * 4 // 5}))")
    with pytest.raises(TooLarge, match="max_allowed_packet"):
        copied(ground.source(), ground.chosen())


def test_pieces_stay_small_where_the_rows_are_larger_than_the_server_thinks(ground: MySQLGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, big longtext)", "INSERT INTO t SELECT seq, REPEAT('x', 100000) FROM seq_1_to_300")
    monkeypatch.setattr("headwater.adaptors.mysql.source.PIECE", 1 << 20)
    monkeypatch.setattr("headwater.adaptors.mysql.source.PAGE", 1 << 40)
    source = ground.source()
    pieces = list(source.read(source.plan(ground.chosen(), 1).slices[0], None))
    assert max(sum(map(len, piece.values)) for piece in pieces) < 8 << 20
    assert [one["id"] for one in documents(iter(pieces))] == list(range(1, 301))


def test_a_log_that_is_compressed_is_refused(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("SET GLOBAL log_bin_compress = ON")
    try:
        ground.run("INSERT INTO t VALUES (1, REPEAT('x', 5000))")
        for ask in (lambda: source.plan(ground.chosen(), 1), lambda: followed(source, cursor, ground.chosen(), 1)):
            with pytest.raises(BadConfig, match="log_bin_compress"):
                ask()
    finally:
        ground.run("SET GLOBAL log_bin_compress = OFF")
    with pytest.raises(OffsetGone, match="cannot be read"):  # what was logged meanwhile stays as it is
        followed(source, cursor, ground.chosen(), 1)


def test_what_was_given_of_a_transaction_stays_given(ground: MySQLGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty piece's cursor is kept, too: before the transaction comes again it must not say that none of it was given."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t SELECT seq, REPEAT('x', 500) FROM seq_1_to_200")
    monkeypatch.setattr("headwater.adaptors.mysql.tail.PIECE_MESSAGES", 50)
    found, cursor = followed(source, cursor, ground.chosen(), 50)
    monkeypatch.setattr("headwater.adaptors.mysql.tail.PIECE_BYTES", 1)
    for piece in source.follow(cursor, ground.chosen(), lambda: False):
        if any(one.op != Op.NOOP for one in piece.messages):
            break
        assert {message.namespace for message in piece.messages} <= {f"{ground.name}.t"}
        assert travelled(piece.position) == cursor
    monkeypatch.undo()
    found += followed(source, cursor, ground.chosen(), 200 - len(found))[0]
    assert [one.data["id"] for one in found] == list(range(1, 201))


def test_a_table_that_nobody_follows_may_have_any_type(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (u uuid, i inet6, l text CHARACTER SET latin1, g geometry)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen("t"), 1).cursor
    ground.run("INSERT INTO other VALUES ('ffffffff-0000-4000-8000-100000000000', 'fe80::81', _latin1 x'81', POINT(1, 2))")
    ground.run("INSERT INTO t VALUES (1)")
    assert [one.data for one in followed(source, cursor, ground.chosen("t"), 1)[0]] == [{"id": 1}]


def test_a_truncate_is_known_by_every_way_to_name_its_table(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE `a b.``c` (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("TRUNCATE `a b.``c`", "USE mysql", f"/* far */ truncate table {ground.name} . `a b.``c`", f"TRUNCATE `{ground.name}`.u")
    found, _ = followed(source, cursor, ground.chosen(), 3)
    assert {one.op for one in found} == {Op.COMMAND}
    assert [one.namespace for one in found] == [f"{ground.name}.a b.`c", f"{ground.name}.a b.`c", f"{ground.name}.u"]


def test_a_statement_in_place_of_rows_is_an_error_where_it_changes_what_is_followed(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen("t"), 1).cursor
    ground.run("SET SESSION binlog_format = STATEMENT", "INSERT INTO other VALUES (1)", "SET SESSION binlog_format = ROW")
    ground.run("INSERT INTO t VALUES (1)")
    found, cursor = followed(source, cursor, ground.chosen("t"), 1)
    assert [one.data for one in found] == [{"id": 1}]
    ground.run("SET SESSION binlog_format = STATEMENT", f"INSERT IGNORE INTO `{ground.name}`.t VALUES (2)")
    with pytest.raises(OffsetGone, match="statement"):
        followed(source, cursor, ground.chosen("t"), 1)


def test_a_column_that_is_gone_by_now_still_has_values_of_json(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, at datetime, bin blob, s set('b', 'a'), e enum('x'), bits bit(4), tm time(3))")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1, '2024-01-01', 'a', 'a,b', 'x', b'101', '-01:02:03.5')")
    before = copied(source, ground.chosen())
    ground.run("ALTER TABLE t DROP at, DROP bin, DROP s, DROP e, DROP bits, DROP tm")
    [found] = followed(source, cursor, ground.chosen(), 1)[0]
    assert [found.data] == before


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE fresh LIKE t", "INSERT INTO fresh VALUES (7, 7)", "RENAME TABLE t TO old, fresh TO t"),
        ("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, v int)"),
        ("CREATE OR REPLACE TABLE t (id int PRIMARY KEY, v int)",),
        ("ALTER TABLE parted TRUNCATE PARTITION p",),
    ],
)
def test_a_followed_table_whose_rows_change_by_ddl_ends_the_run(ground: MySQLGround, statements: tuple[str, ...]) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE TABLE other LIKE t")
    ground.run("CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))")
    chosen = ground.chosen("(t|parted)")
    source = ground.source(tail=True)
    cursor = source.plan(chosen, 1).cursor
    ground.run(
        "CREATE TEMPORARY TABLE t (id int)", "DROP TABLE t", "ALTER TABLE t ADD w int", "DROP TABLE other", "CREATE TABLE other (id int)"
    )
    ground.run("CREATE INDEX i ON t (v)", "ALTER TABLE t DROP w", "ANALYZE TABLE t", "INSERT INTO t VALUES (1, 1)")
    found, cursor = followed(source, cursor, chosen, 1)
    assert [one.data for one in found] == [{"id": 1, "v": 1}]
    ground.run("DELETE FROM t", *statements)
    before: list[Message] = []
    with pytest.raises(Differs) as raised:
        for piece in source.follow(cursor, chosen, lambda: False):
            before += piece.messages
    assert "--again" in raised.value.hint
    assert [(one.op, one.data) for one in before if one.op != Op.NOOP] == [(Op.DELETE, {"id": 1})]  # which no later copy would tell


def test_a_table_that_is_dropped_in_one_run_and_created_in_the_next_ends_it(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("DROP TABLE t", "INSERT INTO u VALUES (1)")
    _, cursor = followed(source, cursor, ground.chosen(), 1)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(Differs, match="created anew"):
        followed(source, cursor, ground.chosen(), 1)


def test_a_changed_key_is_noticed_before_and_while_changes_are_followed(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)")
    source, chosen = ground.source(tail=True), ground.chosen()
    plan = source.plan(chosen, 1)
    source.check_followed(plan, chosen)
    pieces = source.follow(plan.cursor, chosen, lambda: False)
    next(pieces)
    ground.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)")
    with pytest.raises(Differs, match=r"told apart by \(v\), and were by \(id\)"):
        next(piece for piece in pieces if any(one.op != Op.NOOP for one in piece.messages))
    with pytest.raises(Differs, match=r"told apart by \(v\), and were by \(id\)"):
        source.check_followed(plan, chosen)


def test_statements_in_place_of_rows_are_known_by_every_spelling(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    for statement in ("INSERT INTO t(id) VALUES (9)", "-- c\ninsert into t values (10)", "delete x from t x", "UPDATE (t) SET id = 2"):
        ground.run("SET SESSION binlog_format = ROW", "REPLACE INTO t VALUES (1)")
        cursor = source.plan(ground.chosen(), 1).cursor
        ground.run("SET SESSION binlog_format = STATEMENT", statement)
        with pytest.raises(OffsetGone, match="statement"):
            followed(source, cursor, ground.chosen(), 1)


def test_a_truncate_is_known_behind_and_between_comments(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    spellings = ("-- c\ntruncate t", "# c\ntruncate t", "/*!40000 truncate table t */", "/*M! truncate */ table t")
    ground.run(*spellings, "set statement max_statement_time=9 for truncate table t")
    found, _ = followed(source, cursor, ground.chosen(), 5)
    assert [(one.op, one.namespace) for one in found] == [(Op.COMMAND, f"{ground.name}.t")] * 5


def test_a_file_that_is_loaded_as_a_statement_is_an_error_where_it_changes_what_is_followed(ground: MySQLGround, tmp_path: Path) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    rows = tmp_path / "rows"
    rows.write_text("7\n8\n")
    with closing(MySQLSession(parsed(ground.uri), local_infile=True)) as session:
        source, chosen = ground.source(tail=True), ground.chosen("t")
        cursor = source.plan(chosen, 1).cursor
        session.do("SET SESSION binlog_format = STATEMENT")
        session.do(f"LOAD DATA LOCAL INFILE '{rows}' INTO TABLE other")
        ground.run("INSERT INTO t VALUES (1)")
        found, cursor = followed(source, cursor, chosen, 1)
        assert [one.data for one in found] == [{"id": 1}]
        session.do(f"LOAD DATA LOCAL INFILE '{rows}' INTO TABLE t")
        with pytest.raises(OffsetGone, match="statement"):
            followed(source, cursor, chosen, 1)


def test_what_ends_a_run_inside_of_a_transaction_ends_the_next_one_too(ground: MySQLGround) -> None:
    """The changes before it are given and counted, not those that could not be read."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int, big text)", "INSERT INTO t VALUES (1, 1, 'x')")
    source, chosen = ground.source(tail=True), ground.chosen()
    cursor = source.plan(chosen, 1).cursor
    ground.run("BEGIN", "INSERT INTO t VALUES (2, 2, 'y')", "SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET v = 3", "COMMIT")
    found, cursor = followed(source, cursor, chosen, 1)
    assert [(one.op, one.data["id"]) for one in found] == [(Op.INSERT, 2)]
    with pytest.raises(OffsetGone, match="some columns"):
        followed(source, cursor, chosen, 1)


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
def test_members_of_an_enum_are_those_of_the_moment_of_the_change(ground: MySQLGround, charset: str) -> None:
    ground.run(f"CREATE TABLE t (id int PRIMARY KEY, e enum('a', 'b'), s set('x', 'y', 'z')) CHARACTER SET {charset}")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1, 'a', 'x,z')", "ALTER TABLE t MODIFY e enum('b', 'a'), MODIFY s set('z', 'y', 'x')")
    ground.run("INSERT INTO t VALUES (2, 'a', 'x,z')")
    found = followed(source, cursor, ground.chosen(), 2)[0]
    assert [one.data for one in found] == [{"id": 1, "e": "a", "s": "x,z"}, {"id": 2, "e": "a", "s": "z,x"}]


def test_members_whose_letters_the_log_cannot_be_read_for_are_an_error_once_they_have_changed(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, e enum('é', 'b')) CHARACTER SET latin1")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1, 'é')")
    found, cursor = followed(source, cursor, ground.chosen(), 1)
    assert [one.data for one in found] == [{"id": 1, "e": "é"}]
    ground.run("INSERT INTO t VALUES (2, 'é')", "ALTER TABLE t MODIFY e enum('b', 'é')")
    with pytest.raises(OffsetGone, match="members of e"):
        followed(source, cursor, ground.chosen(), 1)


RULES = ("ON DELETE CASCADE", "ON UPDATE CASCADE", "ON DELETE SET NULL", "ON UPDATE SET NULL")


@pytest.mark.parametrize("rule", RULES)
def test_rows_that_a_foreign_key_changes_cannot_be_followed(ground: MySQLGround, rule: str) -> None:
    """The engine changes them, and logs nothing."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE plain (id int PRIMARY KEY, t int REFERENCES t (id) ON DELETE RESTRICT)")
    source, chosen = ground.source(tail=True), ground.chosen()
    plan = source.plan(chosen, 1)
    pieces = source.follow(plan.cursor, chosen, lambda: False)
    next(pieces)
    ground.run(f"CREATE TABLE child (id int PRIMARY KEY, t int, CONSTRAINT c FOREIGN KEY (t) REFERENCES t (id) {rule})")
    with pytest.raises(Differs, match=rf"{ground.name}\.child.*{rule}"):
        next(piece for piece in pieces if any(one.op != Op.NOOP for one in piece.messages))
    reads_only = mysql(ground.stranger("SELECT"), tail=True)
    for refused in (
        lambda: source.check_followed(plan, chosen),
        lambda: source.plan(chosen, 1),
        lambda: reads_only.check_followed(plan, chosen),
    ):
        with pytest.raises(BadConfig, match=rf"{ground.name}\.child.*{rule}"):
            refused()
    assert source.plan(ground.chosen("(t|plain)"), 1).cursor is not None
    ground.source().plan(chosen, 1)  # a copy by itself is right


def test_a_table_with_system_versioning_is_copied_and_not_followed(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    source, chosen = ground.source(tail=True), ground.chosen()
    plan = source.plan(chosen, 1)
    ground.run("ALTER TABLE t ADD SYSTEM VERSIONING", "DELETE FROM t WHERE id = 1", "UPDATE t SET v = 3")
    with pytest.raises(Differs, match="system versioning"):
        followed(source, plan.cursor, chosen, 1)
    with pytest.raises(BadConfig, match="system versioning"):
        source.plan(chosen, 1)
    assert copied(ground.source(), chosen) == [{"id": 2, "v": 3}]


def test_a_step_of_a_sequence_is_no_change_of_a_table(ground: MySQLGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("CREATE SEQUENCE s", "INSERT INTO t VALUES (NEXTVAL(s))")
    assert [one.data for one in followed(source, cursor, ground.chosen(), 1)[0]] == [{"id": 1}]
