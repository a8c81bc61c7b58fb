"""Base copies of partitions: written when they are verified, used where the log has lost its beginning."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.unit.documents.logged import TOPIC, LoggedDocuments

from headwater.core.errors import Damaged, Differs, HeadwaterError
from headwater.core.files import Files
from headwater.documents.base import DocumentBases
from headwater.documents.base_files import DocumentBaseNote, FolderBaseFiles
from headwater.documents.rebuild import rebuild_partition
from headwater.documents.verify import verify_documents, verify_partition
from headwater.store.sqlite.database import Database
from headwater.testing.faults import FailingFiles


@pytest.fixture
def bases(tmp_path: Path) -> DocumentBases:
    return DocumentBases(tmp_path / "base")


def test_without_one_there_is_none(logged: LoggedDocuments, bases: DocumentBases) -> None:
    assert bases.note(logged.topic, 0) is None
    with bases.opened(logged.topic, 0) as base:
        assert base is None


def test_a_store_is_folded_anew_from_one(logged: LoggedDocuments, bases: DocumentBases) -> None:
    end = logged.history.end
    assert bases.write(logged.log, logged.store, logged.topic, 0).applied == end
    logged.log.delete_before(TOPIC, 0, end - 1, part="documents")
    logged.history.put("c~", "zz", p=1)
    logged.append()
    before = logged.store.digest()
    with bases.opened(logged.topic, 0) as base:
        assert verify_partition(logged.log, logged.store, logged.topic, 0, base=base).difference == ""
        rebuild_partition(logged.log, logged.store, logged.topic, 0, base=base)
    assert logged.store.digest() == before
    [found] = verify_documents(logged.log, logged.stores, logged.topic, bases=partial(bases.opened, logged.topic))
    assert found.difference == ""


def test_the_next_one_begins_with_the_one_before(logged: LoggedDocuments, bases: DocumentBases) -> None:
    first = bases.write(logged.log, logged.store, logged.topic, 0).applied
    logged.log.delete_before(TOPIC, 0, first, part="documents")
    logged.history.delete("c~", "01")
    logged.append()
    bases.write_to(logged.log, logged.store, logged.topic, 0, first)
    note = bases.note(logged.topic, 0)
    assert note is not None
    assert note.applied == first
    bases.write_to(logged.log, logged.store, logged.topic, 0, first + 1)
    note = bases.note(logged.topic, 0)
    assert note is not None
    assert note.applied == first + 1
    assert {path.name for path in bases.folder.iterdir()} == {"0.json", "lock", note.file}
    with bases.opened(logged.topic, 0) as base:
        assert base is not None
        assert base.digest() == logged.store.digest()


def test_a_store_that_is_wrong_becomes_none(logged: LoggedDocuments, bases: DocumentBases, tmp_path: Path) -> None:
    with Database(tmp_path / "documents" / "0.db", synced=False) as database:
        database.run("delete from content where item = '05'")
    with pytest.raises(Differs, match="c~/05"):
        bases.write(logged.log, logged.store, logged.topic, 0)
    assert bases.note(logged.topic, 0) is None


def test_one_of_another_topic_is_none(logged: LoggedDocuments, bases: DocumentBases) -> None:
    bases.write(logged.log, logged.store, logged.topic, 0)
    logged.log.delete_topic(TOPIC, part="documents")
    renewed = logged.log.create_topic(TOPIC, partitions=1, part="documents")
    assert bases.note(renewed, 0) is None


def test_one_that_has_rotted_is_never_used(logged: LoggedDocuments, bases: DocumentBases) -> None:
    bases.write(logged.log, logged.store, logged.topic, 0)
    note = bases.note(logged.topic, 0)
    assert note is not None
    path = bases.folder / note.file
    whole = path.read_bytes()
    path.write_bytes(whole[:5000] + b"\xff" + whole[5001:])
    with pytest.raises(Damaged, match="digest"), bases.opened(logged.topic, 0):
        pass
    path.unlink()
    with pytest.raises(Damaged, match="not there"), bases.opened(logged.topic, 0):
        pass
    (bases.folder / "0.json").write_bytes(b"{")
    with pytest.raises(Damaged, match=r"0\.json"):
        bases.note(logged.topic, 0)
    (bases.folder / "0.json").rename(bases.folder / "1.json")
    (bases.folder / "1.json").write_bytes(b'{"partition":0,"generation":"g","applied":1,"file":"x","size":1,"sha256":"","created":1}')
    with pytest.raises(Damaged, match="of partition 0"):
        bases.note(logged.topic, 1)


def test_a_copy_that_is_replaced_while_it_is_opened_is_opened_as_the_new_one(logged: LoggedDocuments, tmp_path: Path) -> None:
    """By its owner on another machine, which removes the file before."""
    owner, folder = DocumentBases(tmp_path / "base"), tmp_path / "base"

    class Replaced(FolderBaseFiles):
        def fetch(self, note: DocumentBaseNote, target: Path) -> bool:
            if note.applied == first:
                logged.history.put("c~", "zz", p=1)
                logged.append()
                owner.write(logged.log, logged.store, logged.topic, 0)
            return super().fetch(note, target)

    first = owner.write(logged.log, logged.store, logged.topic, 0).applied
    with DocumentBases(folder, kept=Replaced(folder, Files())).opened(logged.topic, 0) as base:
        assert base is not None
        assert base.digest() == logged.store.digest()


def test_one_in_the_folder_counts_until_one_is_kept_elsewhere(logged: LoggedDocuments, bases: DocumentBases, tmp_path: Path) -> None:
    """As where a store of several machines had its base copies on one of them."""
    first = bases.write(logged.log, logged.store, logged.topic, 0).applied
    logged.log.delete_before(TOPIC, 0, first, part="documents")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept = FolderBaseFiles(elsewhere, Files())
    both = DocumentBases(bases.folder, kept=kept)
    assert both.note(logged.topic, 0) == bases.note(logged.topic, 0)
    with both.opened(logged.topic, 0) as base:
        assert base is not None
        assert base.digest() == logged.store.digest()
    both.write_to(logged.log, logged.store, logged.topic, 0, first)
    note = kept.note(0, logged.topic.generation)
    assert note is not None, "the log is not shortened by what other machines lack"
    assert both.note(logged.topic, 0) == note != bases.note(logged.topic, 0)
    (bases.folder / "0.json").write_bytes(b"{")
    with both.opened(logged.topic, 0) as base:
        assert base is not None
        assert base.digest() == logged.store.digest()


def test_whichever_call_fails_the_one_before_or_the_new_one_counts(logged: LoggedDocuments, tmp_path: Path) -> None:
    number = 0
    while True:
        number += 1
        folder = tmp_path / f"base-{number}"
        DocumentBases(folder).write(logged.log, logged.store, logged.topic, 0)
        files = FailingFiles(number)
        try:
            DocumentBases(folder, files=files).write(logged.log, logged.store, logged.topic, 0)
        except HeadwaterError:
            assert files.failed
        with DocumentBases(folder).opened(logged.topic, 0) as base:
            assert base is not None
            assert base.digest() == logged.store.digest()
        DocumentBases(folder).write(logged.log, logged.store, logged.topic, 0)
        assert len(list(folder.glob("*.db"))) == 1
        assert not list(folder.glob("tmp-*"))
        if not files.failed:
            break
    assert number > 5
