"""Files of named statements."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.store.statements import read_statements


def test_statements_come_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_text("-- about\n\n-- name: one\nselect 1;\n\n-- why\n-- name: two\nselect a,\n    b -- c\nfrom d;\n")
    assert dict(read_statements(path)) == {"one": "select 1", "two": "select a,\n    b -- c\nfrom d"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("select 1;\n-- name: one\nselect 1;\n", "before its first name"),
        ("-- name: one\nselect 1;\n-- name: one\nselect 2;\n", "two statements"),
        ("-- name: one\n-- name: two\nselect 2;\n", "no statement of the name one"),
    ],
)
def test_a_file_that_is_unclear_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "a.sql"
    path.write_text(text)
    with pytest.raises(ValueError, match=problem):
        read_statements(path)
