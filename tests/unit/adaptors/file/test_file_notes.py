"""Notes are a line each; what a dead process or a power cut leaves of the last one does not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.adaptors.file.file_notes import FileNote, FileNotes
from headwater.core.errors import Damaged
from headwater.core.files import Files

FIRST, SECOND, THIRD = (FileNote(0, n, n * 10, n * 10, 7) for n in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.jsonl"


@pytest.fixture
def notes(path: Path) -> FileNotes:
    return FileNotes(Files(), path)


def test_the_last_note_holds(notes: FileNotes) -> None:
    assert notes.last() is None
    for one in (FIRST, SECOND):
        notes.write(one)
        assert notes.last() == one
    notes.clear()
    assert notes.last() is None
    notes.clear()


def test_a_folder_in_the_place_of_the_notes_is_told_and_not_waited_for(notes: FileNotes, path: Path) -> None:
    path.mkdir()
    for ask in (notes.last, lambda: notes.write(FIRST), lambda: notes.as_long(10), notes.clear):
        with pytest.raises(Damaged, match=r"notes\.jsonl is a folder"):
            ask()


@pytest.mark.parametrize("torn", [b"[0,3,", b"[0,3,30,30,7,0]", b"\x00" * 12 + b"\n"], ids=["half", "without its end", "never on disk"])
def test_a_torn_line_does_not_count_and_the_next_one_replaces_it(notes: FileNotes, path: Path, torn: bytes) -> None:
    notes.write(FIRST)
    notes.write(SECOND)
    with path.open("ab") as opened:
        opened.write(torn)
    assert notes.last() == SECOND
    notes.write(THIRD)
    assert notes.last() == THIRD
    assert path.read_bytes().count(b"\n") == 3


def test_many_notes_are_replaced_by_the_last_one(notes: FileNotes, path: Path) -> None:
    notes.write(FIRST)
    path.write_bytes(path.read_bytes() * 5000)
    notes.write(SECOND)
    assert notes.last() == SECOND
    assert path.stat().st_size < 100


def test_notes_that_cannot_be_read_are_damaged(notes: FileNotes, path: Path) -> None:
    path.write_bytes(b"no notes\nat all\n")
    with pytest.raises(Damaged, match="cannot be understood"):
        notes.last()
