"""The adaptors of PostgreSQL and MariaDB against real servers: writing, exactly once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from sql_ground import SERVERS, Ground, a_ground, eventually, insert, part, write

from headwater.adaptors.sql.table import COMMITTED, EPOCH, OWNER
from headwater.core.errors import Fenced, NotFound, Rejected, Timeout, Unavailable, Unreachable
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch


@pytest.fixture(params=SERVERS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with a_ground(request) as made:
        yield made


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


def test_an_operator_can_send_a_range_again_without_moving_anything(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    sink = ground.sink()
    sink.begin("p", "s", 1)
    write(sink, [insert(n, id=n, v=1) for n in range(4)], epoch=1)
    ground.run("DELETE FROM t")
    write(sink, [insert(n, id=n, v=2) for n in range(1, 3)], 1, epoch=1, again=True)
    assert ground.all("SELECT id, v FROM t ORDER BY id") == [(1, 2), (2, 2)]
    with pytest.raises(Rejected) as refused:
        write(sink, [insert(1, id=1, v=3), insert(2, id=2, v="x")], 1, epoch=1, again=True)
    assert refused.value.offset == 2
    assert ground.all("SELECT id, v FROM t ORDER BY id") == [(1, 3), (2, 2)]
    assert sink.begin("p", "s", 1) == [(0, 4)]


def test_two_attempts_at_one_batch_at_once_write_it_once(ground: Ground) -> None:
    """As when a task is run again while the first one, thought dead, is still writing."""
    ground.run("CREATE TABLE t (v int)")
    sink = ground.sink()
    sink.begin("p", "s", 1)
    rows = [Message("t", {"v": n}, offset=n) for n in range(10)]
    threads = [threading.Thread(target=write, args=(sink, rows), kwargs={"epoch": 1}) for _ in range(2)]
    with ground.locked("t"):
        for thread in threads:
            thread.start()
        eventually(lambda: len(ground.waiting()) == 2)
    for thread in threads:
        thread.join(120)
    assert ground.all("SELECT count(*), count(DISTINCT v) FROM t") == [(10, 10)]
    assert sink.begin("p", "s", 1) == [(0, 10)]


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


@pytest.mark.parametrize("bad", [0, 13, 99])
def test_a_poison_message_is_named_exactly_and_what_is_before_it_is_taken(ground: Ground, bad: int) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v < 100))")
    sink = ground.sink()
    messages = [insert(1000 + n, id=n, v=n) for n in range(100)]
    messages[bad] = insert(1000 + bad, id=bad, v=1000)
    if bad + 5 < 100:
        messages[bad + 5] = insert(1000 + bad + 5, id=bad + 5, v="no number")
    with pytest.raises(Rejected, match="refuses") as refused:
        write(sink, messages, 1000)
    assert refused.value.offset == 1000 + bad
    assert refused.value.before_taken
    assert ground.all("SELECT count(*) FROM t") == [(bad,)]
    assert sink.begin("p", "s", 1) == ([(1000, 1000 + bad)] if bad else [])
    messages[bad] = insert(1000 + bad, id=bad, v=1)
    if bad + 5 < 100:
        messages[bad + 5] = insert(1000 + bad + 5, id=bad + 5, v=2)
    write(sink, messages, 1000, epoch=1)
    assert ground.all("SELECT count(*) FROM t") == [(100,)]


@pytest.mark.parametrize(("table", "create"), [(COMMITTED, False), (EPOCH, True), (OWNER, False)])
def test_no_message_reaches_the_tables_that_say_what_was_taken(ground: Ground, table: str, create: bool) -> None:
    sink = ground.sink(create=create)
    sink.begin("p", "s", 1)
    sink.claim(SinkClaim(pipeline="p", sink="s", epoch=1, process="a", log="b"))
    before = ground.all(f"SELECT * FROM {table}")
    for message in (
        Message(table, {"pipeline": "p", "sink": "s", "epoch": 9, "note": ""}, id_fields=("pipeline", "sink"), offset=7),
        Message(table, {"command": "truncate"}, Op.COMMAND, offset=7),
    ):
        with pytest.raises(Rejected, match=f"{table} is a table of the sink's own") as refused:
            write(sink, [message], 7, epoch=1)
        assert (refused.value.offset, ground.all(f"SELECT * FROM {table}")) == (7, before)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"id": 1, "w": 1}, "no column w"),
        ({"v": 1}, "lacks a value for id"),
        ({"id": 1, "v": "much too long"}, "too long"),
        ({"id": 2**70, "v": "x"}, "(?i)out of range"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(ground: Ground, data: dict[str, Any], says: str) -> None:
    ground.run("CREATE TABLE t (id bigint PRIMARY KEY, v varchar(5))")
    with pytest.raises(Rejected, match=says) as refused:
        write(ground.sink(), [insert(3, id=5), Message("t", data, offset=4, id_fields=("id",))], 3)
    assert refused.value.offset == 4
    assert ground.all("SELECT id FROM t") == [(5,)]


def test_a_connection_killed_in_the_middle_of_a_write_leaves_nothing_half_done(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    sink = ground.sink()
    rows = [insert(n, id=n) for n in range(10)]
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            write(sink, rows)
        except Unavailable as error:
            failed.append(error)

    with ground.holding("INSERT INTO t VALUES (5)"):  # which the write has to wait for
        thread = threading.Thread(target=attempt)
        thread.start()
        eventually(lambda: bool(ground.waiting()))
        ground.kill(ground.waiting()[0])
        thread.join(120)
    assert [type(error) for error in failed] == [Unreachable]
    assert ground.all("SELECT count(*) FROM t") == [(0,)]
    assert sink.begin("p", "s", 1) == []
    write(sink, rows, epoch=1)
    assert ground.all("SELECT count(*) FROM t") == [(10,)]


def test_a_batch_that_takes_too_long_ends_with_the_timeouts_name(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    with ground.holding("SELECT 1 FROM t FOR UPDATE"), pytest.raises(Timeout, match=r"0\.3 s"):
        write(ground.sink(), [insert(0, id=1, v=2)], timeout=0.3)
    assert ground.sink().begin("p", "s", 1) == []
    assert ground.all("SELECT v FROM t") == [(1,)]


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
    assert ground.types("t") == ground.made
    assert next(iter(sink.rows("t"))) == sink.stored(rows[0].data)
    assert ground.all("SELECT count(*) FROM t") == [(3,)]


def test_many_committed_batches_are_put_together(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.adaptors.sql.state.MANY", 10)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    sink = ground.sink()
    sink.begin("p", "s", 1)
    writer = sink.writer(part(epoch=1))
    for n in range(15):
        writer.write(Batch(start=n, end=n + 1, messages=[insert(n, id=n)]))
    writer.close()
    sink.writer(part(epoch=1)).close()
    assert ground.all("SELECT start_offset, end_offset FROM headwater_committed") == [(0, 15)]


def test_a_user_who_may_make_tables_but_no_schemas_can_use_create(ground: Ground) -> None:
    rights = ("ALL",) if ground.system == "postgres" else ("CREATE, SELECT, INSERT, UPDATE, DELETE",)
    uri = ground.stranger(*rights)
    if ground.system == "postgres":
        ground.run(f"GRANT CREATE ON SCHEMA {ground.name} TO {ground.name}")
    sink = msgspec.structs.replace(ground.sink(create=True), uri=uri)
    assert any("exactly once" in line for line in sink.check("sink", ground.chosen()))
    sink.begin("p", "s", 1)
    write(sink, [insert(0, id=1)], epoch=1)
    assert ground.all("SELECT id FROM t") == [(1,)]


def test_a_right_that_is_missing_is_no_messages_fault(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    ground.sink().begin("p", "s", 0)
    sink = msgspec.structs.replace(ground.sink(), uri=ground.stranger("SELECT"))
    for kept in ("headwater_committed", "headwater_epoch"):
        ground.run(f"GRANT INSERT, UPDATE, DELETE ON {kept} TO {ground.name}")
    with pytest.raises(Unavailable, match="denied") as refused:
        write(sink, [insert(0, id=1)])
    assert "Grant" in refused.value.hint
    assert ground.all("SELECT * FROM headwater_committed") == []


CHANGED: list[tuple[str, Any, str]] = [
    ("numeric(10,2)", Decimal("1.234"), "1.234"),
    ("numeric(10,2)", 1.005, "1.005"),
    ("numeric(30,0)", Decimal("0.5"), "0.5"),
    ("double precision", 2**53 + 1, "9007199254740993"),
    ("double precision", Decimal("1e-400"), "1E-400"),
    ("float4", 16777217, "16777217"),
    ("timestamp(0)", {"$date": "2024-02-29T12:00:00.999Z"}, "12:00:00.999"),
    ("timestamp(3)", "2024-02-29 12:00:00.1239", "00.1239"),
    ("date", {"$date": "2024-02-29T12:00:00Z"}, "T12:00:00"),
    ("varchar(5)", "abcde  ", "abcde  "),
    ("time(0)", "12:30:00.9", "12:30:00.9"),
]


def test_a_value_that_the_column_would_change_is_refused(ground: Ground) -> None:
    columns = ", ".join(f"c{number} {declared} NULL" for number, (declared, _, _) in enumerate(CHANGED))
    ground.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    for offset, (_, value, shown) in enumerate(CHANGED):
        with pytest.raises(Rejected, match=rf"The column c{offset} of .*, .+, would change the value .*{shown}") as refused:
            write(ground.sink(), [insert(offset, id=offset, **{f"c{offset}": value})], offset)
        assert refused.value.offset == offset
    assert ground.all("SELECT id FROM t") == []


def test_what_a_column_holds_as_it_is_comes_back_so(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(10,2), d double precision, f float4, at timestamp(3) NULL, day date, v varchar(5))"
    )
    kept = {"n": Decimal("1.20"), "d": 0.1, "f": 0.5, "at": {"$date": "2024-02-29T12:00:00.123Z"}}
    kept |= {"day": {"$date": "2024-02-29T00:00:00.000Z"}, "v": "abc  "}
    sink = ground.sink()
    write(sink, [insert(0, id=1, **kept)])
    assert list(sink.rows("t")) == [sink.stored({"id": 1, **kept})]


def test_nanoseconds_are_cut(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp(6) NULL)")
    sink = ground.sink()
    write(sink, [insert(0, id=1, at={"$date": "2024-02-29T23:59:59.999999999Z"})])
    assert next(iter(sink.rows("t")))["at"] == {"$date": "2024-02-29T23:59:59.999999Z"}
