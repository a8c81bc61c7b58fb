"""The PostgreSQL adaptor against a real server: what is its own in following changes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import psycopg
import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from sql_ground import copied, eventually, followed, summary, travelled

from headwater.core.errors import BadConfig, Differs, Forbidden, OffsetGone
from headwater.pipeline import values
from headwater.pipeline.message import Op
from headwater.pipeline.namespaces import Namespaces


@pytest.fixture
def ground(postgres: str) -> Iterator[PostgresGround]:
    with a_postgres_ground(postgres) as made:
        yield made


def test_the_slot_keeps_what_was_given_until_more_is_asked_for(ground: PostgresGround) -> None:
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


def test_other_peoples_wal_does_not_pin_the_slot(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.adaptors.postgres.tail.IDLE_WAL", 1000)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (v text)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen("t"), 1).cursor
    ground.run("INSERT INTO other SELECT repeat('x', 100) FROM generate_series(1, 100)")
    given = next(piece for piece in source.follow(cursor, ground.chosen("t"), lambda: False) if piece.position["lsn"] != cursor["lsn"])
    assert [one.op for one in given.messages] == [Op.NOOP]
    ground.run("INSERT INTO t VALUES (1)")
    assert summary(followed(source, given.position, ground.chosen("t"), 1)[0]) == [("INSERT", {"id": 1})]


def test_changes_of_published_tables_that_were_not_chosen_do_not_pin_the_slot(
    ground: PostgresGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of their transactions moves the place that is read, and none of them is a message that the log would keep it with."""
    monkeypatch.setattr("headwater.adaptors.postgres.tail.IDLE_WAL", 100_000)
    monkeypatch.setattr("headwater.adaptors.postgres.tail.WAIT", 0.02)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id serial PRIMARY KEY, v text)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    pieces = source.follow(source.plan(ground.chosen("t"), 1).cursor, ground.chosen("t"), lambda: False)
    where = f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{ground.name}'"
    before, found = ground.all(where), []
    for _ in range(40):
        ground.run("INSERT INTO other (v) SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i")
        found += next(pieces).messages
    assert {one.op for one in found} == {Op.NOOP}
    eventually(lambda: ground.all(where) != before)
    pieces.close()


def test_what_was_given_of_a_transaction_stays_given(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty piece's cursor is kept, too: while the server sends again what was given, it must not say that less was."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t SELECT generate_series(1, 30)")
    monkeypatch.setattr("headwater.adaptors.postgres.tail.PIECE_MESSAGES", 10)
    found, cursor = followed(source, cursor, ground.chosen(), 10)
    monkeypatch.setattr("headwater.adaptors.postgres.tail.PIECE_BYTES", 60)
    pieces = source.follow(cursor, ground.chosen(), lambda: False)
    empty = next(pieces)
    assert [one.op for one in empty.messages] == [Op.NOOP]
    pieces.close()
    assert travelled(empty.position) == cursor
    monkeypatch.undo()
    found += followed(source, empty.position, ground.chosen(), 20)[0]
    assert [one.data["id"] for one in found] == list(range(1, 31))


def test_a_stream_that_is_begun_anew_lets_go_of_no_more_than_the_log_has(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    cursor = source.plan(ground.chosen("t"), 1).cursor
    monkeypatch.setattr("headwater.adaptors.postgres.tail.AWAY", -1.0)
    monkeypatch.setattr("headwater.adaptors.postgres.stream.STATUS_EVERY", 0.0)
    pieces = source.follow(cursor, ground.chosen("t"), lambda: False)
    ground.run("INSERT INTO other VALUES (1)")
    for _ in range(3):
        assert not next(pieces).messages
    pieces.close()
    ground.run("INSERT INTO t VALUES (1)")
    monkeypatch.setattr("headwater.adaptors.postgres.tail.AWAY", 20.0)
    assert summary(followed(source, cursor, ground.chosen("t"), 1)[0]) == [("INSERT", {"id": 1})]


def test_a_key_that_is_too_large_to_be_sent_again_is_still_the_key(ground: PostgresGround) -> None:
    ground.run(
        "CREATE TABLE t (id text PRIMARY KEY, big text, v int)",
        "ALTER TABLE t ALTER id SET STORAGE EXTERNAL, ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT string_agg(md5(i::text), ''), repeat('x', 9000), 1 FROM generate_series(1, 80) i",
    )
    [(key,)] = ground.all("SELECT id FROM t")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("UPDATE t SET v = 2")
    assert summary(followed(source, cursor, ground.chosen(), 1)[0]) == [("UPDATE", {"id": key, "big": "x" * 9000, "v": 2})]


def test_a_key_that_was_changed_since_does_not_change_what_changes_before_it_tell(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, code int NOT NULL)", "INSERT INTO t VALUES (1, 7)")
    source = ground.source(tail=True)
    pieces = source.follow(source.plan(ground.chosen(), 1).cursor, ground.chosen(), lambda: False)
    next(pieces)
    ground.run(
        "DELETE FROM t", "ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t ADD PRIMARY KEY (code)", "INSERT INTO t VALUES (2, 8)"
    )
    assert summary(list(next(piece for piece in pieces if piece.messages).messages)) == [("DELETE", {"id": 1})]
    # A document that was copied under the old key would stay for ever.
    with pytest.raises(Differs, match=r"told apart by .code., and were by .id."):
        next(pieces)


def test_columns_that_the_server_makes_are_in_neither_the_copy_nor_the_changes(ground: PostgresGround) -> None:
    ground.run(
        "CREATE TABLE t (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, big text)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t (id, a, big) VALUES (1, 1, repeat('x', 9000))",
    )
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("UPDATE t SET a = 2")
    [changed] = followed(source, cursor, ground.chosen(), 1)[0]
    assert copied(source, ground.chosen()) == [changed.data] == [{"id": 1, "a": 2, "big": "x" * 9000}]
    assert copied(ground.source(), ground.chosen())[0]["twice"] == 4
    ground.run("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (twice)")
    with pytest.raises(BadConfig, match="twice"):
        source.plan(ground.chosen(), 1)


@pytest.mark.parametrize(
    ("settings", "missing"), [("FOR TABLE p WITH (publish = 'insert')", "kinds of changes"), ("FOR ALL TABLES", "names of its partitions")]
)
def test_a_publication_that_leaves_changes_out_is_refused(ground: PostgresGround, settings: str, missing: str) -> None:
    ground.run("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE part PARTITION OF p DEFAULT")
    ground.run(f"CREATE PUBLICATION {ground.name} {settings}")
    source = ground.source(tail=True)
    for ask in (lambda: source.check("source", ground.chosen()), lambda: source.plan(ground.chosen(), 1)):
        with pytest.raises(BadConfig, match=missing) as refused:
            ask()
    assert ground.all(f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{ground.name}'") == [(0,)]
    ground.run(refused.value.hint.partition("run: ")[2], f"ALTER PUBLICATION {ground.name} SET (publish_via_partition_root = true)")
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO p VALUES (1)", "DELETE FROM p")
    assert summary(followed(source, cursor, ground.chosen(), 2)[0]) == [("INSERT", {"id": 1}), ("DELETE", {"id": 1})]


def test_a_slot_of_another_database_is_refused_before_the_copy(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    ground.source(tail=True).plan(ground.chosen(), 1)
    name = f"other_{ground.name}"
    ground.run(f"CREATE DATABASE {name}")
    uri = ground.uri.rpartition("/")[0] + f"/{name}"
    try:
        with psycopg.connect(uri, autocommit=True) as link:
            link.execute("CREATE TABLE t (id int PRIMARY KEY)")
        other = msgspec.structs.replace(ground.source(tail=True), uri=uri)
        for ask in (lambda: other.check("source", Namespaces()), lambda: other.plan(Namespaces(), 1)):
            with pytest.raises(BadConfig, match="to the database postgres"):
                ask()
    finally:
        ground.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_large_values_that_did_not_change_are_not_lost(ground: PostgresGround) -> None:
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


def test_pieces_stay_small_where_large_values_did_not_change(ground: PostgresGround) -> None:
    """The stream itself is small: it does not have them, and they are read from the table."""
    ground.run(
        "CREATE TABLE t (id int PRIMARY KEY, big text, v int)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT i, repeat('x', 200000), 1 FROM generate_series(1, 100) i",
    )
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("UPDATE t SET v = 2")
    sizes: list[int] = []
    for piece in source.follow(cursor, ground.chosen(), lambda: sum(sizes) >= 100 * 200_000):
        sizes.append(sum(len(one.data["big"]) for one in piece.messages if one.op is Op.UPDATE))
        assert len(sizes) < 100
    assert sum(sizes) == 100 * 200_000
    assert max(sizes) < 8 << 20


def test_pieces_stay_small_where_rows_have_many_nulls(ground: PostgresGround) -> None:
    """The stream has a byte for a null, and the document the name of its column."""
    names = ", ".join(f"a_column_with_a_rather_long_name_{number:03d} int" for number in range(400))
    ground.run(f"CREATE TABLE t (id int PRIMARY KEY, {names})")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t SELECT generate_series(1, 600)")
    sizes: list[int] = []
    counts: list[int] = []
    for piece in source.follow(cursor, ground.chosen(), lambda: sum(counts) >= 600):
        counts.append(sum(one.op is Op.INSERT for one in piece.messages))
        sizes.append(sum(len(values.encode(one.data)) for one in piece.messages))
        assert len(sizes) < 100
    assert (sum(counts), sum(sizes) > 8 << 20, max(sizes) < 5 << 20) == (600, True, True)


def test_an_index_can_be_the_identity(ground: PostgresGround) -> None:
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


def test_a_slot_that_is_gone_is_an_error(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(f"SELECT pg_drop_replication_slot('{ground.name}')")
    with pytest.raises(OffsetGone, match="slot"):
        next(source.follow(cursor, ground.chosen(), lambda: False))


def test_a_server_that_was_restored_from_an_older_copy_is_told(ground: PostgresGround) -> None:
    """Its slot would give no change that is committed before the cursor, without an error."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    with pytest.raises(OffsetGone, match="before the cursor FFFF/0: it is an older copy"):
        next(source.follow({"lsn": "FFFF/0", "seen": 0}, ground.chosen(), lambda: False))


def test_a_table_that_is_refused_is_not_published(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (v int)")
    with pytest.raises(BadConfig, match="has no replica identity"):
        ground.source(tail=True).plan(ground.chosen(), 1)
    assert ground.all(f"SELECT count(*) FROM pg_publication WHERE pubname = '{ground.name}'") == [(0,)]


def test_a_user_who_may_replicate_but_not_publish_is_told_what_to_ask_for(ground: PostgresGround) -> None:
    """Publishing takes an owner of the tables; following does not."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    uri = ground.stranger("SELECT")
    ground.run(f"ALTER ROLE {ground.name} REPLICATION")
    source = msgspec.structs.replace(ground.source(tail=True), uri=uri)
    for ask in (lambda: source.check("source", ground.chosen()), lambda: source.plan(ground.chosen(), 1)):
        with pytest.raises(Forbidden) as refused:
            ask()
        assert f'CREATE PUBLICATION "{ground.name}" FOR TABLE "{ground.name}"."t"' in refused.value.hint
    ground.run(refused.value.hint.partition("run: ")[2])
    assert any("will be made" in line for line in source.check("source", ground.chosen()))
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1)")
    assert summary(followed(source, cursor, ground.chosen(), 1)[0]) == [("INSERT", {"id": 1})]


def test_a_table_that_is_made_later_joins_when_the_copy_is_planned_anew(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE a (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    ground.run("CREATE TABLE b (id int PRIMARY KEY)")
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)")
    assert [one.namespace for one in followed(source, cursor, ground.chosen(), 2)[0]] == [f"{ground.name}.a", f"{ground.name}.b"]
