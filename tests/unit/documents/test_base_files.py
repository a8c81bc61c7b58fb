"""Where base copies are kept on a disk: the note decides which one counts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headwater.core.errors import Damaged
from headwater.core.files import Files
from headwater.documents.base_files import DocumentBaseNote, FolderBaseFiles, read_note


def note(applied: int, content: bytes, *, generation: str = "g") -> DocumentBaseNote:
    digest = hashlib.sha256(content).hexdigest()
    name = f"0-{applied}-{digest[:8]}.db"
    return DocumentBaseNote(partition=0, generation=generation, applied=applied, file=name, size=len(content), sha256=digest, created=1)


def made(folder: Path, content: bytes) -> Path:
    path = folder / "made.db"
    path.write_bytes(content)
    return path


def test_the_last_file_that_was_kept_counts_and_the_one_before_is_removed(tmp_path: Path) -> None:
    folder, target = tmp_path / "base", tmp_path / "fetched"
    folder.mkdir()
    kept = FolderBaseFiles(folder, Files())
    assert kept.note(0, "g") is None
    for applied, content in ((3, b"first"), (9, b"second")):
        kept.keep(made(tmp_path, content), note(applied, content))
        found = kept.note(0, "g")
        assert found == note(applied, content)
        assert kept.fetch(found, target)
        assert target.read_bytes() == content
    assert kept.note(0, "another") is None
    assert not kept.fetch(note(3, b"first"), target)
    assert {path.name for path in folder.iterdir()} == {"0.json", found.file}
    assert kept.where(found.file) == str(folder / found.file)


def test_a_rotten_note_is_never_taken() -> None:
    with pytest.raises(Damaged, match="of partition 0"):
        read_note(b'{"partition":0,"generation":"g","applied":1,"file":"x","size":1,"sha256":"","created":1}', 1, "there")
    with pytest.raises(Damaged, match="The base copy there"):
        read_note(b"{", 1, "there")
