"""What the SQLite source reads."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.adaptors.sqlite import source
from headwater.core.errors import Unavailable, Unsupported
from headwater.pipeline import values
from headwater.pipeline.adaptors import sqlite
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import Piece
from headwater.pipeline.source_progress import CopySize


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as db, db:
        yield db


def pieces(path: Path, position: Any = None) -> list[Piece]:
    """The pieces of the one slice, from a position as the log gives it back."""
    adaptor = sqlite(str(path))
    [part] = adaptor.plan(Namespaces(), 1).slices
    return list(adaptor.read(part, values.decode_any(values.encode(position))))


def documents(found: list[Piece]) -> list[dict[str, Any]]:
    return [values.decode(one) for piece in found for one in piece.values]


@pytest.mark.parametrize("kind", ["blob", "text", "real", "integer"])
def test_reading_goes_on_behind_a_key_of_any_type(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_ROWS", 3)
    keys = {"blob": [bytes([n, 255]) for n in range(8)], "text": list("abcdefgh"), "real": [n / 7 for n in range(8)], "integer": range(8)}
    with database(tmp_path / "in.db") as db:
        db.execute(f"create table t (k {kind} primary key, v) without rowid")
        db.executemany("insert into t values (?, ?)", [(key, n) for n, key in enumerate(keys[kind])])
    first, *rest = pieces(tmp_path / "in.db")
    assert [one["v"] for one in documents([first])] == [0, 1, 2]
    assert documents(pieces(tmp_path / "in.db", first.position)) == documents(rest)
    assert [one["v"] for one in documents(rest)] == [3, 4, 5, 6, 7]


def test_rows_at_both_ends_of_what_a_rowid_can_be_are_read(tmp_path: Path) -> None:
    ends = [-(2**63), 0, 2**63 - 1]
    with database(tmp_path / "in.db") as db:
        db.execute("create table t (id integer primary key)")
        db.executemany("insert into t values (?)", [(one,) for one in ends])
    found = pieces(tmp_path / "in.db")
    assert [one["id"] for one in documents(found)] == ends
    assert pieces(tmp_path / "in.db", found[-1].position) == []


def test_a_column_that_is_called_rowid_is_not_the_rowid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_ROWS", 2)
    with database(tmp_path / "in.db") as db:
        db.execute("create table t (RowId text, v)")
        db.executemany("insert into t values ('same', ?)", [(n,) for n in range(5)])
    plan = sqlite(str(tmp_path / "in.db")).plan(Namespaces(), 1)
    assert plan.ids == {"t": ("_rowid_",)}
    assert documents(pieces(tmp_path / "in.db")) == [{"_rowid_": n + 1, "RowId": "same", "v": n} for n in range(5)]
    with database(tmp_path / "in.db") as db:
        db.execute("create table u (rowid, oid, _rowid_)")
    with pytest.raises(Unsupported, match="Table u has columns named rowid"):
        sqlite(str(tmp_path / "in.db")).plan(Namespaces(), 1)


def test_a_plan_tells_how_many_rows_the_chosen_tables_have(tmp_path: Path) -> None:
    with database(tmp_path / "in.db") as db:
        db.execute("create table t (id integer primary key)")
        db.executemany("insert into t values (?)", [(n * 1_000_000,) for n in range(7)])  # rowids far apart
        db.execute("create table u (k text primary key) without rowid")
        db.executemany("insert into u values (?)", [("a",), ("b",)])
        db.execute("create table empty (id integer primary key)")
    adaptor = sqlite(str(tmp_path / "in.db"))
    assert adaptor.plan(Namespaces(), 3).size == CopySize(total=9, unit="documents", estimate=True)
    assert adaptor.plan(Namespaces("^u$"), 3).size == CopySize(total=2, unit="documents", estimate=True)
    assert adaptor.plan(Namespaces("^empty$"), 3).size is None


@pytest.mark.parametrize("name", ["in#1.db", "in?mode=rw.db", "in%41.db"])
def test_a_path_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    with database(tmp_path / name) as db:
        db.execute("create table t (id integer primary key)")
        db.execute("insert into t values (1)")
    assert documents(pieces(tmp_path / name)) == [{"id": 1}]


def test_infinity_is_no_null(tmp_path: Path) -> None:
    with database(tmp_path / "in.db") as db:
        db.execute("create table t (id integer primary key, v)")
        db.execute("insert into t values (1, 9e999), (2, -9e999), (3, 0.5)")
    found = [one["v"] for one in documents(pieces(tmp_path / "in.db"))]
    assert found == [math.inf, -math.inf, 0.5]


@pytest.mark.parametrize("without", ["", "without rowid"])
def test_text_that_is_not_in_utf8_is_a_poison_record(tmp_path: Path, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_ROWS", 2)
    with database(tmp_path / "in.db") as db:
        db.execute(f"create table t (id integer primary key, v text) {without}")
        db.execute("insert into t values (1, 'ok'), (2, cast(x'ff41' as text)), (3, 'ä')")
    first, second = pieces(tmp_path / "in.db")
    assert first.bad == {1: "Row 2 of table t has text that is not in UTF-8: v."}
    assert documents([first, second]) == [{"id": 1, "v": "ok"}, {"id": 2, "v": "\\xffA"}, {"id": 3, "v": "ä"}]
    assert second.bad == {}


def test_other_values_beside_text_that_is_not_in_utf8_are_what_they_are(tmp_path: Path) -> None:
    values_beside = [None, 2**63 - 1, 0.5, b"\x00\xff", b"", "4142", "", "x\0y"]
    with database(tmp_path / "in.db") as db:
        db.execute("create table t (id integer primary key, v, w, twice as (v || v))")
        db.executemany("insert into t values (?, 'ok', ?)", enumerate(values_beside))
    good = documents(pieces(tmp_path / "in.db"))
    with database(tmp_path / "in.db") as db:
        db.execute("update t set v = cast(x'ff' as text)")
    [piece] = pieces(tmp_path / "in.db")
    assert piece.bad.keys() == set(range(len(values_beside)))
    assert piece.bad[0] == "Row 0 of table t has text that is not in UTF-8: v, twice."
    assert [one | {"v": "ok", "twice": "okok"} for one in documents([piece])] == good


@pytest.mark.parametrize(("encoding", "codec"), [("UTF-16le", "utf-16-le"), ("UTF-16be", "utf-16-be")])
def test_text_in_another_encoding_is_read(tmp_path: Path, encoding: str, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_ROWS", 1)
    broken = "A".encode(codec) + "\ud800".encode(codec, "surrogatepass")
    with database(tmp_path / "in.db") as db:
        db.execute(f"pragma encoding = '{encoding}'")
        db.execute("create table t (k text primary key, v) without rowid")
        db.execute(f"insert into t values ('ä', 1), (cast(x'{broken.hex()}' as text), 2), ('z', 3)")
    found = pieces(tmp_path / "in.db")
    assert sorted((one["v"], one["k"][0]) for one in documents(found)) == [(1, "ä"), (2, "A"), (3, "z")]
    assert sum(len(piece.bad) for piece in found) == 1


def test_a_sinks_rows_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with database(tmp_path / "in.db") as db:
        db.execute("create table t (id integer primary key, v)")
        db.execute("insert into t values (1, cast(x'ff41' as text))")
    with pytest.raises(Unavailable, match=r"not in UTF-8: b'\\xffA'"):
        list(sqlite(str(tmp_path / "in.db")).rows("t"))


def test_a_key_that_is_not_in_utf8_is_gone_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_ROWS", 1)
    with database(tmp_path / "in.db") as db:
        db.execute("create table t (k text primary key, v) without rowid")
        db.execute("insert into t values ('a', 1), (cast(x'ff' as text), 2), (cast(x'ff41' as text), 3), (x'00', 4)")
    assert [one["v"] for one in documents(pieces(tmp_path / "in.db"))] == [1, 2, 3, 4]


@pytest.mark.parametrize("without", ["", "without rowid"])
def test_a_piece_holds_few_rows_where_they_are_large(tmp_path: Path, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_BYTES", 1000)
    with database(tmp_path / "in.db") as db:
        db.execute(f"create table t (id integer primary key, v) {without}")
        db.executemany("insert into t values (?, ?)", [(n, "x" * 400) for n in range(10)])
    found = pieces(tmp_path / "in.db")
    assert [len(one.values) for one in found] == [3, 3, 3, 1]
    assert [one["id"] for one in documents(found)] == list(range(10))


def test_a_table_whose_name_begins_like_the_databases_own_is_read(tmp_path: Path) -> None:
    with database(tmp_path / "in.db") as db:
        db.execute("create table sqlites (id integer primary key autoincrement)")  # brings sqlite_sequence with it
        db.execute("insert into sqlites values (1)")
    assert documents(pieces(tmp_path / "in.db")) == [{"id": 1}]
