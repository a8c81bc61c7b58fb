"""The adaptors of PostgreSQL and MariaDB against real servers: copying tables, following changes, connecting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from sql_ground import SERVERS, Ground, a_ground, copied, documents, followed, summary, travelled, write

from headwater.core.errors import BadConfig, Denied, Differs, Forbidden, NotFound, Unreachable
from headwater.pipeline import values
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import Slice


@pytest.fixture(params=SERVERS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with a_ground(request) as made:
        yield made


# -- copy -------------------------------------------------------------------------------------------------------


def test_slices_by_key_hold_every_row_once_in_order(ground: Ground) -> None:
    ground.run("CREATE TABLE orders (id bigint PRIMARY KEY, note text)")
    ground.fill("orders", (f"({n * 7}, 'n{n}')" for n in range(1, 5001)))
    source = ground.source()
    plan = source.plan(ground.chosen(), 4)
    assert len(plan.slices) == 4
    assert plan.ids == {f"{ground.name}.orders": ("id",)}
    parts = [[one["id"] for one in documents(source.read(part, None))] for part in plan.slices]
    assert [one for part in parts for one in part] == [n * 7 for n in range(1, 5001)]
    assert [len(part) for part in parts] == [1250] * 4
    assert source.same(plan, ground.chosen())


def test_the_size_of_a_copy_is_what_the_server_believes_of_its_tables(ground: Ground) -> None:
    ground.run("CREATE TABLE orders (id bigint PRIMARY KEY, note text)", "CREATE TABLE idle (id bigint PRIMARY KEY)")
    assert ground.source().plan(ground.chosen(), 2).size is None  # it has nothing to believe in
    ground.fill("orders", (f"({n}, 'n{n}')" for n in range(5000)))
    ground.run(f"ANALYZE {'TABLE ' if ground.system == 'mysql' else ''}orders")
    size = ground.source().plan(ground.chosen(), 2).size
    assert size is not None
    assert (size.unit, size.estimate) == ("documents", True)
    assert 2500 < size.total < 10_000


def test_a_slice_goes_on_behind_its_position(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.small_pieces(monkeypatch)
    ground.run("CREATE TABLE t (a varchar(20), b int, at timestamp(3), v text, PRIMARY KEY (b, at, a))")
    ground.fill("t", (f"('k''{n}', {n % 10}, '2020-01-01 00:00:{n // 100:02}.5', 'xxxxxxxxxx')" for n in range(1000)))
    source = ground.source()
    for part in source.plan(ground.chosen(), 2).slices:
        part = msgspec.json.decode(msgspec.json.encode(part), type=Slice)
        pieces = list(source.read(part, None))
        assert len(pieces) > 3
        whole = documents(iter(pieces))
        for at in (0, 2):
            assert documents(iter(pieces[: at + 1])) + documents(source.read(part, travelled(pieces[at].position))) == whole
    assert len(copied(source, ground.chosen(), 3)) == 1000


def test_a_table_without_a_key_is_one_slice_and_resumes_too(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.small_pieces(monkeypatch)
    ground.run("CREATE TABLE t (v text)")
    ground.fill("t", (f"('({n},1)')" for n in range(2500)))
    source = ground.source()
    plan = source.plan(ground.chosen(), 4)
    assert len(plan.slices) == 1
    assert plan.ids == {}
    pieces = list(source.read(plan.slices[0], None))
    assert len(pieces) > 2
    assert [one["v"] for one in documents(iter(pieces))] == [f"({n},1)" for n in range(2500)]
    assert documents(iter(pieces[:2])) + documents(source.read(plan.slices[0], pieces[1].position)) == documents(iter(pieces))


def test_a_table_that_changed_under_the_plan_is_noticed(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = ground.source()
    plan = source.plan(ground.chosen(), 1)
    ground.run("DROP TABLE t")
    assert not source.same(plan, ground.chosen())
    with pytest.raises(Differs):
        list(source.read(plan.slices[0], None))


def test_copied_and_followed_values_are_the_same_and_come_back_the_same(ground: Ground) -> None:
    ground.run(f"CREATE TABLE typed ({ground.typed})")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.fill("typed", ground.typed_rows)
    there = copied(ground.source(), ground.chosen())
    changes, _ = followed(source, cursor, ground.chosen(), 3)
    assert repr([one.data for one in changes]) == repr(there)  # NaN equals nothing
    assert [values.canonical(one.id) for one in changes] == [b"1", b"2", b"3"]
    # And into a table of the same columns, from where they are read back.
    ground.run(f"CREATE TABLE back ({ground.typed})")
    sink = ground.sink()
    write(sink, [Message("back", one, offset=number, id_fields=("id",)) for number, one in enumerate(there)])
    assert list(map(values.canonical, sink.rows("back"))) == [values.canonical(sink.stored(one)) for one in there]
    assert repr(copied(ground.source(), ground.chosen("back"))) == repr(there)
    assert not ground.differ("typed", "back")


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
    ground.fill("t", (f"({n}, 0)" for n in range(1, 101)))
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
    monkeypatch.setattr(f"headwater.adaptors.{ground.system}.tail.PIECE_MESSAGES", 7)
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("BEGIN", *(f"INSERT INTO t VALUES ({n}, 'a'), ({n + 1}, 'b')" for n in range(1, 20, 2)), "COMMIT")
    ground.rotate()
    ground.run("ALTER TABLE t ADD COLUMN w int")
    ground.fill("t", (f"({n}, '{'x' * 3000}', {n})" for n in range(21, 46)))
    seen: list[Message] = []
    for _ in range(40):  # a new connection each time, cut inside of transactions too
        found, cursor = followed(source, cursor, ground.chosen(), 1)
        seen += found
        if len(seen) >= 45:
            break
    assert [one.data["id"] for one in seen] == list(range(1, 46))
    assert seen[19].data == {"id": 20, "v": "b"}
    assert seen[20].data == {"id": 21, "v": "x" * 3000, "w": 21}


def test_a_table_that_is_changed_while_it_is_followed_comes_as_it_is_from_then_on(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(20), w int)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    pieces = source.follow(cursor, ground.chosen(), lambda: False)

    def after(*statements: str) -> dict[str, Any]:
        ground.run(*statements)
        return next(piece for piece in pieces if piece.messages).messages[0].data

    assert after("INSERT INTO t VALUES (1, 'a', 1)") == {"id": 1, "v": "a", "w": 1}
    assert after("ALTER TABLE t ADD COLUMN x int", "INSERT INTO t VALUES (2, 'b', 2, 3)") == {"id": 2, "v": "b", "w": 2, "x": 3}
    assert after(*ground.to_bytes("t", "v"), "DELETE FROM t WHERE id = 1") == {"id": 1}
    assert after("INSERT INTO t VALUES (3, 'c', 2, 3)") == {"id": 3, "v": {"$binary": {"base64": "Yw==", "subType": "00"}}, "w": 2, "x": 3}
    assert after("ALTER TABLE t DROP COLUMN w", "INSERT INTO t (id) VALUES (4)") == {"id": 4, "v": None, "x": None}
    pieces.close()  # type: ignore[attr-defined]


def test_a_change_behind_many_of_others_is_found_before_following_says_that_nothing_is_new(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty piece ends a run that does not wait for more."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    cursor = source.plan(ground.chosen("t"), 1).cursor
    for start in range(0, 3000, 500):
        ground.fill("other", (f"({number})" for number in range(start, start + 500)))
    ground.run("INSERT INTO t VALUES (1)")
    monkeypatch.setattr(f"headwater.adaptors.{ground.system}.tail.PIECE_BYTES", 2000)
    if ground.system == "postgres":  # a server may take a while to find the first one
        monkeypatch.setattr("headwater.adaptors.postgres.tail.WAIT", 0.0)
    found: list[Message] = []
    for piece in source.follow(cursor, ground.chosen("t"), lambda: False):
        if not piece.messages:
            break
        found += piece.messages
    assert [one.data for one in found if one.op != Op.NOOP] == [{"id": 1}]


def test_an_idle_server_gives_empty_pieces_and_the_stop_is_seen(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    seen: list[int] = []
    for piece in source.follow(cursor, ground.chosen(), lambda: len(seen) >= 2):
        # A note that the log goes on is no change: other tests write to the server meanwhile.
        seen.append(len([message for message in piece.messages if message.op != Op.NOOP]))
    assert seen == [0, 0]


def test_a_connection_that_is_cut_while_following_says_so_and_can_be_taken_up(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1)")
    pieces = source.follow(cursor, ground.chosen(), lambda: False)
    given = next(piece for piece in pieces if piece.messages)
    ground.kill(ground.following()[0])
    with pytest.raises(Unreachable):
        for _ in range(60):
            next(pieces)
    ground.run("INSERT INTO t VALUES (2)")
    assert [one.data for one in followed(source, given.position, ground.chosen(), 1)[0]] == [{"id": 2}]


def test_a_table_whose_rows_cannot_be_told_apart_cannot_be_followed(ground: Ground) -> None:
    ground.run("CREATE TABLE t (v int)")
    for ask in (
        lambda: ground.source(tail=True).plan(ground.chosen(), 1),
        lambda: ground.source(tail=True).check("source", ground.chosen()),
    ):
        with pytest.raises(BadConfig, match="cannot be followed") as refused:
            ask()
        assert "primary key" in refused.value.hint
    assert ground.following() == []


# -- connecting -------------------------------------------------------------------------------------------------


def test_check_says_what_is_there(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    lines = ground.source(tail=True).check("source", ground.chosen())
    assert any(f"{ground.name}.t" in line for line in lines)
    assert any(ground.follows in line for line in lines)
    assert any("exactly once" in line for line in ground.sink().check("sink", ground.chosen()))
    assert ground.remembers() == []
    with pytest.raises(NotFound):
        ground.source().check("source", ground.chosen("none"))


def test_errors_never_show_the_password(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(uri: str) -> None:
        msgspec.structs.replace(ground.source(), uri=uri).check("source", Namespaces())

    monkeypatch.setenv("HEADWATER_TEST_SQL", ground.uri.replace("headwater:headwater@", "headwater:sesame-42@"))
    with pytest.raises(Denied) as denied:
        at("${HEADWATER_TEST_SQL}")
    assert "sesame" not in repr(denied.value) + str(denied.value.__cause__)
    with pytest.raises(Unreachable) as away:
        at(ground.away)
    assert "127.0.0.1:1/db" in str(away.value)
    assert "sesame" not in str(away.value)
    for odd in ground.no_uris:
        with pytest.raises(BadConfig) as refused:
            at(odd)
        assert "sesame" not in str(refused.value)


def test_rights_that_are_missing_are_told_before_a_run(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    uri = ground.stranger("SELECT")
    reader = msgspec.structs.replace(ground.source(), uri=uri)
    assert any(f"{ground.name}.t" in line for line in reader.check("source", ground.chosen()))
    for role, adaptor in (
        ("source", msgspec.structs.replace(ground.source(tail=True), uri=uri)),
        ("sink", msgspec.structs.replace(ground.sink(), uri=uri)),
    ):
        with pytest.raises(Forbidden) as refused:
            adaptor.check(
                role,  # type: ignore[arg-type]
                ground.chosen(),
            )
        assert "grant" in refused.value.hint.lower() or "ALTER ROLE" in refused.value.hint
        assert "sesame" not in repr(refused.value)
    assert ground.remembers() == []
