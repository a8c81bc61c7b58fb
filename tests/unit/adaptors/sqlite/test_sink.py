"""What the SQLite sink keeps beside the rows: what was taken, and by which run."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from headwater.adaptors.sqlite.adaptor import Sqlite
from headwater.adaptors.sqlite.columns import cell, cells
from headwater.core.errors import Fenced, Rejected, Timeout, Unavailable
from headwater.pipeline.adaptors import sqlite
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.store.sqlite.database import Database


@pytest.fixture
def sink(tmp_path: Path) -> Sqlite:
    adaptor = sqlite(str(tmp_path / "out.db"), table="t")
    assert adaptor.begin("p", "s", 1) == []
    return adaptor


def write(adaptor: Sqlite, *ranges: tuple[int, int], bucket: int = 0, buckets: int = 1, tag: str = "first", again: bool = False) -> None:
    """Batches of these ranges, by one writer; a share has the offsets that are its number modulo their count."""
    part = Part(pipeline="p", sink="s", start=0, end=1000, bucket=bucket, buckets=buckets, epoch=1, again=again)
    with closing(adaptor.writer(part)) as writer:
        for start, end in ranges:
            offsets = [offset for offset in range(start, end) if offset % buckets == bucket]
            messages = [Message("t", {"_id": offset, "tag": tag}, offset=offset) for offset in offsets]
            writer.write(Batch(start=start, end=end, messages=messages))


def noted(adaptor: Sqlite) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(str(adaptor.path))) as db:
        return db.execute("select start, stop, bucket, buckets from headwater_ranges order by 1, 2, 3").fetchall()


def tags(adaptor: Sqlite) -> dict[int, str]:
    return {row["_id"]: row["tag"] for row in adaptor.rows("t")}


def test_ranges_that_touch_are_one_row_however_they_come(sink: Sqlite) -> None:
    write(sink, *((offset, offset + 1) for offset in range(20)))
    assert noted(sink) == [(0, 20, 0, 1)]
    write(sink, (40, 50), (30, 40))
    assert noted(sink) == [(0, 20, 0, 1), (30, 50, 0, 1)]
    write(sink, (15, 35))
    assert noted(sink) == [(0, 50, 0, 1)]
    assert sink.begin("p", "s", 1) == [(0, 50)]


def test_a_batch_within_what_was_taken_is_not_written_again(sink: Sqlite) -> None:
    write(sink, (0, 10), (10, 20), (30, 40))
    write(sink, (3, 4), (8, 15), (30, 40), tag="second")
    assert set(tags(sink).values()) == {"first"}
    write(sink, (15, 25), tag="second")  # some of it is new
    assert {offset for offset, tag in tags(sink).items() if tag == "second"} == set(range(15, 25))
    write(sink, (0, 2), tag="third", again=True)
    assert {offset for offset, tag in tags(sink).items() if tag == "third"} == {0, 1}
    assert noted(sink) == [(0, 25, 0, 1), (30, 40, 0, 1)]


def test_shares_become_whole_once_all_are_there(sink: Sqlite) -> None:
    write(sink, (0, 10), bucket=0, buckets=2)
    write(sink, (0, 10), bucket=0, buckets=2, tag="second")
    assert set(tags(sink).values()) == {"first"}
    assert noted(sink) == [(0, 10, 0, 2)]
    write(sink, (0, 10), bucket=1, buckets=2)
    assert noted(sink) == [(0, 10, 0, 1)]
    write(sink, (0, 10), bucket=1, buckets=2, tag="second")  # a share of what is whole
    assert set(tags(sink).values()) == {"first"}
    write(sink, (10, 20), bucket=0, buckets=2)
    write(sink, (10, 20), bucket=1, buckets=2)
    assert noted(sink) == [(0, 20, 0, 1)]


def test_an_older_run_moves_no_position(sink: Sqlite) -> None:
    write(sink, (0, 10))
    sink.begin("p", "s", 2)
    with pytest.raises(Fenced):
        sink.forget("p", "s", -1, 1)
    assert noted(sink) == [(0, 10, 0, 1)]
    sink.forget("p", "s", 4, 2)
    assert noted(sink) == [(0, 5, 0, 1)]


_LOCKING = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
db.execute("begin immediate")
print("locked", flush=True)
sys.stdin.read()
db.execute("rollback")
"""


@contextmanager
def locked(adaptor: Sqlite) -> Iterator[None]:
    """Another process holds the lock that writers take."""
    command = [sys.executable, "-c", _LOCKING, str(adaptor.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        yield
        other.communicate()
    assert other.returncode == 0


def test_a_lock_of_somebody_else_is_waited_for_and_named(sink: Sqlite) -> None:
    part = Part(pipeline="p", sink="s", start=0, end=1, epoch=1, timeout=0.05)
    with closing(sink.writer(part)) as writer:
        with locked(sink), pytest.raises(Timeout, match=r"was locked by another program for 0\.05 s") as no:
            writer.write(Batch(start=0, end=1, messages=[Message("t", {"_id": 1}, offset=0)]))
        assert "timeout=" in no.value.hint
        writer.write(Batch(start=0, end=1, messages=[Message("t", {"_id": 1}, offset=0)]))
    assert noted(sink) == [(0, 1, 0, 1)]


def test_readers_of_the_file_take_no_lock_away_from_another_part_of_the_process(sink: Sqlite) -> None:
    """A process that closes a file loses its POSIX locks on it, unless one library knows of all that is open."""
    with Database(Path(str(sink.path)), synced=True) as database, database.transaction() as transaction:
        transaction.rows("create table t (_id)")
        assert not list(sink.rows("t"))  # opens and closes the file
        other = subprocess.run([sys.executable, "-c", _LOCKING, str(sink.path)], input="", capture_output=True, text=True)
        assert "database is locked" in other.stderr


@pytest.fixture
def any_table(tmp_path: Path) -> Sqlite:
    adaptor = sqlite(str(tmp_path / "any.db"))
    adaptor.begin("p", "s", 1)
    return adaptor


def give(adaptor: Sqlite, *messages: Message) -> None:
    start, end = messages[0].offset, messages[-1].offset + 1
    with closing(adaptor.writer(Part(pipeline="p", sink="s", start=start, end=end, epoch=1))) as writer:
        writer.write(Batch(start=start, end=end, messages=messages))


def test_a_truncate_empties_the_table_in_its_place_among_the_rows(any_table: Sqlite) -> None:
    truncate = [Message(name, {"command": "truncate"}, Op.COMMAND, offset=number) for number, name in ((1, "t"), (3, "never"))]
    give(any_table, Message("t", {"_id": 1}, offset=0), truncate[0], Message("t", {"_id": 2}, offset=2), truncate[1])
    assert list(any_table.rows("t")) == [{"_id": 2}]
    with pytest.raises(Rejected, match="does not know the command") as no:
        give(any_table, Message("t", {"command": "explode"}, Op.COMMAND, offset=4))
    assert no.value.offset == 4


@pytest.mark.parametrize("table", ["headwater_ranges", "HEADWATER_RUNS", "headwater_owners"])
def test_no_message_reaches_the_tables_that_say_what_was_taken(any_table: Sqlite, table: str) -> None:
    row = {"pipeline": "p", "sink": "s", "epoch": 9, "note": "", "start": 0, "stop": 9, "bucket": 0, "buckets": 1}
    for message in (
        Message(table, row, id_fields=("pipeline", "sink"), offset=7),
        Message(table, {"command": "truncate"}, Op.COMMAND, offset=7),
    ):
        with pytest.raises(Rejected, match=f"{table} is a table of the sink's own") as refused:
            give(any_table, message)
        assert refused.value.offset == 7
    assert (noted(any_table), any_table.begin("p", "s", 1)) == ([], [])


def test_a_table_that_namespaces_share_is_not_emptied_for_one_of_them(sink: Sqlite) -> None:
    give(sink, Message("a", {"_id": 1}, offset=0), Message("b", {"_id": 2}, offset=1))
    with pytest.raises(Rejected, match="which all namespaces share") as no:
        give(sink, Message("b", {"command": "truncate"}, Op.COMMAND, offset=2))
    assert no.value.offset == 2
    assert len(list(sink.rows("t"))) == 2


def test_a_field_is_not_taken_for_a_failing_machine_by_its_name(any_table: Sqlite) -> None:
    """SQLite's columns have no case: it refuses the second of these in words that hold its name."""
    with pytest.raises(Rejected, match="duplicate column"):
        give(any_table, Message("t", {"_id": 1, "locked": 1}, offset=0), Message("t", {"_id": 2, "Locked": 1}, offset=1))


@pytest.mark.parametrize("damage", ["overwritten", "emptied"])
def test_a_database_that_is_damaged_is_no_messages_fault(any_table: Sqlite, damage: str) -> None:
    with closing(any_table.writer(Part(pipeline="p", sink="s", start=0, end=9, epoch=1))) as writer:
        writer.write(Batch(start=0, end=1, messages=[Message("t", {"_id": 1}, offset=0)]))
    if damage == "overwritten":
        data = Path(str(any_table.path)).read_bytes()
        Path(str(any_table.path)).write_bytes(data[:100] + b"\xff" * (len(data) - 100))
    else:
        Path(str(any_table.path)).unlink()
    with pytest.raises(Unavailable):
        give(any_table, Message("t", {"_id": 2}, offset=1))


def test_a_column_that_another_writer_has_made_meanwhile_is_there(any_table: Sqlite) -> None:
    parts = [Part(pipeline="p", sink="s", start=0, end=9, epoch=1, bucket=bucket, buckets=2) for bucket in (0, 1)]
    with closing(any_table.writer(parts[0])) as one, closing(any_table.writer(parts[1])) as other:
        one.write(Batch(start=0, end=2, messages=[Message("t", {"_id": 1}, offset=0)]))
        other.write(Batch(start=0, end=2, messages=[Message("t", {"_id": 2, "late": 5}, offset=1)]))
        one.write(Batch(start=2, end=4, messages=[Message("t", {"_id": 1, "late": 7}, offset=2)]))
    assert sorted(row["late"] for row in any_table.rows("t")) == [5, 7]


def test_a_number_that_sqlite_has_not_is_refused(any_table: Sqlite) -> None:
    """SQLite itself would make null of it."""
    give(any_table, Message("t", {"_id": 1, "b": {"$numberDouble": "-Infinity"}}, offset=0))
    assert list(any_table.rows("t")) == [{"_id": 1, "b": float("-inf")}]
    with pytest.raises(Rejected, match=r'The column a of t is REAL, and the message has \{"\$numberDouble":"NaN"\} \(float\) there') as no:
        give(any_table, Message("t", {"_id": 2, "a": {"$numberDouble": "NaN"}}, offset=1))
    assert no.value.offset == 1


def test_values_are_stored_as_what_they_are(any_table: Sqlite) -> None:
    numbers = {"truth": True, "least": -(2**63), "most": 2**63 - 1, "more": 2**63}
    others = {"exact": Decimal("1.20"), "at": datetime(2024, 1, 2, tzinfo=UTC), "bytes": b"\x00", "text": "x\0y", "nested": [{"a": None}]}
    give(any_table, Message("t", {"_id": 1, **numbers, **others}, offset=0))
    stored = {"truth": 1, "least": -(2**63), "most": 2**63 - 1, "exact": 1.2, "text": "x\0y"}
    [row] = any_table.rows("t")
    assert row.pop("more") == {"$numberDecimal": "9223372036854775808E0"}
    assert row == {"_id": 1, **stored, "at": "2024-01-02T00:00:00+00:00", "bytes": b"\x00", "nested": '[{"a":null}]'}


@pytest.mark.parametrize("name", ["a\0b", "\0"])
def test_a_name_with_a_null_character_is_refused_with_its_message(any_table: Sqlite, name: str) -> None:
    with pytest.raises(Rejected):
        give(any_table, Message("t", {"_id": 1, name: 1}, offset=0))
    with pytest.raises(Rejected):
        give(any_table, Message(f"t{name}", {"_id": 1}, offset=0))
    assert noted(any_table) == []


def test_rows_may_come_before_those_that_they_refer_to(any_table: Sqlite) -> None:
    with closing(sqlite3.connect(str(any_table.path))) as db:
        db.execute("create table parent (_id primary key)")
        db.execute("create table child (_id primary key, parent references parent)")
    give(any_table, Message("child", {"_id": 1, "parent": 7}, offset=0))
    assert list(any_table.rows("child")) == [{"_id": 1, "parent": 7}]


def test_what_is_refused_for_its_value_is_the_messages_fault(any_table: Sqlite) -> None:
    with closing(sqlite3.connect(str(any_table.path))) as db:
        db.execute("create table t (_id integer primary key check (_id <> 2))")
    with pytest.raises(Rejected, match="CHECK constraint failed"):
        give(any_table, Message("t", {"_id": 1}, offset=0), Message("t", {"_id": 2}, offset=1))
    with pytest.raises(Rejected, match="datatype mismatch"):
        give(any_table, Message("t", {"_id": "one"}, offset=0))
    assert (noted(any_table), list(any_table.rows("t"))) == ([], [])


def test_a_writer_that_is_closed_blames_no_message(any_table: Sqlite) -> None:
    writer = any_table.writer(Part(pipeline="p", sink="s", start=0, end=1, epoch=1))
    writer.close()
    with pytest.raises(Unavailable, match="closed"):
        writer.write(Batch(start=0, end=1, messages=[Message("t", {"_id": 1}, offset=0)]))


def test_what_verify_expects_is_what_the_sink_gives_back(any_table: Sqlite) -> None:
    give(any_table, Message("t", {"_id": 1, "truth": True, "lie": False}, offset=0))
    (row,) = any_table.rows("t")
    expected = any_table.stored({"_id": 1, "truth": True, "lie": False})
    assert [(name, type(value), value) for name, value in sorted(row.items())] == [
        (name, type(value), value) for name, value in sorted(expected.items())
    ]


def test_a_float_that_is_no_number_is_not_stored_as_nothing() -> None:
    assert cells([1.5, float("nan"), None]) == [1.5, "NaN", None]
    assert cells([1.5, float("inf")]) == [1.5, float("inf")]
    assert cell(float("nan")) == "NaN"


def test_namespaces_that_differ_in_case_only_do_not_share_a_table(tmp_path: Path) -> None:
    adaptor = sqlite(str(tmp_path / "out.db"))
    adaptor.begin("p", "s", 1)
    part = Part(pipeline="p", sink="s", start=0, end=10, epoch=1)
    first, second = Message("Orders", {"_id": 1, "v": "a"}, offset=0), Message("orders", {"_id": 1, "v": "b"}, offset=1)
    with closing(adaptor.writer(part)) as writer:
        with pytest.raises(Rejected, match="takes orders for the table Orders") as refused:
            writer.write(Batch(start=0, end=2, messages=[first, second]))
        assert (refused.value.offset, refused.value.untouched) == (1, True)
        assert 'remap({"orders"' in refused.value.hint
        writer.write(Batch(start=0, end=1, messages=[first]))
        with pytest.raises(Rejected, match="another namespace"):
            writer.write(Batch(start=1, end=2, messages=[second]))
    assert list(adaptor.rows("Orders")) == [{"_id": 1, "v": "a"}]
