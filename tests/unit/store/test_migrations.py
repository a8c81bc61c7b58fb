"""Numbered files of statements."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Differs, NewerFormat
from headwater.store.migrations import Migration, Migrations, read_migrations


def test_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "0002_b.sql").write_text("create b;")
    (tmp_path / "0001_a.sql").write_text("create a;")
    (tmp_path / "0001_a.cql").write_text("create c;")
    (tmp_path / "readme.md").write_text("")
    steps = read_migrations("shelf", tmp_path, suffix="sql").steps
    assert [(step.number, step.name, step.statements) for step in steps] == [(1, "a", ["create a"]), (2, "b", ["create b"])]


@pytest.mark.parametrize("names", [["0002_b.sql"], ["0001_a.sql", "0003_b.sql"], ["0001_a.sql", "0001_b.sql"], ["1_a.sql"], ["0000_a.sql"]])
def test_a_gap_a_double_and_a_name_that_is_none_are_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("x;")
    with pytest.raises(ValueError):
        read_migrations("shelf", tmp_path, suffix="sql")


def test_statements_end_with_a_semicolon_at_the_end_of_a_line() -> None:
    step = Migration(
        1, "a", "-- a comment; of one line;\ncreate a (\n  b text default ';;'\n) ; \n\ninsert into a values ('x; y');\ncreate c"
    )
    assert step.statements == ["create a (\n  b text default ';;'\n)", "insert into a values ('x; y')", "create c"]


def test_what_is_missing_follows_from_what_is_noted() -> None:
    one, two, other = Migration(1, "a", "a;"), Migration(2, "b", "b;"), Migration(1, "a", "c;")
    steps = Migrations("shelf", (one, two))
    assert steps.missing({}, "here") == (one, two)
    assert steps.missing({1: one.checksum}, "here") == (two,)
    assert steps.missing({1: one.checksum, 2: two.checksum}, "here") == ()
    with pytest.raises(NewerFormat, match="shelf in here"):
        steps.missing({1: one.checksum, 2: two.checksum, 3: "x"}, "here")
    with pytest.raises(Differs):
        steps.missing({1: other.checksum}, "here")
    with pytest.raises(Differs, match="0001_a"):
        steps.missing({2: two.checksum}, "here")
