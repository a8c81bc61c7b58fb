"""Which SQLite is used, and what its errors mean."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from headwater.core.errors import BadInput, Damaged, DiskFull, OutcomeUnknown, ReadOnly, Timeout, Unavailable, Unsupported
from headwater.store.sqlite.library import check_version, connect, explained, explaining, open_file, prepare


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.44.5", "3.45.0", "3.50.6", "3.51.0", "3.51.2"])
def test_a_library_that_can_damage_files_is_refused(version: str) -> None:
    with pytest.raises(Unsupported, match=version):
        check_version(version)


@pytest.mark.parametrize("version", ["3.44.6", "3.50.7", "3.51.3", "3.52.0", "3.54.1", "4.0.0"])
def test_a_mended_one_is_taken(version: str) -> None:
    check_version(version)


def test_the_installed_one_is_mended() -> None:
    check_version(apsw.sqlite_lib_version())


@pytest.mark.parametrize("name", [":memory:", "file:x?mode=memory", "a b%c?d#e.db", "ü.db", "'\".db", os.fsdecode(b"\xff.db")])
def test_a_name_is_a_files_name_whatever_it_looks_like(tmp_path: Path, name: str) -> None:
    with connect(tmp_path / name, timeout=1) as connection:
        connection.execute("create table a (b)")
    connection.close()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_name_is_not_cut_at_a_null_character(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="null character"):
        connect(tmp_path / "a\0.db", timeout=1)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_opening_may_be_had_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(apsw.CantOpenError):
        open_file(tmp_path / "missing" / "a.db", timeout=1)


def test_what_a_connection_is_set_to(tmp_path: Path) -> None:
    for synced, level in ((True, 2), (False, 1)):
        connection = connect(tmp_path / f"{synced}.db", timeout=1)
        prepare(connection, synced=synced)
        assert [connection.pragma(name) for name in ("journal_mode", "synchronous", "wal_autocheckpoint")] == ["wal", level, 16_384]
        connection.close()


def test_a_missing_file_is_not_made_for_readers(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened"):
        connect(tmp_path / "a.db", timeout=1, read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (apsw.BusyError, Timeout),
        (apsw.LockedError, Timeout),
        (apsw.FullError, DiskFull),
        (apsw.ReadOnlyError, ReadOnly),
        (apsw.CorruptError, Damaged),
        (apsw.NotADBError, Damaged),
        (apsw.CantOpenError, Unavailable),
        (apsw.IOError, Unavailable),
        (apsw.ConstraintError, BadInput),
        (apsw.SQLError, BadInput),
    ],
)
def test_an_error_names_the_file(error: type[apsw.Error], kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"/x/a\.db") as caught, explaining("/x/a.db", timeout=1):
        raise error("why")
    assert type(caught.value) is kind


def test_a_disk_that_fails_while_committing_leaves_it_open() -> None:
    assert isinstance(explained(apsw.IOError("why"), "a", timeout=1, committing=True), OutcomeUnknown)
    assert isinstance(explained(apsw.FullError("why"), "a", timeout=1, committing=True), DiskFull)
